"""Repair through the socket and the command (`providers#repair`)."""

import asyncio
import json
import socket as sockets
import stat
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.aio.net import ListenError, RpcServer
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.kit.admin import AdminError, AdminSocket, AdminUnreachableError, ask_repair
from bigfleet.provider.kit.audit import RepairAuditFile
from bigfleet.provider.kit.core.transitions import Lost
from bigfleet.provider.kit.kit import ProviderKit

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

ServeKit = Callable[..., Awaitable[tuple[ProviderKit, RpcServer]]]


def command(*argv: str | Path) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 11, 16, tzinfo=UTC))
    code = dispatch(console, ["provider-admin", "repair", *map(str, argv)])
    return code, out.getvalue(), err.getvalue()


@pytest.mark.rule("providers#repair")
async def test_a_person_repairs_a_failed_machine_and_is_written_down(serve: ServeKit, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    kit, _ = await serve(host=True, audit=RepairAuditFile(SystemDisk(), audit))
    path = tmp_path / "admin.sock"
    socket = AdminSocket(kit, path)
    await socket.open()
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        code, out, err = await asyncio.to_thread(command, "m-0", "--to", "idle", "--socket", path)
        assert (code, out) == (3, "")
        assert "the machine is Idle, only a Failed one can be repaired" in err
        await kit.report_event(Lost("m-0", "fan broke"))
        code, out, err = await asyncio.to_thread(command, "m-0", "--to", "idle", "--socket", path)
        assert (code, out, err) == (0, "m-0 is Idle again\n", "")
        machine = kit.machine("m-0")
        assert machine is not None
        assert (machine.state, machine.last_error) == (S.IDLE, "")
        code, _, err = await asyncio.to_thread(command, "ghost", "--to", "speculative", "--socket", path)
        assert (code, "knows no such machine" in err) == (3, True)
    finally:
        await socket.close()
    assert not path.exists()
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["outcome"].split(":")[0] for line in lines] == [
        "asked",
        "refused",
        "asked",
        "done",
        "asked",
        "refused",
    ]
    assert all(line["who"].startswith("uid ") for line in lines)


async def test_an_unreachable_provider_is_reported_as_such(tmp_path: Path) -> None:
    code, _, err = await asyncio.to_thread(command, "m-0", "--to", "idle", "--socket", tmp_path / "none.sock")
    assert code == 7
    assert str(tmp_path / "none.sock") in err
    with pytest.raises(AdminUnreachableError):
        await ask_repair(tmp_path / "none.sock", "m-0", "idle")


async def test_a_wrong_call_is_a_usage_error() -> None:
    assert (await asyncio.to_thread(command, "m-0", "--to", "configured"))[0] == 2
    assert (await asyncio.to_thread(command, "--to", "idle"))[0] == 2


@pytest.mark.parametrize(
    "line",
    [b"nonsense\n", b"{}\n", b'{"verb": "delete", "machine_id": "m-0", "to": "idle"}\n', b"[1]\n", b"\n",
     b'{"verb": "repair", "machine_id": "m-0", "to": "configured"}\n', b"x" * 100_000 + b"\n"],
)  # fmt: skip
async def test_anything_but_a_repair_is_refused(serve: ServeKit, tmp_path: Path, line: bytes) -> None:
    kit, _ = await serve()
    socket = AdminSocket(kit, tmp_path / "admin.sock")
    await socket.open()
    try:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "admin.sock"))
        writer.write(line)
        async with asyncio.timeout(20):
            answer = json.loads(await reader.readline())
        writer.close()
        assert answer["ok"] is False
        with pytest.raises(AdminError):  # and the socket still answers
            await ask_repair(tmp_path / "admin.sock", "m-0", "idle")
    finally:
        await socket.close()


async def test_the_socket_of_a_dead_process_is_replaced_and_a_living_one_is_not(
    serve: ServeKit, tmp_path: Path
) -> None:
    kit, _ = await serve()
    path = tmp_path / "admin.sock"
    with sockets.socket(sockets.AF_UNIX) as dead:
        dead.bind(str(path))
    first = AdminSocket(kit, path)
    await first.open()
    try:
        with pytest.raises(ListenError, match="another process listens"):
            await AdminSocket(kit, path).open()
    finally:
        await first.close()
    path.write_text("an unrelated file")
    with pytest.raises(ListenError, match="a file in its place"):
        await AdminSocket(kit, path).open()
    with pytest.raises(ListenError):
        await AdminSocket(kit, tmp_path / "missing" / "admin.sock").open()
