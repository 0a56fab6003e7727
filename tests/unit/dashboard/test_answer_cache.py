"""Requests for the same thing within two seconds share one answer (`dashboard#budgets`, `dashboard#shared-answers`)."""

import asyncio

import pytest

from bigfleet.aio.clock import Clock
from bigfleet.dashboard.answer_cache import AnswerCache
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual


class Source:
    """Answers after a while with the number of calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.asked = clock, 0

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await self._clock.sleep(0.5)
        if number == 3:
            raise OSError("away")
        return number


@pytest.mark.rule("dashboard#shared-answers")
def test_a_hundred_requests_at_once_and_within_two_seconds_get_one_answer() -> None:
    async def story() -> None:
        clock = VirtualClock()
        source, answers = Source(clock), AnswerCache(clock)
        reply = await asyncio.gather(*(answers.get("needs", source) for _ in range(100)))
        assert set(reply) == {1}
        await clock.sleep(1.9)
        assert await answers.get("needs", source) == 1
        await clock.sleep(0.2)
        assert await answers.get("needs", source) == 2
        answers.forget()
        with pytest.raises(OSError, match="away"):  # raised to the waiting request, and not kept
            await answers.get("needs", source)
        assert await answers.get("needs", source) == 4

    run_virtual(story())


def test_a_cancelled_request_does_not_cancel_the_call_for_others() -> None:
    async def story() -> None:
        clock = VirtualClock()
        source, answers = Source(clock), AnswerCache(clock)
        impatient = asyncio.ensure_future(answers.get("needs", source))
        patient = asyncio.ensure_future(answers.get("needs", source))
        await clock.sleep(0.1)
        impatient.cancel()
        assert await patient == 1
        assert source.asked == 1

    run_virtual(story())


def test_only_so_many_answers_are_kept_the_newest_ones() -> None:
    async def story() -> None:
        clock = VirtualClock()
        answers = AnswerCache(clock, fresh_s=1_000.0)

        async def once(number: int) -> int:
            return number

        for number in range(200):
            await answers.get(number, lambda number=number: once(number))  # type: ignore[misc]
        source = Source(clock)
        assert await answers.get(199, source) == 199
        assert await answers.get(0, source) == 1  # asked again
        assert source.asked == 1

    run_virtual(story())
