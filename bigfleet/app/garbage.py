"""Garbage collection at chosen times, so that no full collection interrupts the event loop.

Why: a process with thousands of sessions has millions of long-lived objects. A full collection visits them all, which takes
a second or more and stops everything else.
How: every second, a collection of the young generations, `gc.freeze` for the survivors, and a full collection of what is left,
which is nothing, since only that makes Python empty its lists of freed objects. Reference counting still frees
frozen objects; unreachable cycles among them wait for the full collection, once an hour. Every second, because thousands of
sessions renew hundreds of thousands of objects within ten seconds, and one collection of those takes a fifth of a second.
In a process that decides, Python's own collections would visit what a decision is made of while it is made, for a tenth of the
time and more. There these rounds alone collect, between decisions; a threshold bounds what may pile up until then.
Must never: leave the collector off, or keep garbage for ever.
Rules: `operator#kubernetes-client`, `shard#never-waits`, `shard#collection`, `providers#hook-start`.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bigfleet.aio.clock import Clock

EVERY_S = 1.0
FULL_EVERY = 3600  # rounds of EVERY_S
BUSY_AT_MOST_S = 5.0
"""For how long a round waits for the end of a decision."""
YOUNG_AT_MOST = 500_000
"""After this many new objects Python collects by itself also in a process that decides; they take about 50 MB."""
_NEVER = 1_000_000  # threshold of the oldest generation: Python never starts a full collection itself
_LOOK_S = 0.05  # how often a round that waits looks whether the decision has ended


async def freeze_live_objects(clock: Clock, deciding: Callable[[], bool] | None = None) -> None:
    """Collect and freeze every second, until cancelled.

    With `deciding` Python starts no collection itself, and rounds wait while it is true.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young if deciding is None else YOUNG_AT_MOST, middle, _NEVER)
    try:
        while True:
            for _ in range(FULL_EVERY):
                await clock.sleep(EVERY_S)
                if deciding is not None:
                    await _wait_while(deciding, clock)
                gc.collect(1)
                gc.freeze()
                gc.collect()  # of nothing: it empties the lists of freed objects, which keep memory from being returned
            gc.unfreeze()
            gc.collect()
            gc.freeze()
    finally:
        gc.set_threshold(young, middle, old)


async def _wait_while(deciding: Callable[[], bool], clock: Clock) -> None:
    left_s = BUSY_AT_MOST_S
    while deciding() and left_s > 0:
        await clock.sleep(_LOOK_S)
        left_s -= _LOOK_S


def pause_collection() -> None:
    """Turn the collector off while a cache fills; reference counting still frees objects."""
    gc.disable()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keep the collector off until the body ends or calls `freeze_and_resume`."""
    pause_collection()
    try:
        yield
    finally:
        unfreeze_and_resume()


def freeze_and_resume() -> None:
    """Freeze all objects, which are the filled cache, and turn the collector on."""
    gc.freeze()
    gc.enable()


def unfreeze_and_resume() -> None:
    """Unfreeze all objects, since the cache is no longer needed, and turn the collector on."""
    gc.unfreeze()
    gc.enable()
