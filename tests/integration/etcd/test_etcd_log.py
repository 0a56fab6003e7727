"""The log in etcd under what only etcd does: lost answers, leases that end, compaction, snapshots in chunks, a full store, backups.

Rules: `coordinator#etcd-append`, `coordinator#etcd-leader`, `coordinator#etcd-barrier`, `coordinator#etcd-following`,
`coordinator#etcd-snapshots`, `coordinator#etcd-refusals`.
"""

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock, monotonic_s
from bigfleet.aio.net import Code
from bigfleet.aio.service import UnaryMethod
from bigfleet.coordinator.core.batch import encode_batch
from bigfleet.coordinator.etcd import store as etcd_store
from bigfleet.coordinator.etcd.calls import put as put_op
from bigfleet.coordinator.etcd.calls import txn
from bigfleet.coordinator.etcd.client import EtcdError, WrongStoreError
from bigfleet.coordinator.etcd.layout import NO_ENTRY, Head, Keys, cluster_of, head_of
from bigfleet.coordinator.etcd.settings import SnapshotPolicy
from bigfleet.coordinator.etcd.snapshots import decode_tables, encode_tables
from bigfleet.coordinator.log import (
    CommandOutcomeUnknownError,
    FatalLogError,
    NotLeaderError,
    UnavailableError,
)
from bigfleet.etcd.v3 import etcd_pb2 as pb
from bigfleet.transport.grpc_net import GrpcNet
from tests.support.coordinator.pairs import put
from tests.support.coordinator.processes import PATIENCE_S
from tests.support.etcd.local import PREFIX, EtcdNode, EtcdNodes
from tests.support.etcd.members import EtcdMembers

pytestmark = pytest.mark.integration
_CLOCK = SystemClock()
Scenario = Callable[[EtcdNodes], Coroutine[Any, Any, None]]


def run(scenario: Scenario, members: EtcdMembers, replicas: int = 1, **options: Any) -> None:
    async def all_of_it() -> None:
        async with members:
            nodes = EtcdNodes(members, **options)
            try:
                for ordinal in range(replicas):
                    await nodes.start(ordinal)
                await until(lambda: nodes.serving() is not None)
                await scenario(nodes)
            finally:
                await nodes.stop_all()

    asyncio.run(all_of_it())


async def until(fact: Callable[[], bool]) -> None:
    give_up_s = monotonic_s(_CLOCK) + PATIENCE_S
    while not fact():
        assert monotonic_s(_CLOCK) < give_up_s, "a fact did not come"
        await _CLOCK.sleep(0.02)


def serving(nodes: EtcdNodes) -> EtcdNode:
    node = nodes.serving()
    assert node is not None
    return node


async def committed(nodes: EtcdNodes, key: str) -> None:
    """Put a value once; only where nothing is in doubt."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await serving(nodes).log.propose(put(key, 1))
                return
            except (UnavailableError, NotLeaderError, AssertionError):
                await _CLOCK.sleep(0.05)


async def write(members: EtcdMembers, *operations: pb.RequestOp) -> None:
    client = members.client()
    await client.write(txn([], operations))
    await client.close()


async def compact(members: EtcdMembers) -> int:
    client = members.client()
    revision = (await client.range(b"x")).header.revision
    method: UnaryMethod[object, pb.PutResponse] = UnaryMethod(
        "/etcdserverpb.KV/Compact", pb.PutResponse.FromString
    )
    channel = GrpcNet().dial(client.member)
    await channel.unary(method, pb.LeaseGrantRequest(ttl=revision), timeout_s=5)
    await channel.close()
    await client.close()
    return revision


@pytest.mark.rule("coordinator#etcd-append")
def test_a_batch_whose_answer_was_lost_is_there_once(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        real, attempts = node.store.append, 0

        async def append(created: int, before: Head, after: Head, batch: str) -> bool:
            nonlocal attempts
            attempts += 1
            if attempts == 1:  # etcd carries it out, and the answer is lost
                await real(created, before, after, batch)
            if attempts <= 2:  # the second never reached etcd
                raise EtcdError("m0", Code.UNAVAILABLE, "lost", in_doubt=True)
            return await real(created, before, after, batch)

        node.store.append = append  # type: ignore[method-assign]  # a fault between log and store
        assert (await node.log.propose(put("a", 1)))["ok"]
        assert attempts == 3
        node.store.append = real  # type: ignore[method-assign]
        assert (await node.log.propose(put("b", 2)))["ok"]
        assert node.state_machine.applied == ["a", "b"]
        other = await nodes.start(1)
        await until(lambda: other.state_machine.applied == ["a", "b"])

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-append")
def test_a_caller_may_give_up_while_the_fate_of_its_batch_is_unknown(
    etcd_binary: Path, tmp_path: Path
) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        await nodes.members.kill(0)
        with pytest.raises((CommandOutcomeUnknownError, UnavailableError, NotLeaderError)):
            await node.log.propose(put("a", 1), timeout_s=0.5)
        nodes.members.start_all()
        await committed(nodes, "b")
        assert node.state_machine.applied in (["b"], ["a", "b"])

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-leader")
def test_a_deposed_leader_appends_nothing_and_confirms_nothing(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        old = serving(nodes)
        view = await old.store.look()
        assert view.leader is not None
        created = view.leader.created
        await old.log.stop()
        nodes.nodes.clear()
        await nodes.start(1)
        await until(lambda: nodes.serving() is not None)
        late = etcd_store.EtcdStore(nodes.members.client(), PREFIX)
        head = (await late.look()).head
        batch = encode_batch(created, ['{"kind":"put","key":"late","value":1}'])
        with pytest.raises(etcd_store.LeadershipLostError):
            await late.append(created, head, Head(head.index + 1, created), batch)
        with pytest.raises(etcd_store.LeadershipLostError):
            await late.confirm(created)
        with pytest.raises(etcd_store.LeadershipLostError):
            await late.write_snapshot(created, head, b"{}", 0)
        assert (await late.look()).head == head
        await late.client.close()

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-leader")
def test_a_leader_whose_lease_has_ended_stops_and_leads_again_under_a_new_epoch(
    etcd_binary: Path, tmp_path: Path
) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        epoch = node.log.serving()
        assert epoch is not None
        view = await node.store.look()
        assert view.leader is not None
        lost: list[int] = []
        node.log.on_lost(lambda: lost.append(1))
        await node.store.client.revoke(view.leader.lease)
        with pytest.raises(NotLeaderError):
            await node.log.barrier()
        await until(lambda: (node.log.serving() or 0) > epoch)
        assert lost == [1]
        assert node.counted("leadership_lost_total", cause="deposed") == 1
        assert (await node.log.propose(put("a", 1)))["ok"]

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-leader")
def test_without_etcd_a_leader_stops_serving_when_its_lease_may_have_ended(
    etcd_binary: Path, tmp_path: Path
) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        nodes.members.all[0].pause()
        paused_s = monotonic_s(_CLOCK)
        await until(lambda: node.log.serving() is None)
        assert monotonic_s(_CLOCK) - paused_s <= 3.5
        assert node.log.tick_age_s() < 5, "the process is healthy, and must not be restarted"
        await until(lambda: bool(node.log.status().waiting))
        assert "etcd at" in node.log.status().waiting[0]
        nodes.members.all[0].resume()
        await until(lambda: nodes.serving() is not None)

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-barrier")
def test_readers_share_a_read_that_began_after_they_asked(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        real, began = node.store.confirm, [0]

        async def confirm(created: int) -> Head:
            began[0] += 1
            return await real(created)

        node.store.confirm = confirm  # type: ignore[method-assign]  # counts
        await asyncio.gather(*(node.log.barrier() for _ in range(50)))
        assert began == [1]
        first = asyncio.ensure_future(node.log.barrier())
        await until(lambda: began == [2])
        await asyncio.gather(first, *(node.log.barrier() for _ in range(50)))
        assert began == [3], "those who asked later may not use the read that was under way"

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-snapshots", "coordinator#etcd-following")
def test_snapshots_trim_the_log_and_bring_up_replicas_that_come_late(
    etcd_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_store, "CHUNK_BYTES", 1000)

    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        for number in range(120):
            await node.log.propose(put(f"k{number}", "x" * 100))
        client = nodes.members.client()
        keys = Keys(PREFIX)

        async def kept() -> int:
            return (await client.range(keys.log, keys.log_end)).count

        async with asyncio.timeout(PATIENCE_S):
            while await kept() > 80:
                await _CLOCK.sleep(0.05)
                await node.log.propose(put("more", 1))
        view = await node.store.look()
        assert view.snapshot is not None
        assert view.snapshot.chunks > 5
        chunks = await client.range(keys.snapshots, keys.snapshots_end)
        assert chunks.count == view.snapshot.chunks, "older snapshots are deleted"
        await client.close()
        await compact(nodes.members)
        late = await nodes.start(1)
        await until(lambda: late.state_machine.pairs == node.state_machine.pairs)
        await nodes.stop(0)
        await until(lambda: nodes.serving() is late)
        assert (await late.log.propose(put("last", 1)))["ok"]

    run(
        scenario,
        EtcdMembers(etcd_binary, tmp_path, members=1),
        snapshots=SnapshotPolicy(entries=50, keep=5),
    )


@pytest.mark.rule("coordinator#etcd-following")
def test_a_follower_goes_on_after_its_watch_was_compacted_and_its_member_died(
    etcd_binary: Path, tmp_path: Path
) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        leader = serving(nodes)
        follower = next(node for node in nodes.nodes.values() if node is not leader)
        await leader.log.propose(put("a", 1))
        await until(lambda: follower.state_machine.applied == ["a"])
        for turn in range(3):  # each member once
            number = nodes.members.addresses.index(follower.store.client.member)
            nodes.members.all[number].pause()
            for attempt in range(10):
                try:
                    await serving_log_put(nodes, f"{turn}-{attempt}")
                except (CommandOutcomeUnknownError, UnavailableError, NotLeaderError, AssertionError):
                    await _CLOCK.sleep(0.2)
            await until(lambda: nodes.serving() is not None)
            nodes.members.all[number].resume()
            await nodes.members.healthy()
            await compact(nodes.members)
            await until(
                lambda: all(
                    node.state_machine.applied == leader.state_machine.applied
                    and node.log.status().applied_index == leader.log.status().applied_index
                    for node in nodes.nodes.values()
                )
            )
        assert len(set(leader.state_machine.applied)) == len(leader.state_machine.applied)

    run(scenario, EtcdMembers(etcd_binary, tmp_path), replicas=2)


async def serving_log_put(nodes: EtcdNodes, key: str) -> None:
    assert (await serving(nodes).log.propose(put(key, 1)))["ok"]


@pytest.mark.rule("coordinator#etcd-append")
def test_a_full_etcd_refuses_writes_for_certain_and_still_answers_reads(
    etcd_binary: Path, tmp_path: Path
) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        await node.log.propose(put("a", 1))
        with pytest.raises(EtcdError, match="database space exceeded"):
            await fill(nodes.members)
        with pytest.raises(UnavailableError, match="nothing was replicated"):
            await node.log.propose(put("b", 1))
        await node.log.barrier()
        assert node.state_machine.applied == ["a"]

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1, flags=["--quota-backend-bytes=16777216"]))


async def fill(members: EtcdMembers) -> None:
    for number in range(40):
        await write(members, put_op(b"/fill/%d" % number, b"x" * 1_000_000))


@pytest.mark.rule("coordinator#etcd-refusals")
@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("head", b"0 0", "which this process has applied"),
        ("head", b"nonsense", "allowed are two numbers"),
        ("cluster", b'{"format":2}', "format: found 2, allowed is 1"),
        (
            "cluster",
            b'{"format":1,"cluster_id":"a","incarnation":1,"epoch_base":0,"etcd":"abc"}',
            "was etcd restored from a backup",
        ),
    ],
)
def test_a_prefix_that_is_not_what_it_was_ends_the_process(
    etcd_binary: Path, tmp_path: Path, key: str, value: bytes, problem: str
) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        await node.log.propose(put("a", 1))
        await write(nodes.members, put_op(Keys(PREFIX).prefix + key.encode(), value))
        async with asyncio.timeout(PATIENCE_S):
            failure = await node.log.wait_failure()
        assert problem in str(failure)
        assert failure.exit_code == 71
        assert node.log.serving() is None

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-refusals")
def test_a_missing_entry_and_an_unknown_version_end_a_process_that_starts(
    etcd_binary: Path, tmp_path: Path
) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        await node.log.propose(put("a", 1))
        view = await node.store.look()
        await nodes.stop(0)
        head = view.head
        newer = b'{"v":2,"epoch":1,"items":[]}'
        keys = Keys(PREFIX)
        following = Head(head.index + 1, head.epoch)
        await write(
            nodes.members, put_op(keys.entry(following.index), newer), put_op(keys.head, following.text())
        )
        assert "v: found 2, allowed is 1" in str(await failure_of(nodes, 1))
        beyond = Head(head.index + 9, head.epoch)
        nothing = encode_batch(head.epoch, ['{"kind":"barrier"}']).encode()
        await write(
            nodes.members, put_op(keys.entry(following.index), nothing), put_op(keys.head, beyond.text())
        )
        assert "missing, and no snapshot covers it" in str(await failure_of(nodes, 2))

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-refusals")
def test_an_epoch_that_is_not_above_the_tables_is_refused(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        view = await serving(nodes).store.look()
        assert view.cluster is not None
        await nodes.stop(0)
        low = replace(view.cluster, epoch_base=-1_000_000)
        await write(nodes.members, put_op(Keys(PREFIX).cluster, low.text()))
        assert "was refused" in str(await failure_of(nodes, 1))

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-refusals")
@pytest.mark.parametrize("writes", [True, False])
def test_a_writer_that_is_not_the_leader_is_noticed(etcd_binary: Path, tmp_path: Path, writes: bool) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        node = serving(nodes)
        head = (await node.store.look()).head
        await write(nodes.members, put_op(Keys(PREFIX).head, Head(head.index + 1, 7).text()))
        with pytest.raises((UnavailableError, NotLeaderError, CommandOutcomeUnknownError)):
            await (node.log.propose(put("a", 1)) if writes else node.log.barrier())
        async with asyncio.timeout(PATIENCE_S):
            assert "something else than the leader" in str(await node.log.wait_failure())

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


async def failure_of(nodes: EtcdNodes, ordinal: int) -> FatalLogError:
    node = await nodes.start(ordinal)
    async with asyncio.timeout(PATIENCE_S):
        failure = await node.log.wait_failure()
    await nodes.stop(ordinal)
    return failure


@pytest.mark.rule("coordinator#etcd-refusals")
def test_a_restored_backup_is_refused_by_processes_that_know_more(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(nodes: EtcdNodes) -> None:
        members, node = nodes.members, serving(nodes)
        await node.log.propose(put("a", 1))
        await members.kill(0)
        shutil.copytree(members.all[0].data, tmp_path / "backup")
        members.start_all()
        await committed(nodes, "b")
        await members.kill(0)
        shutil.rmtree(members.all[0].data)
        shutil.copytree(tmp_path / "backup", members.all[0].data)
        members.start_all()
        async with asyncio.timeout(PATIENCE_S):
            failure = await node.log.wait_failure()
        assert "restored from an older backup" in str(failure)

    run(scenario, EtcdMembers(etcd_binary, tmp_path, members=1))


@pytest.mark.rule("coordinator#etcd-leader")
def test_without_bootstrap_nothing_is_formed(etcd_binary: Path, tmp_path: Path) -> None:
    async def all_of_it() -> None:
        async with EtcdMembers(etcd_binary, tmp_path, members=1) as members:
            nodes = EtcdNodes(members)
            node = await nodes.start(0, bootstrap=False)
            await until(lambda: "--bootstrap" in "".join(node.log.status().waiting))
            assert node.log.status().cluster_id == ""
            await nodes.start(1)
            await until(lambda: nodes.serving() is not None)
            await until(lambda: not node.log.status().waiting)
            await nodes.stop_all()

    asyncio.run(all_of_it())


def tables(domains: int) -> dict[str, Any]:
    return {
        "epoch": 3,
        "shards": {f"s{n}": [f"a{n}", n] for n in range(3)},
        "domains": {"rack": {f"räck-{n}": "s1" for n in range(domains)}, "zone": {}},
        "ghosts": ["x"],
    }


@pytest.mark.rule("coordinator#etcd-snapshots")
@pytest.mark.parametrize("domains", [0, 1, 1999, 2000, 2001, 6001])
def test_the_slices_of_a_snapshot_are_one_json_text(domains: int) -> None:
    data = encode_tables(tables(domains))
    assert decode_tables(data) == json.loads(json.dumps(tables(domains)))


@pytest.mark.rule("coordinator#etcd-refusals")
@pytest.mark.parametrize("text", [b"", b"[]", b'{"format":1,"cluster_id":1}', b"{", b"[" * 100_000])
def test_values_that_are_none_of_ours_are_refused(text: bytes) -> None:
    with pytest.raises(WrongStoreError):
        cluster_of(b"/x/cluster", text)
    with pytest.raises(WrongStoreError):
        decode_tables(text if text != b'{"format":1,"cluster_id":1}' else b"3")
    with pytest.raises(WrongStoreError):
        head_of(b"/x/head", text)
    assert head_of(b"/x/head", b"0 0") == NO_ENTRY
