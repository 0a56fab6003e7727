"""Lines that peers cause are limited, and say what was left out (`shard#session-log`)."""

import json
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest

from bigfleet.obs.limited_log import PER_EVENT, PER_NAME, WINDOW_S, LimitedLog
from bigfleet.obs.logs import build_logger
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Written:
    """A limited log and what it wrote."""

    def __init__(self) -> None:
        self.clock, self._stream = VirtualClock(), StringIO()
        log = build_logger(level="debug", form="json", stream=self._stream, now=lambda: NOON)
        self.limited = LimitedLog(log, self.clock, about="cluster")

    def lines(self) -> list[dict[str, Any]]:  # Any: values of JSON
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.mark.rule("shard#session-log")
def test_one_name_gets_few_lines_a_minute_and_the_next_one_says_how_many_were_left_out() -> None:
    async def story() -> None:
        written = Written()
        for _ in range(1000):
            written.limited.warning("refused", "greedy", why="bad")
        written.limited.warning("refused", "modest", why="bad")
        assert [line["cluster"] for line in written.lines()] == ["greedy"] * PER_NAME + ["modest"]
        await written.clock.sleep(WINDOW_S)
        written.limited.error("refused", "greedy", why="bad")
        assert written.lines()[-1]["lines_left_out"] == 1000 - PER_NAME
        written.limited.info("refused", "greedy")
        assert "lines_left_out" not in written.lines()[-1]

    run_virtual(story())


@pytest.mark.rule("shard#session-log")
def test_peers_without_a_name_are_limited_as_one() -> None:
    async def story() -> None:
        written = Written()
        for _ in range(1000):
            written.limited.warning("refused", "", why="bad")
        assert len(written.lines()) == PER_NAME

    run_virtual(story())


@pytest.mark.rule("shard#session-log")
def test_ever_new_names_are_limited_together_and_do_not_silence_another_event() -> None:
    async def story() -> None:
        written = Written()
        for number in range(40_000):
            written.limited.info("opened", f"c-{number}")
        assert len(written.lines()) == PER_EVENT
        written.limited.info("ended", "c-1")
        assert written.lines()[-1]["event"] == "ended"
        assert len(written.limited._windows) <= 32_769

    run_virtual(story())


def test_a_long_name_is_cut_and_says_how_long_it_was() -> None:
    async def story() -> None:
        written = Written()
        written.limited.debug("refused", "x" * 20_000_000, rows=3)
        (line,) = written.lines()
        assert line["cluster"].endswith("… (20000000 characters)")
        assert len(line["cluster"]) < 200
        assert line["rows"] == 3

    run_virtual(story())
