"""The log in one process: serves, refuses and carries commands as the real one does."""

import asyncio
import json

import pytest

from bigfleet.coordinator.core.batch import MAX_BATCH_BYTES
from bigfleet.coordinator.log import (
    CommandOutcomeUnknownError,
    NotLeaderError,
    RaftState,
    TooLargeError,
    UnknownPeerError,
)
from tests.support.coordinator.local_log import LocalLog


class Pairs:
    """A state machine of keys and values."""

    def __init__(self) -> None:
        self.epoch = 0
        self.pairs: dict[str, str] = {}

    def apply(self, batch: str) -> str:
        request = json.loads(batch)
        results = []
        for item in request["items"]:
            if item["kind"] == "begin_epoch":
                self.epoch = item["term"]
            elif request["epoch"] != self.epoch:
                return json.dumps([{"ok": False, "refusal": "stale_epoch", "detail": ""}])
            elif item["kind"] == "put":
                self.pairs[item["key"]] = item["value"]
            results.append({"ok": True})
        return json.dumps(results)

    def dump(self) -> dict[str, object]:
        return {"pairs": dict(self.pairs)}

    def load(self, tables: object) -> None:
        raise AssertionError("a log in memory loads nothing")


def put(key: str, value: str) -> dict[str, str]:
    return {"kind": "put", "key": key, "value": value}


def test_a_command_is_committed_and_its_result_returned() -> None:
    async def scenario() -> None:
        state_machine = Pairs()
        log = LocalLog(state_machine)
        await log.start()
        assert await log.propose(put("a", "1")) == {"ok": True}
        snapshot = await log.snapshot()
        assert snapshot.tables == {"pairs": {"a": "1"}}
        assert snapshot.index == log.status().applied_index

    asyncio.run(scenario())


def test_soft_state_is_dropped_before_serving_and_after_it_is_lost() -> None:
    async def scenario() -> None:
        log = LocalLog(Pairs())
        seen: list[tuple[str, RaftState]] = []
        log.on_serving(lambda epoch: seen.append((f"serving {epoch}", log.status().state)))
        log.on_lost(lambda: seen.append(("lost", log.status().state)))
        await log.start()
        log.lose(hint="127.0.0.1:1")
        log.gain()
        assert seen == [
            ("serving 1", RaftState.FOLLOWER),
            ("lost", RaftState.FOLLOWER),
            ("serving 2", RaftState.FOLLOWER),
        ]
        assert log.status().serving == 2

    asyncio.run(scenario())


def test_who_does_not_serve_refuses_with_the_hint() -> None:
    async def scenario() -> None:
        log = LocalLog(Pairs())
        await log.start()
        log.lose(hint="127.0.0.1:1")
        for call in (log.propose(put("a", "1")), log.barrier(), log.snapshot(), log.admit("x-0", "x:1")):
            with pytest.raises(NotLeaderError) as refused:
                await call
            assert refused.value.hint == "127.0.0.1:1"

    asyncio.run(scenario())


def test_a_command_that_was_under_way_when_leadership_went_is_not_applied() -> None:
    async def scenario() -> None:
        state_machine = Pairs()
        log = LocalLog(state_machine)
        await log.start()
        under_way = asyncio.ensure_future(log.propose(put("a", "1")))
        await asyncio.sleep(0)
        log.gain()
        with pytest.raises(NotLeaderError):
            await under_way
        assert state_machine.pairs == {}

    asyncio.run(scenario())


def test_failures_can_be_planted_and_strangers_are_refused() -> None:
    async def scenario() -> None:
        log = LocalLog(Pairs())
        await log.start()
        log.fail_next(CommandOutcomeUnknownError("no answer in 5 s"))
        with pytest.raises(CommandOutcomeUnknownError):
            await log.barrier()
        await log.barrier()
        with pytest.raises(UnknownPeerError):
            await log.admit("stranger-0", "stranger:7791")
        await log.admit("coordinator-0", "127.0.0.1:7791")

    asyncio.run(scenario())


@pytest.mark.rule("coordinator#batches")
def test_a_command_above_256_kib_is_refused_before_proposing() -> None:
    async def scenario() -> None:
        log = LocalLog(Pairs())
        await log.start()
        before = log.status().last_index
        with pytest.raises(TooLargeError):
            await log.propose(put("a", "x" * MAX_BATCH_BYTES))
        assert log.status().last_index == before

    asyncio.run(scenario())
