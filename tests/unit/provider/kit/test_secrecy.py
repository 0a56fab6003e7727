"""The bootstrap blob appears nowhere (`providers#reads`, `providers#blob-secret`)."""

import asyncio
from collections.abc import Callable

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.backend import Op, Permanent, Transient
from bigfleet.provider.kit.core.values import DescribedMachine, MachineRecord
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.workers import AcceptedOperation
from bigfleet.providerkit.scripted import Script, ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process
from tests.support.builders import shape

MakeSlots = Callable[..., list[DescribedMachine]]
MARKER = "join-token-5f1c9d2e77"
BLOB = f"#!/bin/sh\nexport JOIN={MARKER}\n".encode()


async def succeeds(_machine: MachineRecord, op: Op) -> None:
    op.log.info("configuring", attempt=op.attempt)


async def quotes_it(_machine: MachineRecord, _op: Op) -> None:
    raise Permanent(f"command failed: {BLOB.decode()}")


async def quotes_one_line(_machine: MachineRecord, _op: Op) -> None:
    raise RuntimeError(f"sh: export JOIN={MARKER}: not found")


async def quotes_it_and_may_try_again(_machine: MachineRecord, op: Op) -> None:
    if op.attempt == 1:
        raise Transient(f"ssh: {BLOB!r}")


async def hangs(_machine: MachineRecord, _op: Op) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.rule("providers#blob-secret")
@pytest.mark.parametrize(
    "script",
    [succeeds, quotes_it, quotes_one_line, quotes_it_and_may_try_again, hangs],
    ids=lambda s: s.__name__,
)
def test_the_blob_is_in_no_answer_log_metric_or_file(slots: MakeSlots, script: Script) -> None:
    async def run() -> None:
        process = virtual_process("provider")
        store = Journal("/state", disk=process.disk, clock=process.clock, rng=process.rng)
        backend = ScriptedBackend(slots(2, host=True))
        backend.always(OperationKind.CONFIGURE, script)
        limits = Limits(configure=30, refresh=0)
        async with VirtualProvider(backend, store=store, process=process, limits=limits) as provider:
            ack = await provider.client.configure("m-0", "c", blob=BLOB, metadata={"k": "v"})
            during = [file_bytes(provider), ack.SerializeToString()]
            await provider.pass_time(60)
            assert provider.machine("m-0").state in (S.CONFIGURED, S.FAILED)
            again = await provider.client.get("m-0")
            listed = await provider.client.list()
            seen = [
                *during,
                again.SerializeToString(),
                listed.SerializeToString(),
                provider.log_text.encode(),
                provider.metrics_text.encode(),
                file_bytes(provider),
            ]
            assert backend.calls[0].blob_bytes == len(BLOB)
            for place, data in enumerate(seen):
                assert MARKER.encode() not in data, f"the blob is in place {place}"

    run_virtual(run())


def file_bytes(provider: VirtualProvider) -> bytes:
    disk = provider.process.disk
    return b"".join(disk.read(f"/state/{name}") for name in disk.list_names("/state"))


def test_work_does_not_show_its_blob_when_printed() -> None:
    work = AcceptedOperation(
        MachineRecord("m", S.CONFIGURING, shape(), "h", "c"), OperationKind.CONFIGURE, 1, "op", blob=BLOB
    )
    assert MARKER not in repr(work)
