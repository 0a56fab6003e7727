"""Finding the coordinator's leader (`coordinator#serving`, `coordinator#order-of-checks`)."""

from collections.abc import Sequence

import pytest

from bigfleet.aio.backoff import Backoff, BackoffPolicy
from bigfleet.aio.net import Call, Code, Net, RpcError, RpcRefusedError
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.service import ServiceSpec
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual, virtual_loop
from bigfleet.testing.net.network import Network
from bigfleet.transport.coordinator import LIST_SHARDS, SNAPSHOT_SAVE
from bigfleet.transport.leader import LeaderClient, NoLeaderError
from bigfleet.v1alpha1 import coordinator_pb2 as pb

# A service of two of the nine calls, as binding wants all of a service's methods.
SPEC = ServiceSpec(pb.DESCRIPTOR.services_by_name["Coordinator"])


class Replica:
    """Answers as a leader or as a follower with a hint, and counts."""

    def __init__(self, name: str) -> None:
        self.name, self.leads, self.hint, self.asked = name, False, "", 0
        self.failure: RpcRefusedError | None = None

    def _refuse(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        if not self.leads:
            trailing = (("bigfleet-raft-state", "follower"),)
            hint = (("bigfleet-leader", self.hint),) if self.hint else ()
            raise RpcRefusedError(Code.FAILED_PRECONDITION, "not leader", (*hint, *trailing))

    async def list_shards(self, _request: pb.ListShardsRequest, _call: Call) -> pb.ListShardsResponse:
        self._refuse()
        return pb.ListShardsResponse(shards=[pb.ShardRegistryEntry(shard_id=self.name)])

    async def snapshot_save(self, _request, _call):  # type: ignore[no-untyped-def]
        self._refuse()
        for word in ("one", "two"):
            yield pb.SnapshotSaveChunk(data=word.encode())

    async def _unused(self, _request: object, _call: Call) -> object:
        raise NotImplementedError

    report_shard = assign_domain = unassign_domain = remove_shard = _unused
    list_domain_assignments = list_shard_reports = join_raft_cluster = _unused


async def three(network: Network) -> list[Replica]:
    replicas = [Replica(f"c-{n}") for n in range(3)]
    for replica in replicas:
        await network.host(replica.name).serve(":7790", [SPEC.bind(replica)])
    return replicas


def client(net: Net, names: Sequence[str] = ("c-0", "c-1", "c-2")) -> LeaderClient:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return names

    return LeaderClient(net, ("coordinator:7790",), resolve=resolve)


async def ask(leader: LeaderClient) -> str:
    reply = await leader.unary(LIST_SHARDS, pb.ListShardsRequest(), timeout_s=5)
    return reply.message.shards[0].shard_id


def test_a_hint_is_followed_before_other_addresses_are_asked() -> None:
    async def run() -> None:
        network = Network()
        replicas = await three(network)
        replicas[2].leads, replicas[0].hint = True, "c-2:7790"
        async with client(network.host("admin")) as leader:
            assert await ask(leader) == "c-2"
            assert [replica.asked for replica in replicas] == [1, 0, 1]
            assert await ask(leader) == "c-2"  # remembered: the follower is not asked again
            assert [replica.asked for replica in replicas] == [1, 0, 2]

    run_virtual(run())


def test_a_wrong_hint_is_followed_once_and_then_every_address_is_walked() -> None:
    async def run() -> None:
        network = Network()
        replicas = await three(network)
        replicas[0].hint, replicas[1].hint = "c-1:7790", "c-0:7790"
        replicas[2].leads = True
        async with client(network.host("admin")) as leader:
            assert await ask(leader) == "c-2"
            assert [replica.asked for replica in replicas] == [1, 1, 1]

    run_virtual(run())


def test_a_dead_address_is_stepped_over() -> None:
    async def run() -> None:
        network = Network()
        replicas = await three(network)
        replicas[1].leads = True
        network.crash("c-0")
        async with client(network.host("admin")) as leader:
            assert await ask(leader) == "c-1"

    run_virtual(run())


def test_no_leader_anywhere_tells_what_each_replica_said() -> None:
    async def run() -> None:
        network = Network()
        await three(network)
        network.crash("c-1")
        async with client(network.host("admin")) as leader:
            with pytest.raises(
                NoLeaderError, match=r"c-0:7790: follower; c-1:7790: .*; c-2:7790: follower"
            ) as no:
                await ask(leader)
            assert no.value.reachable
        async with client(network.host("admin"), ("c-1",)) as leader:
            with pytest.raises(NoLeaderError) as no:
                await ask(leader)
            assert not no.value.reachable

    run_virtual(run())


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.NOT_FOUND, Code.PERMISSION_DENIED])
def test_a_leaders_own_refusal_is_not_asked_for_elsewhere(code: Code) -> None:
    async def run() -> None:
        network = Network()
        replicas = await three(network)
        replicas[0].failure = RpcRefusedError(code, "no", (("bigfleet-raft-state", "serving"),))
        async with client(network.host("admin")) as leader:
            with pytest.raises(RpcError) as refused:
                await ask(leader)
            assert refused.value.code is code
        assert [replica.asked for replica in replicas] == [1, 0, 0]

    run_virtual(run())


def test_patience_waits_out_an_election_with_growing_pauses() -> None:
    async def run() -> float:
        network = Network()
        replicas = await three(network)
        clock = VirtualClock(virtual_loop())
        backoff = Backoff(SeededRng(1).stream("leader"), BackoffPolicy(first_s=0.5, ceiling_s=2, jitter=0))
        started = clock.monotonic_ns()
        clock.call_later(2, lambda: setattr(replicas[1], "leads", True))
        async with client(network.host("admin")) as leader:
            found = await leader.patiently(lambda: ask(leader), clock=clock, backoff=backoff, patience_s=10)
        assert found == "c-1"
        return (clock.monotonic_ns() - started) / 1e9

    assert run_virtual(run()) == pytest.approx(3.5)  # asked at 0, 0.5, 1.5 and 3.5


def test_patience_ends() -> None:
    async def run() -> None:
        network = Network()
        await three(network)
        clock = VirtualClock(virtual_loop())
        backoff = Backoff(SeededRng(1).stream("leader"))
        async with client(network.host("admin")) as leader:
            with pytest.raises(NoLeaderError):
                await leader.patiently(lambda: ask(leader), clock=clock, backoff=backoff, patience_s=3)

    run_virtual(run())


def test_a_stream_comes_from_the_leader_too() -> None:
    async def run() -> list[bytes]:
        network = Network()
        replicas = await three(network)
        replicas[2].leads = True
        async with client(network.host("admin")) as leader:
            chunks = leader.server_stream(SNAPSHOT_SAVE, pb.SnapshotSaveRequest())
            return [chunk.data async for chunk in chunks]

    assert run_virtual(run()) == [b"one", b"two"]
