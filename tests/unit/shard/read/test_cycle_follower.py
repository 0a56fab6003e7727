"""What follows a shard from cycle to cycle, and rings when there is something new (`dashboard#insight-service`)."""

import asyncio
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from bigfleet.model.machine import MachineState as S
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.cycle_log import CycleLog
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.views import CycleView
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from tests.support.builders import machine
from tests.support.shard_views import StaticShard

EMPTY = Situation(0.0)


class World:
    def __init__(self) -> None:
        self.shard, self.decisions, self.clock = StaticShard(), DecisionLog(), VirtualClock()
        self.log: Any = CapturingLogger()  # Any: it takes every method and remembers it
        self.watching = CycleFollower(self.shard, self.decisions, log=self.log)
        self.task = asyncio.create_task(self.watching.follow())

    async def end(self) -> None:
        assert not self.task.done()
        self.task.cancel()
        await asyncio.wait([self.task])


def test_every_cycle_is_noted_once_and_whoever_waits_is_woken() -> None:
    async def scenario() -> None:
        world = World()
        seen: list[int] = []

        async def wait() -> None:
            number = 0
            while len(seen) < 3:
                number = (await world.watching.after(number)).number
                seen.append(number)

        waiting = asyncio.create_task(wait())
        for _ in range(3):
            world.shard.complete(EMPTY)
            await world.clock.sleep(2)
        await waiting
        assert seen == [1, 2, 3]
        assert [item.number for item in world.watching.cycles.summaries()] == [1, 2, 3]
        await world.end()

    run_virtual(scenario())


def test_a_change_after_an_audited_action_is_the_actions_and_any_other_the_providers() -> None:
    async def scenario() -> None:
        world = World()
        both = (machine("m-1", S.IDLE), machine("m-2", S.IDLE))
        world.shard.complete(Situation(0.0, both))
        await world.clock.sleep(1)
        world.decisions.add(
            at_ns=1,
            cycle=1,
            kind="Delete",
            machine_id="m-1",
            cluster="",
            reason="phase3.release",
            grace_s=0,
            outcome="success",
        )
        world.shard.complete(Situation(0.0, (machine("m-1", S.DELETING), machine("m-2", S.DELETING))))
        await world.clock.sleep(1)
        causes = {name: world.watching.transitions.of(name)[0].cause for name in ("m-1", "m-2")}
        assert causes == {"m-1": "action", "m-2": "reconcile"}
        await world.end()

    run_virtual(scenario())


def test_a_defect_in_the_notes_is_logged_and_never_ends_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: CycleLog, _view: CycleView) -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        world = World()
        monkeypatch.setattr(CycleLog, "add", broken)
        world.shard.complete(EMPTY)
        await world.clock.sleep(1)
        monkeypatch.undo()
        world.shard.complete(EMPTY)
        await world.clock.sleep(1)
        assert [call.args[0] for call in world.log.calls] == ["watching_failed"]
        assert [item.number for item in world.watching.cycles.summaries()] == [2]
        await world.end()

    run_virtual(scenario())
