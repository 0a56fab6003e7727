"""The six calls of a whole provider, in virtual time.

Rules: `providers#check-order`, `providers#reads`, `providers#idempotency-table`, `providers#fence-mark`,
`providers#revision`, `providers#status-codes`, `providers#record-fields`, `providers#listing-size`,
`providers#persist-before-ack`, `providers#async-work`, `providers#refresh`, `providers#fake-scale`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.aio.disk import DiskCause, DiskError
from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.aio.net import Code, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.backend import Op
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord
from bigfleet.provider.kit.limits import Limits
from bigfleet.providerkit.scripted import MemoryStore, ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual
from bigfleet.transport.inside import InsideCall
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.builders import shape
from tests.support.fake_provider import code_of as ending_of

MakeSlots = Callable[..., list[DescribedMachine]]


async def code_of(call: Awaitable[object]) -> Code:
    with pytest.raises(RpcError) as refused:
        await call
    return refused.value.code


def state_of(record: pb.Machine) -> S:
    return S(record.state)


def test_a_machine_walks_the_whole_way_and_back(slots: MakeSlots) -> None:
    async def walk() -> None:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            client = provider.client
            ack = await client.create("m-0")
            assert ack.operation_id
            assert (await provider.settled("m-0"))[0].host == "host-of-m-0"
            ack = await client.configure("m-0", "prod", metadata={"k": "v"})
            assert (ack.machine.cluster, dict(ack.machine.shard_metadata)) == ("prod", {"k": "v"})
            await provider.settled("m-0")
            record = await client.get("m-0")
            assert (state_of(record), record.cluster) == (S.CONFIGURED, "prod")
            assert (record.host.provider, record.host.ref) == ("acme", "host-of-m-0")
            ack = await client.drain("m-0", grace_s=5)
            assert (state_of(ack.machine), ack.machine.cluster) == (S.DRAINING, "prod")
            await provider.settled("m-0")
            record = await client.get("m-0")
            assert (state_of(record), record.cluster, dict(record.shard_metadata)) == (S.IDLE, "", {})
            await client.delete("m-0")
            await provider.settled("m-0")
            record = await client.get("m-0")
            assert (state_of(record), record.HasField("host")) == (S.SPECULATIVE, False)

    run_virtual(walk())


@pytest.mark.rule("providers#async-work")
def test_a_call_is_acknowledged_at_once_while_the_backend_takes_its_time(slots: MakeSlots) -> None:
    async def hurry() -> None:
        backend = ScriptedBackend(slots(200))
        async with VirtualProvider(backend, limits=Limits(workers=1000)) as provider:
            clock = provider.process.clock

            async def slow(machine: MachineRecord, op: Op) -> CreatedHost:
                await clock.sleep(10)
                return CreatedHost("h")

            backend.always(OperationKind.CREATE, slow)
            started = clock.monotonic_ns()
            acks = await asyncio.gather(*(provider.client.create(f"m-{n}") for n in range(200)))
            # Not a nanosecond of virtual time: nothing that the backend does is waited for.
            assert clock.monotonic_ns() == started
            assert {state_of(ack.machine) for ack in acks} == {S.CREATING}
            await provider.pass_time(9.9)
            assert provider.machine("m-0").state is S.CREATING
            await provider.pass_time(0.2)
            assert {provider.machine(f"m-{n}").state for n in range(200)} == {S.IDLE}

    run_virtual(hurry())


@pytest.mark.rule("providers#persist-before-ack")
def test_an_accepted_call_is_answered_only_after_its_entry_is_durable(slots: MakeSlots) -> None:
    async def wait() -> None:
        store = MemoryStore()
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, store=store) as provider:
            store.hold()
            call = asyncio.ensure_future(provider.client.create("m-0", FencingToken("s", 1, 1)))
            await provider.pass_time(5)
            assert (call.done(), store.waiting) == (False, 1)
            # Until then no reader sees it, and no operation begins.
            assert state_of(await provider.client.get("m-0")) is S.SPECULATIVE
            assert backend.calls == []
            listed = await provider.client.list(since=b"3")
            assert (len(listed.machines), listed.revision) == (0, b"3")
            store.release()
            assert state_of((await call).machine) is S.CREATING
            assert [made.kind for made in backend.calls] == [OperationKind.CREATE]

    run_virtual(wait())


def test_a_caller_that_gives_up_waiting_does_not_stop_what_is_on_its_way_to_the_disk(
    slots: MakeSlots,
) -> None:
    async def give_up() -> None:
        store = MemoryStore()
        async with VirtualProvider(ScriptedBackend(slots()), store=store) as provider:
            store.hold()
            call = asyncio.ensure_future(provider.client.create("m-0"))
            await provider.pass_time(1)
            call.cancel()
            await provider.pass_time(1)
            store.release()
            await provider.settled("m-0")
            first = await provider.client.create("m-0")
            assert state_of(first.machine) is S.IDLE  # the operation on record, not a second one
            assert provider.kit.tasks == 0

    run_virtual(give_up())


def test_a_store_that_cannot_be_written_accepts_nothing(slots: MakeSlots) -> None:
    async def refuse() -> None:
        store = MemoryStore()
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, store=store) as provider:
            store.problem = DiskError("write", "/state", DiskCause.FULL)
            token = FencingToken("s", 1, 1)
            assert await code_of(provider.client.create("m-0", token)) is Code.UNAVAILABLE
            assert state_of(await provider.client.get("m-0")) is S.SPECULATIVE
            assert backend.calls == []
            store.problem = None
            await provider.client.create("m-0", token)  # the mark was not written either

    run_virtual(refuse())


def test_a_result_that_cannot_be_stored_is_stored_later(slots: MakeSlots) -> None:
    async def later() -> None:
        store = MemoryStore()
        async with VirtualProvider(ScriptedBackend(slots()), store=store) as provider:
            store.hold()
            call = asyncio.ensure_future(provider.client.create("m-0"))
            await provider.pass_time(1)
            store.release()
            store.problem = DiskError("write", "/state", DiskCause.FULL)
            await call
            await provider.pass_time(30)
            assert provider.machine("m-0").state is S.CREATING
            store.problem = None
            assert (await provider.settled("m-0"))[0].state is S.IDLE

    run_virtual(later())


HOSTILE = {
    "nul\0key": "nul\0value",
    "empty": "",
    "": "empty key",
    "emoji": "🐙🚀",
    "control": "\x01\x02\x1f\x7f\x85",
    "padded": "  both sides  ",
    "huge": "x" * (512 * 1024),
    "bigfleet.lucy.sh/owner-shard": "shard-0",
}


@pytest.mark.rule("providers#record-fields")
def test_a_hostile_map_survives_a_restart_byte_for_byte(slots: MakeSlots) -> None:
    async def keep() -> None:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            await provider.client.create("m-0")
            await provider.settled("m-0")
            await provider.client.configure("m-0", "c", metadata=HOSTILE)
            await provider.settled("m-0")
            assert dict((await provider.client.get("m-0")).shard_metadata) == HOSTILE
            await provider.restart()
            client = provider.another_client()
            assert dict((await client.get("m-0")).shard_metadata) == HOSTILE
            listed = await client.list([S.CONFIGURED])
            assert [dict(machine.shard_metadata) for machine in listed.machines] == [HOSTILE]

    run_virtual(keep())


def test_reads_never_fence_and_name_what_is_wrong(slots: MakeSlots) -> None:
    async def read() -> None:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            client = provider.client
            await client.create("m-0", FencingToken("s", 9, 9))
            assert await code_of(client.create("m-0", FencingToken("s", 1, 1))) is Code.FAILED_PRECONDITION
            assert (await client.get("m-0")).id == "m-0"
            assert len((await client.list()).machines) == 3
            assert await code_of(client.get("ghost")) is Code.NOT_FOUND
            assert await code_of(client.get("")) is Code.INVALID_ARGUMENT

    run_virtual(read())


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("create", Code.NOT_FOUND),
        ("configure", Code.NOT_FOUND),
        ("drain", Code.NOT_FOUND),
        ("delete", Code.NOT_FOUND),
    ],
)
def test_a_ghost_is_not_found_fenced_all_the_same_and_never_made(
    slots: MakeSlots, call: str, code: Code
) -> None:
    async def ask() -> None:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            method = getattr(provider.client, call)
            arguments = ("ghost", "c") if call == "configure" else ("ghost",)
            assert await code_of(method(*arguments, FencingToken("s", 5, 5))) is code
            assert await code_of(method(*arguments, FencingToken("s", 1, 1))) is Code.FAILED_PRECONDITION
            assert await code_of(method(*arguments, FencingToken("s", 9, 9))) is code
            assert await code_of(provider.client.get("ghost")) is Code.NOT_FOUND

    run_virtual(ask())


def test_a_call_out_of_position_is_internal_and_changes_nothing(slots: MakeSlots) -> None:
    async def ask() -> None:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            before = (await provider.client.list()).revision
            assert await code_of(provider.client.drain("m-0")) is Code.INTERNAL
            assert await code_of(provider.client.configure("m-0", "c")) is Code.INTERNAL
            assert (await provider.client.list()).revision == before

    run_virtual(ask())


def test_delete_is_unimplemented_where_it_is_not_offered(slots: MakeSlots) -> None:
    async def ask() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, offer_delete=False) as provider:
            assert await code_of(provider.client.delete("m-0")) is Code.UNIMPLEMENTED
            assert await code_of(provider.client.delete("ghost")) is Code.UNIMPLEMENTED
            assert await code_of(provider.client.delete("")) is Code.INVALID_ARGUMENT

    run_virtual(ask())


def test_fencing_can_be_required(slots: MakeSlots) -> None:
    async def ask() -> None:
        async with VirtualProvider(ScriptedBackend(slots()), require_fencing=True) as provider:
            assert await code_of(provider.client.create("m-0")) is Code.INVALID_ARGUMENT
            await provider.client.create("m-0", FencingToken("s", 0, 1))

    run_virtual(ask())


async def codes_under_tls(
    slots: MakeSlots, identity: Identity, **options: Any
) -> tuple[list[Code], dict[str, float]]:  # Any: what the kit takes
    """Return how a Create in two names and without a token, a Get and a List end for a caller, and the refusals counted."""
    async with VirtualProvider(ScriptedBackend(slots()), identity=identity, **options) as provider:
        client = provider.client
        codes = [
            await ending_of(client.create("m-0", FencingToken("shard-0", 1, 1))),
            await ending_of(client.create("m-1", FencingToken("shard-1", 1, 1))),
            await ending_of(client.create("m-2")),
            await ending_of(client.get("m-0")),
            await ending_of(client.list()),
        ]
        refused = provider.samples("bigfleet_provider_refused_total")
        return codes, {labels["reason"]: count for labels, count in refused if count}


OK, DENIED, INVALID = Code.OK, Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT


@pytest.mark.rule("providers#shard-san", "providers#empty-token")
@pytest.mark.parametrize(
    ("identity", "codes", "counted"),
    [
        pytest.param(
            Identity.shard("shard-0"),
            [OK, DENIED, INVALID, OK, OK],
            {"identity": 1, "no_token": 1},
            id="a shard in its own name only, with a token",
        ),
        pytest.param(Identity.cluster("blue"), [DENIED] * 5, {"identity": 5}, id="an operator not at all"),
        pytest.param(ADMIN, [DENIED] * 5, {"identity": 5}, id="an administrator not at all"),
        pytest.param(READONLY, [DENIED] * 5, {"identity": 5}, id="a reader not at all"),
    ],
)
def test_under_tls_a_provider_admits_without_a_flag(
    slots: MakeSlots, identity: Identity, codes: list[Code], counted: dict[str, float]
) -> None:
    assert run_virtual(codes_under_tls(slots, identity)) == (codes, counted)


@pytest.mark.rule("providers#shard-san", "providers#empty-token")
def test_each_requirement_is_turned_off_by_itself(slots: MakeSlots) -> None:
    open_door, _ = run_virtual(codes_under_tls(slots, READONLY, require_shard_san=False))
    assert open_door == [OK, OK, INVALID, OK, OK]
    no_token, _ = run_virtual(codes_under_tls(slots, Identity.shard("shard-0"), require_fencing=False))
    assert no_token == [OK, DENIED, OK, OK, OK]


@pytest.mark.rule("providers#shard-san")
def test_a_plaintext_caller_is_asked_for_neither(slots: MakeSlots) -> None:
    async def ask() -> list[Code]:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            return [await ending_of(provider.client.create("m-0")), await ending_of(provider.client.list())]

    assert run_virtual(ask()) == [OK, OK]


def test_a_listing_is_a_set_by_states_capped_and_by_cursor(slots: MakeSlots) -> None:
    async def listing() -> None:
        mixed = [*slots(4), DescribedMachine("idle", shape(), "h")]
        async with VirtualProvider(ScriptedBackend(mixed)) as provider:
            client = provider.client
            full = await client.list()
            assert sorted(machine.id for machine in full.machines) == ["idle", "m-0", "m-1", "m-2", "m-3"]
            assert [machine.id for machine in (await client.list([S.IDLE])).machines] == ["idle"]
            assert len((await client.list([S.IDLE, S.SPECULATIVE, S.IDLE])).machines) == 5
            assert len((await client.list(at_most=2)).machines) == 2
            await client.create("m-1")
            await provider.settled("m-1")
            delta = await client.list(since=full.revision)
            assert [machine.id for machine in delta.machines] == ["m-1"]
            assert state_of(delta.machines[0]) is S.IDLE
            assert (await client.list([S.SPECULATIVE], since=full.revision)).machines == []
            assert len((await client.list(since=delta.revision)).machines) == 0
            for junk in (b"x", b"\xff\xfe", b"\xde" * 4096, delta.revision + b"!", b"~" + delta.revision):
                assert len((await client.list(since=junk)).machines) == 5

    run_virtual(listing())


@pytest.mark.rule("providers#capped-listings-rotate")
def test_capped_listings_begin_where_the_last_one_ended_and_wrap(slots: MakeSlots) -> None:
    async def listing() -> None:
        async with VirtualProvider(ScriptedBackend(slots(5))) as provider:
            client = provider.client

            async def ids(at_most: int, *states: S, since: bytes = b"") -> list[str]:
                found = await client.list(states, since=since, at_most=at_most)
                return [machine.id for machine in found.machines]

            assert [await ids(1) for _ in range(3)] == [["m-0"], ["m-1"], ["m-2"]]
            assert await ids(3) == ["m-3", "m-4", "m-0"]
            # A listing that leaves nothing out does not move the place.
            assert await ids(5) == ["m-0", "m-1", "m-2", "m-3", "m-4"]
            assert await ids(2) == ["m-1", "m-2"]
            head = (await client.list()).revision
            for machine_id in ("m-3", "m-1"):
                await client.create(machine_id)
                await provider.settled(machine_id)
            # Machines that no longer match are passed over, none is named twice before all were named.
            assert [await ids(1, S.SPECULATIVE) for _ in range(4)] == [["m-4"], ["m-0"], ["m-2"], ["m-4"]]
            assert sorted([await ids(1, since=head) for _ in range(2)]) == [["m-1"], ["m-3"]]

    run_virtual(listing())


@pytest.mark.parametrize("number", [0, 9, 42, -1, 2**31 - 1])
def test_a_filter_with_an_unknown_state_is_refused(slots: MakeSlots, number: int) -> None:
    async def ask() -> None:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            request = pb.ListFilter.FromString(b"\x08" + _varint(number))
            with pytest.raises(Exception, match="states: found") as refused:
                await provider.kit.service.list(request, InsideCall("/test"))
            assert getattr(refused.value, "code", None) is Code.INVALID_ARGUMENT

    run_virtual(ask())


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def test_an_answer_too_large_names_both_numbers(slots: MakeSlots) -> None:
    async def ask() -> None:
        backend = ScriptedBackend(slots(100))
        async with VirtualProvider(backend, limits=Limits(max_message_bytes=2000)) as provider:
            with pytest.raises(RpcError) as refused:
                await provider.client.list()
            assert refused.value.code is Code.RESOURCE_EXHAUSTED
            assert "the message limit is 2000 bytes" in refused.value.detail
            size = int(refused.value.detail.split("takes ")[1].split()[0])
            assert size > 2000
            assert len((await provider.client.list(at_most=10)).machines) == 10

    run_virtual(ask())


def test_a_synchronous_provider_answers_with_the_end_of_the_work(slots: MakeSlots) -> None:
    async def ask() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, synchronous=True) as provider:
            assert state_of((await provider.client.create("m-0")).machine) is S.IDLE
            assert state_of((await provider.client.configure("m-0", "c")).machine) is S.CONFIGURED
            assert state_of((await provider.client.drain("m-0")).machine) is S.IDLE
            assert state_of((await provider.client.delete("m-0")).machine) is S.SPECULATIVE

    run_virtual(ask())


def test_sixteen_callers_at_once_start_one_operation(slots: MakeSlots) -> None:
    async def race() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend) as provider:
            clients = [provider.another_client() for _ in range(16)]
            acks = await asyncio.gather(*(client.create("m-0") for client in clients))
            assert len({ack.operation_id for ack in acks}) == 1
            await provider.settled("m-0")
            assert len(backend.calls) == 1

    run_virtual(race())


def test_metrics_tell_calls_fences_and_machines(slots: MakeSlots) -> None:
    async def count() -> None:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            await provider.client.create("m-0", FencingToken("s", 2, 2))
            assert (
                await code_of(provider.client.create("m-0", FencingToken("s", 1, 1)))
                is Code.FAILED_PRECONDITION
            )
            await provider.client.create("m-1")
            await provider.settled("m-0", "m-1")
            calls = {
                (labels["rpc"], labels["code"]): value
                for labels, value in provider.samples("bigfleet_provider_rpc_seconds_count")
            }
            assert calls["Create", "OK"] == 2
            assert calls["Create", "FAILED_PRECONDITION"] == 1
            assert list(provider.samples("bigfleet_provider_fenced_total")) == [({}, 1.0)]
            assert list(provider.samples("bigfleet_provider_unfenced_total")) == [({}, 1.0)]
            states = {
                labels["state"]: value for labels, value in provider.samples("bigfleet_provider_machines")
            }
            assert (states["Idle"], states["Speculative"], states["Creating"]) == (2, 1, 0)
            done = list(provider.samples("bigfleet_provider_transition_seconds_count"))
            assert done == [({"kind": "create", "outcome": "done"}, 2.0)]

    run_virtual(count())


def test_each_transition_is_one_log_line(slots: MakeSlots) -> None:
    async def walk() -> list[dict[str, object]]:
        async with VirtualProvider(ScriptedBackend(slots())) as provider:
            await provider.client.create("m-0")
            await provider.settled("m-0")
            return [json.loads(line) for line in provider.log_text.splitlines()]

    lines = [line for line in run_virtual(walk()) if line["event"] == "transition"]
    assert [(line["machine"], line["before"], line["state"]) for line in lines] == [
        ("m-0", "Speculative", "Creating"),
        ("m-0", "Creating", "Idle"),
    ]
