"""Garbage collection at chosen moments, so that no full pass over the heap falls into the middle of something.

Why: a process with thousands of sessions has millions of objects that live for ever, and Python looks at every one of them
whenever enough new ones have come; that takes a second or more, during which nothing else runs.
Must never: leave the collector off, or keep garbage for ever: what was set aside is looked at as a whole once an hour.
Rules: operator 15.6 and shard 4.4 (nothing holds the loop for long).
How: objects that are alive are set aside (`gc.freeze`, which costs nothing) after a look at the young ones only. Reference
counting frees them as before; only unreachable cycles among them wait for the hour. That is done every second, so that it
is little each time: what thousands of sessions renew within ten seconds is hundreds of thousands of objects, and to look at
those at once takes a fifth of a second. In between Python looks at the youngest by itself, as ever, but never at all.
"""

import gc

from bigfleet.aio.clock import Clock

EVERY_S = 1.0
FULL_EVERY = 3600  # of those
_NEVER = 1_000_000  # looks at the middle-aged before Python looks at all; they are set aside long before


async def freeze_live_objects(clock: Clock) -> None:
    """Keep collections short, until cancelled."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        while True:
            for _ in range(FULL_EVERY):
                await clock.sleep(EVERY_S)
                gc.collect(1)
                gc.freeze()
            gc.unfreeze()
            gc.collect()
            gc.freeze()
    finally:
        gc.set_threshold(young, middle, old)


def pause_collection() -> None:
    """Collect nothing while a cache fills; what a reader drops meanwhile goes by its reference count."""
    gc.disable()


def freeze_and_resume() -> None:
    """Collect again, but never look at what is there now: it is the cache, and stays."""
    gc.freeze()
    gc.enable()


def unfreeze_and_resume() -> None:
    """Look at everything again, since what the cache was for has ended."""
    gc.unfreeze()
    gc.enable()
