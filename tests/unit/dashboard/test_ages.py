"""Ages are right whatever the clocks say: those of a shard whose clock was an hour fast, read by a host whose clock is right."""

from dataclasses import dataclass

import pytest

from bigfleet.aio.clock import NANOSECONDS
from bigfleet.app.shard.command import ShardSettings
from bigfleet.app.shard.readers import readers_of
from bigfleet.dashboard.core.health import reasons
from bigfleet.dashboard.core.observed import FleetPicture, ShardPlace
from bigfleet.dashboard.html import Html
from bigfleet.dashboard.pages.about import _clocks
from bigfleet.dashboard.shard_reader import ShardReader, look
from bigfleet.demo.virtual_fleet import FAKE_HOST, SHARD_HOST
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.testing.loop import run_virtual
from bigfleet.transport.shard_reading import GET_STATUS
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

HOUR_S = 3600.0
PORT = 7799


@dataclass
class Scene:
    """A shard that has served for a while, and what a host with a right clock reads from it."""

    world: ObservedFleet

    async def serve(self) -> None:
        run = self.world.run
        readers = readers_of(
            ShardSettings(),
            run.shard,
            DecisionLog(),
            seams=run.process.seams(run.net),
            metrics=run.shard.reconciler._metrics,
            log=run.shard.reconciler._log,
        )
        await run.net.serve(f":{PORT}", readers.services())

    def now(self) -> float:
        return self.world.clock.wall_ns() / NANOSECONDS

    async def place(self) -> ShardPlace:
        reader = ShardReader(self.world.network.host("dashboard"), "shard-0", f"{SHARD_HOST}:{PORT}")
        found = await look(reader, None, self.now())
        await reader.close()
        assert not found.error
        return found

    async def picture(self) -> FleetPicture:
        return FleetPicture(self.now(), (await self.place(),), None, shards_wired=True)


@pytest.mark.rule("shard#ages", "dashboard#first-screen")
def test_a_dead_provider_is_seen_on_a_shard_whose_clock_was_an_hour_fast_at_its_start() -> None:
    async def run() -> None:
        async with ObservedFleet([pool("idle", 2)], process_options={"offset_s": HOUR_S}) as world:
            scene = Scene(world)
            await scene.serve()
            operator = await world.operator("prod")
            await operator.demand(need(cpu=4))
            await world.cycles(3)
            world.run.process.clock.jump_wall(-HOUR_S)
            healthy = await scene.picture()
            assert reasons(healthy) == ()
            world.network.crash(FAKE_HOST)
            await world.clock.sleep(300)
            picture = await scene.picture()
            seen = picture.shards[0].seen
            assert seen is not None
            assert scene.now() - seen.last_reconcile == pytest.approx(300, abs=15)
            assert scene.now() - seen.computed_at < 15
            assert scene.now() - seen.clusters[0].rollup_accepted == pytest.approx(325, abs=15)
            assert seen.clock_ahead_s == pytest.approx(HOUR_S, abs=1)
            assert [reason.kind for reason in reasons(picture)] == ["provider_unreachable"]
            assert world.metric("bigfleet_shard_last_reconcile_age_seconds") == pytest.approx(300, abs=15)
            assert "ahead of this host" in text(_clocks(picture))

    run_virtual(run())


def text(html: Html) -> str:
    return str(html)


@pytest.mark.rule("shard#ages")
def test_every_age_in_the_status_is_a_duration_of_the_shards_own_monotonic_clock() -> None:
    async def run() -> None:
        async with ObservedFleet([pool("idle", 2)]) as world:
            scene = Scene(world)
            await scene.serve()
            await world.cycles(2)
            for jump_s in (HOUR_S, -2 * HOUR_S):
                world.run.process.clock.jump_wall(jump_s)
                channel = world.network.host("reader").dial(f"{SHARD_HOST}:{PORT}")
                status = (await channel.unary(GET_STATUS, pb.GetStatusRequest(), timeout_s=5)).message
                await channel.close()
                assert 0 <= status.cycle.age_seconds <= 11
                assert 0 <= status.last_reconcile_age_seconds <= 11
                assert 10 <= status.uptime_seconds <= 40

    run_virtual(run())
