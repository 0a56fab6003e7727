"""The periodic work of a replica: health, command levels (`coordinator#command-levels`), and the errors it survives."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.aio.service import ServiceSpec
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.log import LogStatus, PeerStatus, UnavailableError
from bigfleet.coordinator.maintenance import Maintenance, levels_of_voters
from bigfleet.coordinator.raft.peer_calls import GrpcPeerCalls
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.network import Network
from bigfleet.transport.coordinator import COORDINATOR
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.local_log import LocalLog
from tests.unit.coordinator.harness import World, Worlds


class Board:
    """Records the calls to the health service."""

    def __init__(self) -> None:
        self.calls: list[bool] = []

    def set_serving(self, service: str, serving: bool) -> None:
        assert service == COORDINATOR.name
        self.calls.append(serving)


def maintenance(world: World, levels: Mapping[str, int], known_level: int = 2) -> Maintenance:
    async def ask() -> Mapping[str, int]:
        return levels

    return Maintenance(
        log=world.log,
        state_machine=world.state_machine,
        leadership=world.replica.leadership,
        proposer=world.replica.proposer,
        clock=world.process.clock,
        logger=world.logged,
        levels=ask,
        known_level=known_level,
    )


def test_health_follows_readiness_second_by_second(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            board = Board()
            task = asyncio.ensure_future(here.replica.maintenance.run(board))
            await here.process.clock.sleep(1.5)
            here.log.lose()
            await here.process.clock.sleep(1)
            here.log.gain()
            await here.process.clock.sleep(1)
            assert board.calls == [True, True, False, True]
            task.cancel()

    run_virtual(run())


def test_a_log_that_is_busy_postpones_the_work_and_ends_nothing(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            here.state_machine.load({**here.state_machine.dump(), "relearn": True})
            await here.report("s-1")
            await here.process.clock.sleep(600)
            await here.report("s-1", 2)
            here.log.fail_next(UnavailableError("busy"))
            task = asyncio.ensure_future(here.replica.maintenance.run(Board()))
            await here.process.clock.sleep(0.5)
            assert here.state_machine.dump()["relearn"]
            await here.process.clock.sleep(1)
            assert not here.state_machine.dump()["relearn"]
            assert not task.done()
            task.cancel()

    run_virtual(run())


def test_the_level_is_raised_only_once_every_voter_advertises_it(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            levels: dict[str, int] = {}
            keeper = maintenance(here, levels)
            leader = here.replica.leadership.require()
            for known, expected in ((0, 1), (1, 1), (2, 2)):
                levels["coordinator-0"] = known
                await keeper.run_leader_tasks(leader)
                assert here.state_machine.dump()["level"] == expected
                await here.process.clock.sleep(11)

    run_virtual(run())


def test_voters_are_asked_at_most_every_ten_seconds(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            asked = 0

            async def ask() -> Mapping[str, int]:
                nonlocal asked
                asked += 1
                return {}

            keeper = maintenance(here, {})
            keeper._levels = ask
            for _ in range(21):
                await keeper.run_leader_tasks(here.replica.leadership.require())
                await here.process.clock.sleep(1)
            assert asked == 3

    run_virtual(run())


class _Peer:
    """A replica that refuses everything and says which level it knows."""

    def __init__(self, level: str) -> None:
        self._level = level

    async def _refuse(self, _request: object, _call: object) -> object:
        facts = (("bigfleet-raft-state", "follower"), ("bigfleet-command-level", self._level))
        raise RpcRefusedError(Code.FAILED_PRECONDITION, "no", facts)

    async def snapshot_save(self, _request, _call):  # type: ignore[no-untyped-def]
        for never in list[pb.SnapshotSaveChunk]():
            yield never

    report_shard = assign_domain = unassign_domain = remove_shard = list_shards = _refuse
    list_domain_assignments = list_shard_reports = join_raft_cluster = _refuse


def test_a_voter_that_does_not_answer_knows_nothing() -> None:
    async def run() -> None:
        network = Network()
        spec = ServiceSpec(pb.DESCRIPTOR.services_by_name["Coordinator"])
        await network.host("c-1").serve(":7790", [spec.bind(_Peer("7"))])

        class Log(LocalLog):
            def status(self) -> LogStatus:
                peers = tuple(
                    PeerStatus(name, f"{name}:7790", connected=True)
                    for name in ("coordinator-0", "c-1", "c-2")
                )
                return replace(super().status(), peers=peers)

        calls = GrpcPeerCalls(network.host("coordinator-0"))
        ask = levels_of_voters(Log(CoordinatorStateMachine()), calls, known_level=9)
        assert await ask() == {"coordinator-0": 9, "c-1": 7, "c-2": 0}

    run_virtual(run())
