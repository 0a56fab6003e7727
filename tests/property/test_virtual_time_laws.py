"""Laws of virtual time: timers run in the one right order, and no clock ever goes back or wakes anyone early."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.aio.rng import SeededRng
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual, virtual_loop

# Few distinct delays, so that equal due times are common.
TIMERS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40)
DRIFTS = st.integers(-999_999, 999_999)


@given(TIMERS)
def test_timers_run_as_a_stable_sort_by_due_time(timers: list[tuple[int, bool]]) -> None:
    async def main() -> list[tuple[int, int]]:
        loop = virtual_loop()
        ran: list[tuple[int, int]] = []

        def run(number: int) -> None:
            ran.append((loop.now_ns, number))

        handles = [loop.call_at_ns(due, run, number) for number, (due, _) in enumerate(timers)]
        for handle, (_, cancelled) in zip(handles, timers, strict=True):
            if cancelled:
                handle.cancel()
        await asyncio.sleep(1)
        return ran

    kept = [(due, number) for number, (due, cancelled) in enumerate(timers) if not cancelled]
    assert run_virtual(main()) == sorted(kept)


@settings(deadline=None)
@given(DRIFTS, st.lists(st.tuples(st.integers(0, 10**12), DRIFTS), max_size=8))
def test_a_host_never_wakes_early_by_its_own_clock_and_its_time_never_goes_back(
    drift_ppm: int, naps: list[tuple[int, int]]
) -> None:
    async def main() -> None:
        clock = VirtualClock(drift_ppm=drift_ppm)
        for nap_ns, next_drift in naps:
            before = clock.monotonic_ns()
            due = asyncio.Event()
            loop_before = virtual_loop().now_ns
            clock.call_later(nap_ns / 1e9, due.set)
            await due.wait()
            assert clock.monotonic_ns() - before >= round(nap_ns / 1e9 * 1e9)
            assert virtual_loop().now_ns >= loop_before
            stopped = clock.monotonic_ns(), clock.wall_ns()
            clock.set_drift(next_drift)
            assert (clock.monotonic_ns(), clock.wall_ns()) == stopped

    run_virtual(main())


@given(st.integers(), st.text(), st.lists(st.text(), max_size=5))
def test_a_stream_depends_on_seed_and_name_alone(seed: int, name: str, others: list[str]) -> None:
    crowded = SeededRng(seed)
    for other in others:
        if other != name:
            crowded.stream(other).random()
    assert crowded.stream(name).getrandbits(64) == SeededRng(seed).stream(name).getrandbits(64)
