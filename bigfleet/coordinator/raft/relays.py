"""Relays between the library on loopback and the network: the Raft port, and one way out per peer.

Why: the library speaks plain TCP, resolves names on its own thread and accepts every connection. So it gets loopback addresses
only; the real port belongs to `bigfleet.coordinator.raft.raft_gate`, the ways out to this module.
Must never: run on the loop that serves gRPC, whose pauses would look like a dead leader; or take a lack of descriptors for a
dead Raft.
Rules: `coordinator#fixed-membership`, `coordinator#raft-settings`, `coordinator#raft-port`, `coordinator#raft-tls`,
`coordinator#raft-secret`, `coordinator#raft-flood`.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from bigfleet.aio.connection_report import NO_REPORT, ConnectionReport, Listener
from bigfleet.coordinator.log import FatalLogError
from bigfleet.coordinator.raft.certificates import RaftTls, replica_problem
from bigfleet.coordinator.raft.pipes import PipeEnd
from bigfleet.coordinator.raft.raft_gate import HANDSHAKE_S, LOOPBACK, RaftGate, forget_frames
from bigfleet.transport.address import ListenAddress
from bigfleet.transport.descriptors import is_shortage

PROBE_S = 10.0
REBIND_S = 2.0
"""How long the library's port may be away: after a lack of descriptors it is bound again at the next tick."""
_TURNS = 8
_T = TypeVar("_T")
Resolve = Callable[[str, int], Awaitable[tuple[str, int]]]


async def as_named(host: str, port: int) -> tuple[str, int]:
    """Let the system resolve the name when it connects."""
    return host, port


class Relays:
    """The server on the Raft port and one relay per peer, on their own thread and loop."""

    def __init__(
        self,
        bind: ListenAddress,
        peers: Mapping[str, tuple[str, int]],
        tls: RaftTls | None,
        *,
        on_refused: Callable[[str, str], object],
        on_dead: Callable[[FatalLogError], object],
        resolve: Resolve = as_named,
        report: ConnectionReport = NO_REPORT,
    ) -> None:
        """Callbacks run on the relays' thread: `on_refused` gets reason and detail, `on_dead` that Raft's own port is gone."""
        self._bind, self._peers, self._tls, self._resolve = bind, dict(peers), tls, resolve
        self._on_refused, self._on_dead, self._report = on_refused, on_dead, report
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="raft-relays", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order they were started
        self._gate: RaftGate | None = None
        self._target: int | None = None
        self.ports: dict[str, int] = {}
        """The loopback port that leads to each peer, by its node id."""
        self.port = bind.port

    async def start(self) -> None:
        """Listen; raises FatalLogError if the address is not available."""
        self._thread.start()
        await self._on_relay_loop(self._listen())

    def set_target(self, port: int | None) -> None:
        """Forward accepted connections to Raft on this loopback port; None while there is none."""
        self._loop.call_soon_threadsafe(self._take_target, port)

    async def stop(self) -> None:
        """Close everything and end the thread."""
        if self._thread.is_alive():
            await self._on_relay_loop(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
        self._loop.close()

    async def _on_relay_loop(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    # From here on everything runs on the relays' loop.

    async def _listen(self) -> None:
        self._gate = RaftGate(self._bind, self._tls, on_refused=self._on_refused, report=self._report)
        self.port = self._gate.listen()
        for node, (host, port) in sorted(self._peers.items()):
            outward = await self._loop.create_server(self._outward_end(host, port), LOOPBACK, 0)
            self._servers.append(outward)
            self.ports[node] = outward.sockets[0].getsockname()[1]
        self._keep(self._watch_target())

    def _take_target(self, port: int | None) -> None:
        self._target = port
        if self._gate is not None:
            self._gate.target = port

    async def _close(self) -> None:
        if self._gate is not None:
            await self._gate.close()
        for server in self._servers:
            await stop_listening(server)
        # A connection appears some turns of the loop after its accept, and ends some turns after its close.
        for _ in range(_TURNS):
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)

    def _keep(self, work: Coroutine[Any, Any, None], end: PipeEnd | None = None) -> None:
        """Run a task; its end of the pipe closes with it, even if it is cancelled before its first step."""
        task = self._loop.create_task(work)
        self._tasks[task] = None

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.pop(done, None)
            if end is not None:
                end.release()

        task.add_done_callback(ended)

    def _outward_end(self, host: str, port: int) -> Callable[[], PipeEnd]:
        return lambda: PipeEnd(lambda end: self._keep(self._relay_out(end, host, port), end))

    async def _relay_out(self, end: PipeEnd, host: str, port: int) -> None:
        try:
            address = await self._resolve(host, port)
            context = None if self._tls is None else self._tls.client()
            async with asyncio.timeout(HANDSHAKE_S):
                _, outer = await self._loop.create_connection(
                    PipeEnd,
                    *address,
                    ssl=context,
                    server_hostname=host if context else None,
                    ssl_handshake_timeout=HANDSHAKE_S if context else None,
                )
            if context is not None and (
                problem := replica_problem(outer.transport.get_extra_info("ssl_object"))
            ):
                outer.release()
                self._on_refused("peer_identity", f"{host}:{port}: {problem}")
                return
            try:
                end.join(outer)
                await end.ended
            finally:
                outer.release()
        except ssl.SSLError as error:
            self._on_refused("peer_handshake", f"{host}:{port}: {error}")
            forget_frames(error)
        except OSError as error:  # the peer is not reachable, or not in time; the library tries again
            self._note_shortage(error)
            forget_frames(error)

    async def _watch_target(self) -> None:
        """Check periodically that Raft still listens; without its port no peer would ever reach it."""
        while True:
            await asyncio.sleep(PROBE_S)
            target = self._target
            if target is None or await self._listens(target):
                continue
            await asyncio.sleep(REBIND_S)
            if target == self._target and not await self._listens(target):
                self._on_dead(FatalLogError("Raft no longer listens on its loopback port"))

    async def _listens(self, target: int) -> bool:
        """Whether Raft listens; true also when there is no descriptor to find out, which says nothing about Raft."""
        try:
            _, probe = await self._loop.create_connection(PipeEnd, LOOPBACK, target)
        except OSError as error:
            return self._note_shortage(error)
        probe.release()
        return True

    def _note_shortage(self, error: OSError) -> bool:
        """Report a lack of descriptors or memory, which passes; return whether it was one."""
        lacking = is_shortage(error)
        if lacking:
            self._report.on_shortage(Listener.RAFT, error)
        return lacking


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server without leaking the connection it has just accepted.

    asyncio attaches an accepted connection one turn of the loop later; if the server is closed in between, the connection stays
    open until it is garbage-collected.
    """
    loop = server.get_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    await asyncio.sleep(0)
    server.close()


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
