"""The client of etcd against real members that are killed, paused, full, compacted and restored.

Rules: `coordinator#etcd-client`.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.net import Code
from bigfleet.aio.service import UnaryMethod
from bigfleet.coordinator.etcd import calls
from bigfleet.coordinator.etcd.client import EtcdClient, EtcdError, StoreUser, WrongStoreError
from bigfleet.etcd.v3 import etcd_pb2 as pb
from bigfleet.transport.grpc_net import GrpcNet
from tests.support.etcd.members import EtcdMembers

pytestmark = [pytest.mark.integration, pytest.mark.rule("coordinator#etcd-client")]

Scenario = Callable[[EtcdMembers, EtcdClient], Awaitable[None]]


def run(members: EtcdMembers, scenario: Scenario) -> None:
    async def all_of_it() -> None:
        async with members:
            client = members.client()
            try:
                await scenario(members, client)
            finally:
                await client.close()

    asyncio.run(all_of_it())


def put_once(key: bytes, value: bytes) -> pb.TxnRequest:
    return calls.txn([calls.created_at(key, 0)], [calls.put(key, value)], [calls.get(key)])


def test_a_transaction_writes_once_and_tells_what_is_there(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(_members: EtcdMembers, client: EtcdClient) -> None:
        first = await client.write(put_once(b"a", b"1"))
        again = await client.write(put_once(b"a", b"2"))
        assert (first.succeeded, again.succeeded) == (True, False)
        assert again.responses[0].response_range.kvs[0].value == b"1"
        compared = calls.txn([calls.has_value(b"a", b"1")], [calls.put(b"a", b"3")])
        assert (await client.write(compared)).succeeded
        assert not (await client.write(compared)).succeeded
        assert [kv.value for kv in (await client.range(b"a", calls.behind(b"a"))).kvs] == [b"3"]

    run(EtcdMembers(etcd_binary, tmp_path, members=1), scenario)


def test_a_lease_ends_with_its_keys_and_can_be_given_back(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(_members: EtcdMembers, client: EtcdClient) -> None:
        lease = await client.grant(60)
        await client.write(calls.txn([], [calls.put(b"led", b"me", lease.id)]))
        assert await client.keep_alive(lease.id) == 60
        await client.revoke(lease.id)
        assert (await client.range(b"led")).count == 0
        assert await client.keep_alive(lease.id) == 0
        with pytest.raises(EtcdError) as refused:
            await client.write(calls.txn([], [calls.put(b"led", b"me", lease.id)]))
        assert refused.value.lease_is_gone
        assert not refused.value.in_doubt

    run(EtcdMembers(etcd_binary, tmp_path, members=1), scenario)


def test_reads_go_on_with_another_member_and_a_write_is_never_repeated(
    etcd_binary: Path, tmp_path: Path
) -> None:
    async def scenario(members: EtcdMembers, client: EtcdClient) -> None:
        await client.write(put_once(b"a", b"1"))
        number = client.members.index(client.member)
        members.all[number].pause()
        with pytest.raises(EtcdError) as lost:
            await client.write(put_once(b"b", b"1"))
        assert lost.value.in_doubt
        assert (await client.range(b"a", within_s=20)).kvs[0].value == b"1"
        assert client.member != members.addresses[number]
        members.all[number].resume()
        number = client.members.index(client.member)
        await members.kill(number)
        assert (await client.range(b"a", within_s=20)).kvs[0].value == b"1"
        await members.kill(*(n for n, member in enumerate(members.all) if member.pid is not None))
        for _ in members.all:  # until every connection is known to be lost
            with pytest.raises(EtcdError):
                await client.range(b"a")
        with pytest.raises(EtcdError) as nobody:
            await client.write(put_once(b"c", b"1"))
        assert not nobody.value.in_doubt, "nothing has left this process"

    run(EtcdMembers(etcd_binary, tmp_path), scenario)


def test_a_watch_tells_in_order_and_says_when_history_is_gone(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(_members: EtcdMembers, client: EtcdClient) -> None:
        begun = (await client.range(b"w")).header.revision
        for number in range(5):
            await client.write(calls.txn([], [calls.put(b"w/%d" % number, b"x" * 1000)]))
        create = pb.WatchCreateRequest(
            key=b"w/", range_end=calls.behind(b"w/"), start_revision=begun + 1, fragment=True
        )
        told: list[bytes] = []
        async with asyncio.timeout(20):
            async for response in client.watch([create]):
                told += [event.kv.key for event in response.events]
                if len(told) == 5:
                    break
        assert told == [b"w/0", b"w/1", b"w/2", b"w/3", b"w/4"]
        compact: UnaryMethod[object, pb.PutResponse] = UnaryMethod(
            "/etcdserverpb.KV/Compact", pb.PutResponse.FromString
        )
        await GrpcNet().dial(client.member).unary(compact, pb.LeaseGrantRequest(ttl=begun + 4), timeout_s=5)
        async with asyncio.timeout(20):
            async for response in client.watch([create]):
                if response.canceled:
                    break
        assert response.compact_revision == begun + 4

    run(EtcdMembers(etcd_binary, tmp_path, members=1), scenario)


def test_a_full_store_refuses_for_certain_and_raises_an_alarm(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(_members: EtcdMembers, client: EtcdClient) -> None:
        with pytest.raises(EtcdError) as full:  # noqa: PT012 which of them does not fit depends on etcd
            # It counts ten times a second what it has stored, so far more than the quota may fit.
            for number in range(1_000):
                big = calls.txn([], [calls.put(b"big/%d" % number, b"x" * 1_000_000)])
                await client.write(big, timeout_s=20)
        assert full.value.is_full
        assert not full.value.in_doubt
        assert [alarm.alarm for alarm in (await client.alarms()).alarms] == [1]
        status = await client.status(client.member)
        assert status.db_size > 8_000_000
        assert status.version.startswith("3.")

    run(EtcdMembers(etcd_binary, tmp_path, members=1, flags=["--quota-backend-bytes=16777216"]), scenario)


def test_an_older_state_of_etcd_and_another_cluster_end_the_client(etcd_binary: Path, tmp_path: Path) -> None:
    async def scenario(members: EtcdMembers, client: EtcdClient) -> None:
        await client.write(put_once(b"a", b"1"))
        await members.kill(0)
        shutil.copytree(members.all[0].data, tmp_path / "backup")
        members.start_all()
        await members.healthy(client)
        await client.write(put_once(b"b", b"1"))
        await members.kill(0)
        shutil.rmtree(members.all[0].data)
        shutil.copytree(tmp_path / "backup", members.all[0].data)
        members.start_all()
        with pytest.raises(WrongStoreError, match="restored from an older backup"):
            await members.healthy(client)
        await members.kill(0)
        shutil.rmtree(members.all[0].data)
        members.start_all("another")
        with pytest.raises(WrongStoreError, match="etcd cluster: found"):
            await members.healthy(client)

    run(EtcdMembers(etcd_binary, tmp_path, members=1), scenario)


def test_user_and_password_go_on_after_etcd_forgot_the_token(
    etcd_binary: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    passwords = ["right"]

    async def scenario(members: EtcdMembers, client: EtcdClient) -> None:
        await enable_authentication(client)
        with pytest.raises(EtcdError) as nobody:
            await client.range(b"a")
        assert nobody.value.code is Code.INVALID_ARGUMENT
        known = EtcdClient(
            GrpcNet(),
            members.addresses,
            SystemClock(),
            credentials=StoreUser("root", lambda: passwords[0]),
        )
        try:
            await known.write(put_once(b"a", b"1"))
            await members.kill(0)
            members.start_all()
            await members.healthy(known)
            # Simple tokens live in the memory of a member, so the one from before the restart is unknown now.
            assert (await known.range(b"a")).count == 1
            lease = await known.grant(60)
            await members.kill(0)
            members.start_all()
            await members.healthy(known)
            assert await known.keep_alive(lease.id) > 0
        finally:
            await known.close()
        passwords[0] = "a wrong one"
        unknown = EtcdClient(
            GrpcNet(), members.addresses, SystemClock(), credentials=StoreUser("root", lambda: passwords[0])
        )
        with pytest.raises(EtcdError) as refused:
            await unknown.range(b"a")
        await unknown.close()
        assert "a wrong one" not in str(refused.value)
        assert "a wrong one" not in repr(StoreUser("root", lambda: passwords[0]))

    run(EtcdMembers(etcd_binary, tmp_path, members=1), scenario)
    assert "a wrong one" not in "".join(capfd.readouterr())


async def enable_authentication(client: EtcdClient) -> None:
    """Add the user root and switch authentication on, with messages of the same shape as those calls take."""
    channel = GrpcNet().dial(client.member)
    for path, request in (
        ("UserAdd", pb.AuthenticateRequest(name="root", password="right")),
        ("RoleAdd", pb.AuthenticateRequest(name="root")),
        ("UserGrantRole", pb.AuthenticateRequest(name="root", password="root")),
        ("AuthEnable", pb.StatusRequest()),
    ):
        method: UnaryMethod[object, pb.PutResponse] = UnaryMethod(
            f"/etcdserverpb.Auth/{path}", pb.PutResponse.FromString
        )
        await channel.unary(method, request, timeout_s=10)
    await channel.close()
