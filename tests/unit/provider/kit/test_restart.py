"""Operations that a restart interrupted are resumed, unless the backend says that it cannot know what became of them."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import EDGES, OperationKind
from bigfleet.provider.kit.backend import CannotResume, Op, ResumeOutcome, Transient
from bigfleet.provider.kit.core.changes import GraceEnd
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord
from bigfleet.provider.kit.entries import EntryDecoder, encode
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.state_files import write_snapshot
from bigfleet.providerkit.scripted import ReadyBackend, ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual

MakeSlots = Callable[..., list[DescribedMachine]]
LIMITS = Limits(create=60, configure=60, drain=60, delete=60, refresh=0)
GRACE_S = 100

pytestmark = pytest.mark.rule("providers#restart")


async def hang(_machine: MachineRecord, _op: Op) -> None:
    await asyncio.get_running_loop().create_future()


async def interrupt(provider: VirtualProvider, backend: ScriptedBackend, kind: OperationKind) -> str:
    """Begin an operation of m-0, end the provider in the middle of it and start it again; return the operation's id."""
    client = provider.client
    if kind is not OperationKind.CREATE:
        await client.create("m-0")
        await provider.settled("m-0")
    if kind is OperationKind.DRAIN:
        await client.configure("m-0", "c", metadata={"k": "v"})
        await provider.settled("m-0")
    backend.next(kind, hang)
    match kind:
        case OperationKind.CREATE:
            ack = await client.create("m-0")
        case OperationKind.CONFIGURE:
            ack = await client.configure("m-0", "c", blob=b"secret blob", metadata={"k": "v"})
        case OperationKind.DRAIN:
            ack = await client.drain("m-0", grace_s=GRACE_S)
        case OperationKind.DELETE:
            ack = await client.delete("m-0")
    await provider.pass_time(30)
    assert provider.machine("m-0").state is EDGES[kind].during
    await provider.restart()
    return ack.operation_id


class Seeing(ReadyBackend):
    """Its nodes are Ready once `configure` was called for them; it keeps the attempts that it is shown."""

    def __init__(self, slots: list[DescribedMachine]) -> None:
        super().__init__(slots)
        self.ops: list[Op] = []

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        self.ops.append(op)
        await super().configure(machine, cluster, blob, op)
        self.ready.add(machine.id)


@pytest.mark.parametrize("kind", list(OperationKind))
@pytest.mark.parametrize("snapshot", [False, True], ids=["journal", "snapshot"])
def test_the_interrupted_step_is_repeated_with_the_same_operation(
    slots: MakeSlots, kind: OperationKind, snapshot: bool
) -> None:
    async def run() -> None:
        backend = Seeing(slots())
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            operation = await interrupt(provider, backend, kind)
            if snapshot:  # killed once more, now with everything in a snapshot
                await write_snapshot(provider.store, provider.kit.state)
                await provider.restart()
            (machine,) = await provider.settled("m-0")
            assert (machine.state, machine.last_error) == (EDGES[kind].target, "")
            last = backend.calls[-1]
            assert (last.kind, last.operation_id, last.attempt) == (kind, operation, 1)
            if kind is OperationKind.CONFIGURE:
                assert [op.resumed for op in backend.ops][:2] == [False, True]
                assert (last.blob_bytes, machine.cluster) == (0, "c")
            assert f'"operation": "{operation}"' in provider.log_text
            assert "operation_resumed" in provider.log_text

    run_virtual(run())


def test_a_node_that_has_joined_is_not_configured_again_without_its_blob(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ReadyBackend(slots())
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            backend.ready.add("m-0")
            await interrupt(provider, backend, OperationKind.CONFIGURE)
            (machine,) = await provider.settled("m-0")
            assert machine.state is S.CONFIGURED
            assert [call.kind for call in backend.calls].count(OperationKind.CONFIGURE) == 1

    run_virtual(run())


def test_without_a_blob_and_without_readiness_a_configure_is_not_taken_for_done(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            await interrupt(provider, backend, OperationKind.CONFIGURE)
            (machine,) = await provider.settled("m-0")
            assert (machine.state, machine.cluster) == (S.FAILED, "c")
            assert machine.last_error == (
                "interrupted by restart: the blob is not stored, and the backend has neither resume nor node_ready"
            )
            assert [call.kind for call in backend.calls].count(OperationKind.CONFIGURE) == 1

    run_virtual(run())


class Resuming(ScriptedBackend):
    """Knows its operations by id, and ends them as `answers` says, one after the other."""

    def __init__(self, slots: list[DescribedMachine]) -> None:
        super().__init__(slots)
        self.resumed: list[tuple[str, OperationKind, str, timedelta]] = []
        self.answers: list[Exception] = []

    async def resume(self, machine: MachineRecord, op: Op) -> ResumeOutcome:
        self.resumed.append((machine.id, op.kind, op.id, op.grace))
        if self.answers:
            raise self.answers.pop(0)
        return ResumeOutcome(CreatedHost("found again") if op.kind is OperationKind.CREATE else None)


@pytest.mark.parametrize("kind", list(OperationKind))
def test_a_backend_with_a_way_of_its_own_is_asked_what_became_of_the_operation(
    slots: MakeSlots, kind: OperationKind
) -> None:
    async def run() -> None:
        backend = Resuming(slots())
        backend.answers = [Transient("the cloud does not answer")]
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            operation = await interrupt(provider, backend, kind)
            (machine,) = await provider.settled("m-0")
            assert machine.state is EDGES[kind].target
            # Thirty seconds of the grace had passed.
            left = timedelta(seconds=GRACE_S - 30 if kind is OperationKind.DRAIN else 0)
            assert backend.resumed == [("m-0", kind, operation, left)] * 2
            if kind is OperationKind.CREATE:
                assert machine.host == "found again"

    run_virtual(run())


@pytest.mark.parametrize("kind", list(OperationKind))
def test_a_backend_that_cannot_know_fails_the_machine_with_its_reason(
    slots: MakeSlots, kind: OperationKind
) -> None:
    async def run() -> None:
        backend = Resuming(slots())
        backend.answers = [CannotResume("the job id was lost")]
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            head = provider.kit.state.revision()
            await interrupt(provider, backend, kind)
            (machine,) = await provider.settled("m-0")
            assert machine.state is S.FAILED
            assert machine.last_error == "interrupted by restart: the job id was lost"
            assert machine.cluster == ("c" if kind in (OperationKind.CONFIGURE, OperationKind.DRAIN) else "")
            delta = await provider.another_client().list(since=head)
            assert "m-0" in [record.id for record in delta.machines]

    run_virtual(run())


def test_a_drain_gets_what_is_left_of_its_grace_and_none_once_that_has_passed(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            backend.always(OperationKind.DRAIN, hang)
            await provider.client.create("m-0")
            await provider.settled("m-0")
            await provider.client.configure("m-0", "c")
            await provider.settled("m-0")
            await provider.client.drain("m-0", grace_s=GRACE_S)
            for _ in range(3):
                await provider.pass_time(40)
                await provider.restart()
            await provider.pass_time(1)
            graces = [call.grace for call in backend.calls if call.kind is OperationKind.DRAIN]
            assert graces == [timedelta(seconds=seconds) for seconds in (100, 60, 20, 0)]
            await provider.pass_time(60)
            assert provider.machine("m-0").last_error == "drain timed out after 60 s"
            # Nothing of it is kept once the drain has ended.
            assert not [one for one in provider.kit.state.everything() if isinstance(one, GraceEnd)]

    run_virtual(run())


def test_the_end_of_a_grace_is_encoded_and_decoded() -> None:
    changes = (GraceEnd("r12/u07", 7, 2**40),)
    assert tuple(EntryDecoder().decode(encode(changes))) == changes
