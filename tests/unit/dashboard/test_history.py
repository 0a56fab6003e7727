"""The recorder of the history: one sample per step, faults of the file told, charts that go on."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.dashboard.core.history_sample import HistorySample
from bigfleet.dashboard.core.history_steps import HistoryStep
from bigfleet.dashboard.core.observed import FleetPicture, MachineCount, ObservedShard, ShardPlace
from bigfleet.dashboard.history import History, HistoryTrouble
from bigfleet.dashboard.history_store import FILE, HistoryError, HistoryProblem, HistoryStore
from bigfleet.dashboard.html import Html
from bigfleet.dashboard.pages.history import history_problem

START = 1_800_000_000.0


def picture(at: float, idle: int = 1) -> FleetPicture:
    seen = ObservedShard("s", 1, at, 1, machines=(MachineCount("Idle", "Spot", idle, 1.0, 0.0, 0),))
    return FleetPicture(at, (ShardPlace("s", "a:1", at, at, "", seen),))


class FailingStore(HistoryStore):
    """A store whose disk fails as long as it is told to."""

    failing: HistoryError | None = None

    def append(self, sample: HistorySample) -> None:
        if self.failing is not None:
            raise self.failing
        super().append(sample)

    def read(
        self, step: HistoryStep, first: int, last: int, *, fleet: bool = True, cluster: str | None = None
    ) -> list[HistorySample]:
        if self.failing is not None:
            raise self.failing
        return super().read(step, first, last, fleet=fleet, cluster=cluster)


async def idle(history: History, now: float, name: str = "1h") -> list[float | None]:
    answer = await history.lines(name, [("states", None)], now=now)
    return list(answer.lines[0].lines.get("Idle", []))


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]  # every story is a coroutine


def test_the_first_picture_of_a_step_is_recorded_and_no_other() -> None:
    async def story() -> None:
        told = list[bool]()
        history = History(HistoryStore(SystemDisk(), None), SystemClock(), None)
        history.on_sample = told.append
        for at, machines in ((0.0, 1), (3.0, 2), (9.9, 3), (10.0, 4)):
            await history.record(picture(START + at, machines))
        assert (await idle(history, START + 12))[-2:] == [1, 4]
        assert told == [True, True]

    play(story)


@pytest.mark.rule("dashboard#history-trouble")
def test_a_disk_that_fails_is_told_and_charts_go_on_with_the_last_hour(tmp_path: Path) -> None:
    async def story() -> None:
        store = FailingStore(SystemDisk(), str(tmp_path))
        history = History(store, SystemClock(), None)
        told = list[HistoryTrouble | None]()
        kept = list[bool]()
        history.on_trouble, history.on_sample = told.append, kept.append
        await history.record(picture(START, 1))
        store.failing = HistoryError(HistoryProblem.FULL, "the disk is full")
        for n in range(1, 5):
            await history.record(picture(START + 10 * n, n + 1))
        assert kept == [True, False, False, False, False]
        assert [trouble.problem for trouble in told if trouble] == [HistoryProblem.FULL]
        assert (await idle(history, START + 45))[-5:] == [1, 2, 3, 4, 5]
        assert (await idle(history, START + 45, "24h"))[-1] == 3.0
        assert "disk is full" in str(history_problem(history))
        store.failing, history._again_s = None, 0.0
        await history.record(picture(START + 50, 6))
        assert history.trouble is None
        assert told[-1] is None
        # What was lost on the disk is a gap there, and the memory fills only what is newer than the file.
        assert (await idle(history, START + 55))[-1] == 6

    play(story)


@pytest.mark.rule("dashboard#history-trouble")
def test_a_damaged_file_is_set_aside_and_told_while_charts_begin_anew(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / FILE).write_bytes(b"nonsense" * 4096)
        history = History(HistoryStore(SystemDisk(), str(tmp_path)), SystemClock(), None)
        await history.record(picture(START, 5))
        assert (await idle(history, START))[-1] == 5
        said = history_problem(history)
        assert isinstance(said, Html)
        assert "set aside as" in said
        assert (tmp_path / f"{FILE}.damaged").read_bytes().startswith(b"nonsense")
        await history.record(picture(START + 10, 6))
        assert history.trouble is not None
        assert not history.trouble.lasting

    play(story)


@pytest.mark.rule("dashboard#history")
def test_a_reader_that_goes_away_does_not_let_two_threads_use_the_file(tmp_path: Path) -> None:
    async def story() -> None:
        history = History(HistoryStore(SystemDisk(), str(tmp_path)), SystemClock(), None)
        for n in range(30):
            await history.record(picture(START + 10 * n))
        askers = [asyncio.create_task(idle(history, START + 300, name)) for name in ("1h", "24h", "90d") * 5]
        await asyncio.sleep(0)
        for asker in askers[::2]:
            asker.cancel()
        await history.record(picture(START + 400))
        found = await asyncio.gather(*askers, return_exceptions=True)
        assert sum(isinstance(row, asyncio.CancelledError) for row in found) == 8
        assert history.trouble is None

    play(story)


def test_the_run_ends_when_it_is_cancelled_and_frees_the_directory(tmp_path: Path) -> None:
    async def story() -> None:
        history = History(HistoryStore(SystemDisk(), str(tmp_path)), SystemClock(), None)
        recorded = asyncio.Event()
        history.on_sample = lambda _: recorded.set()
        running = asyncio.create_task(history.run())
        history.note(picture(START))
        await recorded.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        again = HistoryStore(SystemDisk(), str(tmp_path))
        assert again.rows()["fine"] == 1
        again.close()

    play(story)
