"""Back-off: exact waits in virtual time, and what the endless loop does with each kind of end."""

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import accumulate

import pytest

from bigfleet.aio.backoff import RECONNECT, Attempt, Backoff, BackoffPolicy, keep_connected
from bigfleet.aio.clock import monotonic_s, timeout
from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual

PLAIN = BackoffPolicy(jitter=0.0)


def stream() -> RandomStream:
    return SeededRng(11).stream("backoff")


def ignore(failure: Exception | None, wait_s: float) -> None:
    """For tests that look at the sessions only."""


def test_waits_double_from_half_a_second_to_thirty() -> None:
    backoff = Backoff(stream(), PLAIN)
    assert [backoff.next_s() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    backoff.reset()
    assert backoff.next_s() == 0.5


def test_jitter_adds_up_to_a_fifth_and_never_shortens() -> None:
    backoff, plain = Backoff(stream()), Backoff(stream(), PLAIN)
    shares = [backoff.next_s() / plain.next_s() for _ in range(300)]
    assert min(shares) >= 1.0
    assert max(shares) <= 1.2
    assert min(shares) < 1.02
    assert max(shares) > 1.18


def test_redial_waits_half_a_second_doubling_to_thirty() -> None:
    dialled: list[float] = []

    async def main() -> None:
        clock = VirtualClock()

        async def refused(attempt: Attempt) -> None:
            dialled.append(monotonic_s(clock))
            raise ConnectionRefusedError

        with pytest.raises(TimeoutError):
            async with timeout(clock, 65):
                await keep_connected(refused, clock=clock, backoff=Backoff(stream(), PLAIN), on_ended=ignore)

    run_virtual(main())
    assert dialled == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5]


def run_sessions(*lives: tuple[bool, float]) -> list[float]:
    """Run sessions that are established or not and live so long, then one that never ends; return the waits."""
    waits: list[float] = []
    rest = list(lives)

    async def main() -> None:
        clock = VirtualClock()

        async def session(attempt: Attempt) -> None:
            if not rest:
                await asyncio.Event().wait()
            established, lived_s = rest.pop(0)
            if established:
                attempt.established()
            await clock.sleep(lived_s)

        with pytest.raises(TimeoutError):
            async with timeout(clock, 10_000):
                await keep_connected(
                    session,
                    clock=clock,
                    backoff=Backoff(stream(), PLAIN),
                    on_ended=lambda _failure, wait_s: waits.append(wait_s),
                )

    run_virtual(main())
    return waits


@pytest.mark.rule("operator#reconnect-delays")
def test_an_established_session_brings_the_wait_back_however_short_it_was() -> None:
    assert run_sessions((False, 1), (False, 1), (True, 0), (False, 1)) == [0.5, 1, 0.5, 1]


def test_a_long_session_that_was_never_established_does_not() -> None:
    assert run_sessions((False, 1), (False, 600), (False, 1)) == [0.5, 1, 2]


@pytest.mark.rule("operator#reconnect-delays")
def test_an_operator_dials_four_times_in_the_first_five_seconds_after_its_shard_ended() -> None:
    backoff = Backoff(stream(), replace(RECONNECT, jitter=0.0))
    dialled_s = list(accumulate(backoff.next_s() for _ in range(13)))
    # With the most jitter: 0.6, 1.5, 2.9, 4.9 s. A shard that needs 2 s to start is found by the third dial.
    assert dialled_s[:4] == [0.5, 1.25, 2.375, 4.0625]
    assert dialled_s[-1] - dialled_s[-2] == 30


@pytest.mark.rule("operator#reconnect-delays")
def test_five_thousand_operators_that_lost_one_shard_come_back_scattered() -> None:
    streams = (SeededRng(number).stream("backoff") for number in range(5_000))
    backoffs = [Backoff(own, RECONNECT) for own in streams]
    third_s = [sum(backoff.next_s() for _ in range(3)) for backoff in backoffs]
    busiest = Counter(int(dial_s * 20) for dial_s in third_s).most_common(1)[0][1]
    assert busiest < 5_000 / 4  # in any twentieth of a second


def test_a_session_closed_by_the_peer_is_followed_by_another_and_told_without_error() -> None:
    ends: list[Exception | None] = []
    failures: list[Exception | None] = [
        None,
        ConnectionResetError("cut"),
        InvalidFieldError("id", "", "a name"),
    ]

    async def main() -> None:
        clock = VirtualClock()

        async def session(attempt: Attempt) -> None:
            if len(ends) == len(failures):
                await asyncio.Event().wait()
            failure = failures[len(ends)]
            if failure is not None:
                raise failure

        with pytest.raises(TimeoutError):
            async with timeout(clock, 100):
                await keep_connected(
                    session,
                    clock=clock,
                    backoff=Backoff(stream(), PLAIN),
                    on_ended=lambda failure, _wait_s: ends.append(failure),
                )

    run_virtual(main())
    assert ends == failures


def test_a_defect_ends_the_loop_instead_of_being_tried_again() -> None:
    async def broken(attempt: Attempt) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        await keep_connected(broken, clock=VirtualClock(), backoff=Backoff(stream(), PLAIN), on_ended=ignore)

    with pytest.raises(ZeroDivisionError):
        run_virtual(main())


@pytest.mark.parametrize("when_s", [0.2, 0.7])
def test_a_cancellation_ends_the_loop_in_a_session_and_in_a_wait(when_s: float) -> None:
    async def main() -> float:
        clock = VirtualClock()

        async def session(attempt: Attempt) -> None:
            await clock.sleep(0.5)

        loop = keep_connected(session, clock=clock, backoff=Backoff(stream(), PLAIN), on_ended=ignore)
        task = asyncio.create_task(loop)
        await clock.sleep(when_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return monotonic_s(clock)

    assert run_virtual(main()) == when_s


@pytest.mark.parametrize(
    ("field", "policy"),
    [
        ("first_s", lambda: BackoffPolicy(first_s=0)),
        ("first_s", lambda: BackoffPolicy(first_s=31)),
        ("factor", lambda: BackoffPolicy(factor=0.5)),
        ("jitter", lambda: BackoffPolicy(jitter=1.5)),
        ("healthy_after_s", lambda: BackoffPolicy(healthy_after_s=-1)),
    ],
)
def test_a_policy_that_makes_no_sense_names_its_field(field: str, policy: type[BackoffPolicy]) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        policy()
    assert caught.value.field == field


def test_a_wait_can_be_made_the_longest_at_once() -> None:
    backoff = Backoff(stream(), PLAIN)
    backoff.lengthen()
    assert [backoff.next_s() for _ in range(2)] == [30, 30]
    backoff.reset()
    assert backoff.next_s() == 0.5
