"""Human repair, audited (`providers#kit`, `providers#repair`)."""

import json
from collections.abc import Callable

import pytest

from bigfleet.aio.disk import DiskCause, DiskError
from bigfleet.aio.net import Code, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.errors import NoSuchMachineError, OutOfPositionError
from bigfleet.provider.kit.audit import RepairAuditFile
from bigfleet.provider.kit.backend import Op, Permanent
from bigfleet.provider.kit.core.values import DescribedMachine, MachineRecord
from bigfleet.providerkit.scripted import ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.disk.image import DiskFault
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from bigfleet.testing.loop import run_virtual

MakeSlots = Callable[..., list[DescribedMachine]]


async def breaks(_machine: MachineRecord, _op: Op) -> None:
    raise Permanent("no route to host")


def lines(disk: MemoryDisk) -> list[dict[str, str]]:
    return [json.loads(line) for line in disk.read("/audit.jsonl").splitlines()]


@pytest.mark.rule("providers#repair")
def test_a_repair_is_refused_unless_the_machine_failed_and_always_audited(slots: MakeSlots) -> None:
    async def run() -> None:
        disk = MemoryDisk()
        backend = ScriptedBackend(slots(2, host=True))
        backend.next(OperationKind.CONFIGURE, breaks)
        async with VirtualProvider(backend, audit=RepairAuditFile(disk, "/audit.jsonl")) as provider:
            with pytest.raises(OutOfPositionError, match="the machine is Idle, only a Failed one"):
                await provider.kit.repair("m-0", S.IDLE, "uid 7")
            with pytest.raises(NoSuchMachineError):
                await provider.kit.repair("ghost", S.IDLE, "uid 7")
            await provider.client.configure("m-0", "c")
            await provider.settled("m-0")
            revision = (await provider.client.list()).revision
            await provider.kit.repair("m-0", S.IDLE, "uid 7")
            machine = provider.machine("m-0")
            assert (machine.state, machine.cluster, machine.last_error) == (S.IDLE, "", "")
            delta = await provider.client.list(since=revision)
            assert [record.id for record in delta.machines] == ["m-0"]
            await provider.client.configure("m-0", "c")
            assert (await provider.settled("m-0"))[0].state is S.CONFIGURED
        reported = [
            (line["machine"], line["to"], line["who"], line["outcome"].split(":")[0]) for line in lines(disk)
        ]
        assert reported == [
            ("m-0", "Idle", "uid 7", "asked"),
            ("m-0", "Idle", "uid 7", "refused"),
            ("ghost", "Idle", "uid 7", "asked"),
            ("ghost", "Idle", "uid 7", "refused"),
            ("m-0", "Idle", "uid 7", "asked"),
            ("m-0", "Idle", "uid 7", "done"),
        ]
        assert all(line["time"].endswith("Z") and line["action"] == "repair" for line in lines(disk))

    run_virtual(run())


def test_a_repair_that_cannot_be_written_down_does_not_happen(slots: MakeSlots) -> None:
    async def run() -> None:
        disk = MemoryDisk()
        backend = ScriptedBackend(slots(1, host=True))
        backend.next(OperationKind.CONFIGURE, breaks)
        async with VirtualProvider(backend, audit=RepairAuditFile(disk, "/audit.jsonl")) as provider:
            await provider.client.configure("m-0", "c")
            await provider.settled("m-0")
            disk.image.inject(DiskFault("write", DiskCause.FULL))
            with pytest.raises(DiskError):
                await provider.kit.repair("m-0", S.IDLE, "uid 7")
            assert provider.machine("m-0").state is S.FAILED

    run_virtual(run())


def test_without_a_file_the_audit_goes_to_the_log(slots: MakeSlots) -> None:
    async def run() -> None:
        async with VirtualProvider(ScriptedBackend(slots(1))) as provider:
            with pytest.raises(OutOfPositionError):
                await provider.kit.repair("m-0", S.SPECULATIVE, "uid 7")
            reported = [json.loads(line) for line in provider.log_text.splitlines()]
            assert [line["outcome"][:7] for line in reported if line["event"] == "audit"] == [
                "asked",
                "refused",
            ]

    run_virtual(run())


def test_no_call_leads_out_of_failed(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots(1, host=True))
        backend.next(OperationKind.CONFIGURE, breaks)
        async with VirtualProvider(backend) as provider:
            client = provider.client
            await client.configure("m-0", "c")
            await provider.settled("m-0")
            for call in (
                client.create("m-0"),
                client.configure("m-0", "d"),
                client.drain("m-0"),
                client.delete("m-0"),
            ):
                with pytest.raises(RpcError) as refused:
                    await call
                assert refused.value.code is Code.INTERNAL
            machine = provider.machine("m-0")
            assert (machine.state, machine.last_error) == (S.FAILED, "configure failed: no route to host")

    run_virtual(run())
