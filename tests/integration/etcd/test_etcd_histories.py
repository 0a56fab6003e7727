"""Histories of reads and writes over the log in etcd, with members killed and paused, replicas cut off, and clocks that stand still.

Every process believes for ever that its lease is alive: what is true may not depend on that. With barriers that do not ask
etcd the same run must be found out.
Rules: `coordinator#etcd-barrier`, `coordinator#etcd-append`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.coordinator.etcd.client import EtcdClient
from bigfleet.coordinator.etcd.layout import Head
from bigfleet.coordinator.etcd.lease import ProcessLease
from bigfleet.coordinator.log import CommandOutcomeUnknownError, LogError
from bigfleet.transport.grpc_net import GrpcNet
from tests.support.coordinator.pairs import put
from tests.support.coordinator.processes import PATIENCE_S
from tests.support.etcd.local import EtcdNode, EtcdNodes
from tests.support.etcd.members import EtcdMembers
from tests.support.faulty_link import FaultyLink
from tests.support.linearizability import Event, check

pytestmark = [
    pytest.mark.integration,
    pytest.mark.rule("coordinator#etcd-barrier", "coordinator#etcd-append"),
]
_CLOCK = SystemClock()
KEYS = ("a", "b", "c")
REPLICAS = 3


@dataclass(frozen=True)
class Access:
    """A read, or a write of a value that no other write has."""

    writes: bool
    value: int


def step(state: int, access: Access, _known: bool) -> Iterator[int]:
    if access.writes or access.value == state:
        yield access.value


class World:
    """Three members, three replicas that reach them over links of their own, and what callers saw."""

    def __init__(self, members: EtcdMembers) -> None:
        self.members = members
        self.links = {n: [FaultyLink(m.client_port) for m in members.all] for n in range(REPLICAS)}
        self.nodes = EtcdNodes(members, client=self._client)
        self.history: dict[str, list[Event[Access]]] = defaultdict(list)
        self._values = 0

    async def start(self) -> None:
        for links in self.links.values():
            for link in links:
                await link.start()
        for ordinal in range(REPLICAS):
            await self.nodes.start(ordinal)

    async def stop(self) -> None:
        await self.nodes.stop_all()
        for links in self.links.values():
            for link in links:
                await link.stop()

    def _client(self, ordinal: int) -> EtcdClient:
        addresses = [f"127.0.0.1:{link.port}" for link in self.links[ordinal]]
        return EtcdClient(GrpcNet(), addresses, _CLOCK, first=ordinal, call_s=0.5)

    def believers(self) -> list[int]:
        """Return the replicas that believe that they serve."""
        return [n for n, node in self.nodes.nodes.items() if node.log.serving() is not None]

    async def call(self, node: EtcdNode, key: str, *, writes: bool) -> bool:
        """Read or write once and record it; True if it was answered."""
        self._values += 1
        began, value = _CLOCK.monotonic_ns(), self._values
        ended: int | None = None
        try:
            if writes:
                result = await node.log.propose(put(key, value), timeout_s=2)
                assert result["ok"]
            else:
                await node.log.barrier(timeout_s=2)
                value = node.state_machine.pairs.get(key, 0)
            ended = _CLOCK.monotonic_ns()
        except CommandOutcomeUnknownError:
            if not writes:
                return False
        except LogError:
            return False
        self.history[key].append(Event(began, ended, Access(writes, value)))
        return ended is not None

    def bad(self) -> list[str]:
        """Return the keys whose history no order explains."""
        return [key for key, events in sorted(self.history.items()) if not check(events, 0, step).ok]

    def calls(self) -> int:
        return sum(len(events) for events in self.history.values())


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not fact():
            await _CLOCK.sleep(0.02)


async def caller(world: World, stream: RandomStream) -> None:
    while True:
        believers = world.believers()
        if believers:
            node = world.nodes.nodes[stream.choice(believers)]
            await world.call(node, stream.choice(KEYS), writes=stream.random() < 0.5)
        await _CLOCK.sleep(stream.uniform(0.0, 0.02))


async def trouble(world: World, stream: RandomStream) -> None:
    """One fault for a while: of a replica's links, or of a member."""
    number = stream.choice(range(REPLICAS))
    match stream.choice(("cut", "kill", "pause")):
        case "cut":
            number = stream.choice(world.believers() or range(REPLICAS))
            for link in world.links[number]:
                link.silence()
            await _CLOCK.sleep(stream.uniform(3.5, 6.0))
            for link in world.links[number]:
                link.heal()
        case "kill":
            await world.members.kill(number)
            await _CLOCK.sleep(stream.uniform(0.2, 2.0))
            world.members.start_all()
        case _:
            world.members.all[number].pause()
            await _CLOCK.sleep(stream.uniform(0.2, 4.0))
            world.members.all[number].resume()


async def run_history(binary: Path, directory: Path, calls: int, seed: int) -> World:
    rng = SeededRng(seed)
    async with EtcdMembers(binary, directory) as members:
        world = World(members)
        tasks: list[asyncio.Task[None]] = []
        try:
            await world.start()
            await until(lambda: bool(world.believers()))
            tasks = [asyncio.ensure_future(caller(world, rng.stream(f"caller {n}"))) for n in range(6)]
            faults = rng.stream("faults")
            while world.calls() < calls:
                await _CLOCK.sleep(faults.uniform(0.5, 1.5))
                await trouble(world, faults)
                assert not any(task.done() for task in tasks), "a caller ended by itself"
            return world
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await world.stop()


@pytest.fixture(autouse=True)
def clocks_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessLease, "is_alive", property(lambda lease: lease.id != 0))


def test_a_history_with_faults_and_standing_clocks_is_linearizable(etcd_binary: Path, tmp_path: Path) -> None:
    world = asyncio.run(run_history(etcd_binary, tmp_path, 500, seed=1))
    assert world.calls() >= 500
    assert world.bad() == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_histories_of_ten_thousand_calls_are_linearizable(
    etcd_binary: Path, tmp_path: Path, seed: int
) -> None:
    world = asyncio.run(run_history(etcd_binary, tmp_path, 2500, seed=seed))
    assert world.bad() == []


@pytest.mark.parametrize("honest", [True, False])
def test_a_stale_read_of_a_leader_that_was_cut_off_is_refused_and_a_planted_one_found(
    etcd_binary: Path, tmp_path: Path, honest: bool
) -> None:
    async def scenario() -> list[str]:
        async with EtcdMembers(etcd_binary, tmp_path) as members:
            world = World(members)
            try:
                await world.start()
                await until(lambda: bool(world.believers()))
                [old] = world.believers()
                deposed = world.nodes.nodes[old]
                assert await world.call(deposed, "a", writes=True)
                if not honest:

                    async def confirm(created: int) -> Head:
                        return Head(deposed.log.status().applied_index, 0)

                    deposed.store.confirm = confirm  # type: ignore[method-assign]  # the planted fault
                for link in world.links[old]:
                    link.silence()
                await until(lambda: world.believers() not in ([], [old]))
                [new] = [n for n in world.believers() if n != old]
                assert await world.call(world.nodes.nodes[new], "a", writes=True)
                stale = await world.call(deposed, "a", writes=False)
                assert stale is not honest
                with suppress(LogError):
                    await deposed.log.propose(put("a", -1), timeout_s=0.5)
                assert await world.call(world.nodes.nodes[new], "a", writes=False)
                return world.bad()
            finally:
                await world.stop()

    assert asyncio.run(scenario()) == ([] if honest else ["a"])
