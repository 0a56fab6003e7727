"""Repair over a local socket: one JSON line in, one JSON line out.

Why: repair must not be reachable over the network, nor by callers of the provider; only its owner can open the socket file.
Must never: listen on anything but a local path, admit other users, or do anything but repair.
Rules: `providers#repair`.
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
from typing import Final, Protocol

from bigfleet.aio.disk import AnyPath
from bigfleet.aio.net import ListenError
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import MachineState

REPAIR_TARGETS: Final = {"idle": MachineState.IDLE, "speculative": MachineState.SPECULATIVE}
MAX_LINE_BYTES: Final = 64 * 1024
_CREDENTIALS: Final = struct.Struct("3i")  # process, user and group of the peer, as Linux returns them


class Repairs(Protocol):
    """What carries out repairs; the kit is one."""

    async def repair(self, machine_id: str, to: MachineState, who: str) -> None: ...


class AdminError(BigFleetError):
    """The provider refused the repair; the text is its own."""


class AdminUnreachableError(AdminError):
    """No process listens on the socket."""


class AdminSocket:
    """Listens for repairs until closed."""

    def __init__(self, kit: Repairs, path: AnyPath) -> None:
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
            request = json.loads(await reader.readline())
            verb, machine_id, to = request["verb"], str(request["machine_id"]), REPAIR_TARGETS[request["to"]]
            if verb != "repair":
                raise ValueError(verb)
        except (ValueError, KeyError, TypeError):
            return {"ok": False, "error": "found another request, allowed is repair with machine_id and to"}
        try:
            await self._kit.repair(machine_id, to, who)
        except BigFleetError as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True}


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
    try:
        reader, writer = await asyncio.open_unix_connection(fspath(path), limit=MAX_LINE_BYTES)
    except OSError as error:
        raise AdminUnreachableError(f"{fspath(path)}: {error.strerror or error}") from error
    try:
        writer.write(json.dumps({"verb": "repair", "machine_id": machine_id, "to": to}).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    except (OSError, ValueError) as error:
        raise AdminUnreachableError(f"{fspath(path)}: the provider hung up") from error
    finally:
        writer.close()
    try:
        answer = json.loads(line)
    except ValueError:
        raise AdminUnreachableError(f"{fspath(path)}: the provider hung up") from None
    if not answer.get("ok"):
        raise AdminError(str(answer.get("error", "refused without a reason")))
