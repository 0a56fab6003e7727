"""Repairs and resets of fence marks over a local socket: one JSON line in, one JSON line out.

Why: neither may be reachable over the network, nor by callers of the provider; only its owner can open the socket file.
Must never: listen on anything but a local path, admit other users, or do anything but these two.
Rules: `providers#repair`, `providers#reset-marks`.
"""

import asyncio
import contextlib
import json
import os
import socket
import stat
import struct
from collections.abc import Mapping
from os import fspath
from typing import Any, Final, Protocol

from bigfleet.aio.disk import AnyPath
from bigfleet.aio.net import ListenError
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import MachineState

REPAIR_TARGETS: Final = {"idle": MachineState.IDLE, "speculative": MachineState.SPECULATIVE}
MAX_LINE_BYTES: Final = 64 * 1024
_CREDENTIALS: Final = struct.Struct("3i")  # process, user and group of the peer, as Linux returns them


class AdminActions(Protocol):
    """What carries out the actions; the kit is one."""

    async def repair(self, machine_id: str, to: MachineState, who: str) -> None: ...

    async def reset_marks(self, shard_id: str, epoch: int, who: str) -> int: ...


class AdminError(BigFleetError):
    """The provider refused the action; the text is its own."""


class UnknownActionError(BigFleetError):
    """A line on the socket asks for something that it does not do."""

    def __init__(self) -> None:
        super().__init__(
            "found another request, allowed is repair with machine_id and to, or reset-marks with shard_id and epoch"
        )


class AdminUnreachableError(AdminError):
    """No process listens on the socket."""


class AdminSocket:
    """Listens for actions until closed."""

    def __init__(self, kit: AdminActions, path: AnyPath) -> None:
        self._kit, self._path = kit, fspath(path)
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on a new socket file with mode 0600, set before a client can connect."""
        self._clear_stale()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(self._path)
            os.chmod(self._path, stat.S_IRUSR | stat.S_IWUSR)
        except OSError as error:
            listener.close()
            raise ListenError(self._path, error.strerror or str(error)) from error
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_LINE_BYTES)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def _clear_stale(self) -> None:
        """Remove the socket of a dead process; refuse one that answers, and a file that is no socket."""
        try:
            if not stat.S_ISSOCK(os.lstat(self._path).st_mode):
                raise ListenError(self._path, "there is a file in its place")
        except FileNotFoundError:
            return
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
            try:
                probe.connect(self._path)
            except ConnectionRefusedError:
                os.unlink(self._path)
                return
        raise ListenError(self._path, "another process listens on it")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer(reader, _who(writer))
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except ConnectionError:
            return  # the client is gone; the audit has the request
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, who: str) -> Mapping[str, object]:
        try:
            return {"ok": True, **await self._carried_out(await reader.readline(), who)}
        except BigFleetError as error:
            return {"ok": False, "error": str(error)}
        except ValueError:  # a line without an end
            return {"ok": False, "error": str(UnknownActionError())}

    async def _carried_out(self, line: bytes, who: str) -> Mapping[str, object]:
        match _parsed(line):
            case {"verb": "repair", "machine_id": str(machine_id), "to": str(to)} if to in REPAIR_TARGETS:
                await self._kit.repair(machine_id, REPAIR_TARGETS[to], who)
                return {}
            case {"verb": "reset-marks", "shard_id": str(shard_id), "epoch": int(epoch)}:
                return {"lowered": await self._kit.reset_marks(shard_id, epoch, who)}
        raise UnknownActionError


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        raise UnknownActionError from None


def _who(writer: asyncio.StreamWriter) -> str:
    peer: socket.socket = writer.get_extra_info("socket")
    if not hasattr(socket, "SO_PEERCRED"):
        return "unknown"
    process, user, _ = _CREDENTIALS.unpack(
        peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return f"uid {user}, pid {process}"


async def ask_repair(path: AnyPath, machine_id: str, to: str) -> None:
    """Ask the provider behind a socket to repair a machine; raises `AdminError` with its reply if it refuses."""
    await _ask(path, {"verb": "repair", "machine_id": machine_id, "to": to})


async def ask_reset_marks(path: AnyPath, shard_id: str, epoch: int) -> int:
    """Ask the provider behind a socket to lower the marks of a shard; return how many were above the epoch."""
    answer = await _ask(path, {"verb": "reset-marks", "shard_id": shard_id, "epoch": epoch})
    return int(answer["lowered"])


async def _ask(path: AnyPath, request: Mapping[str, object]) -> dict[str, Any]:  # Any: as JSON is
    try:
        reader, writer = await asyncio.open_unix_connection(fspath(path), limit=MAX_LINE_BYTES)
    except OSError as error:
        raise AdminUnreachableError(f"{fspath(path)}: {error.strerror or error}") from error
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    except (OSError, ValueError) as error:
        raise AdminUnreachableError(f"{fspath(path)}: the provider hung up") from error
    finally:
        writer.close()
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError:
        raise AdminUnreachableError(f"{fspath(path)}: the provider hung up") from None
    if not answer.get("ok"):
        raise AdminError(str(answer.get("error", "refused without a reason")))
    return answer
