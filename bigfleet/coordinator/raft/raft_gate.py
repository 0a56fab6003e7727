"""The Raft port: accepts, lets replicas through to the library on loopback, and closes everything else.

Why: a stranger's connection costs memory from its first byte of TLS on, and time of the interpreter that ticks Raft.
Must never: forward a byte before the peer has shown a replica's certificate; keep an ended connection alive by a reference
cycle (its TLS buffers are 256 KiB, and cycles wait an hour for the collector); or accept faster than Raft can bear.
Rules: `coordinator#raft-gate`, `coordinator#raft-tls`, `coordinator#raft-flood`, `packaging#connection-limits`.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from traceback import clear_frames
from typing import Final

from bigfleet.aio.connection_report import NO_REPORT, ConnectionReport, Listener
from bigfleet.coordinator.log import FatalLogError
from bigfleet.coordinator.raft.certificates import RaftTls, replica_problem
from bigfleet.coordinator.raft.pipes import FRAME_BYTES, FrameMeter, PipeEnd
from bigfleet.transport.accepting import PacedListener, bind_all
from bigfleet.transport.address import ListenAddress, listen_problem
from bigfleet.transport.connections import BookLimits, ConnectionBook
from bigfleet.transport.descriptors import DescriptorShares, is_shortage

HANDSHAKE_S: Final = 5.0
LIMITS: Final = BookLimits(connections=128, unproven=64, unproven_per_address=48)
"""A replica has two peers with one connection each; the rest is for their attempts while strangers are there."""
ACCEPTED_PER_S: Final = 100.0
"""A peer dials twice a second. A handshake of TLS costs the interpreter 2 ms, so strangers take a fifth of it at most."""
_DESCRIPTORS_EACH: Final = 3  # the connection, the way to the library, the library's end of it
LOOPBACK: Final = "127.0.0.1"
_TURNS: Final = 8


class RaftGate:
    """The listener on the Raft port; created and used on the loop of the relays."""

    def __init__(
        self,
        bind: ListenAddress,
        tls: RaftTls | None,
        *,
        on_refused: Callable[[str, str], object],
        report: ConnectionReport = NO_REPORT,
        limits: BookLimits = LIMITS,
    ) -> None:
        self._bind, self._tls, self._on_refused, self._report = bind, tls, on_refused, report
        self._loop = asyncio.get_running_loop()
        self._limits = limits.within(max(1, DescriptorShares.of_process().raft // _DESCRIPTORS_EACH))
        self._book: ConnectionBook[asyncio.Task[None]] = ConnectionBook(self._limits)
        self._listener: PacedListener | None = None
        self.target: int | None = None
        """The loopback port of Raft; None while there is none."""

    def listen(self) -> int:
        """Listen and return the port; raises FatalLogError if the address is not available."""
        try:
            listeners = bind_all(self._bind)
        except OSError as error:
            raise FatalLogError(f"--raft-bind {self._bind}: {listen_problem(error)}") from error
        self._listener = PacedListener(
            listeners,
            self._on_accepted,
            per_second=ACCEPTED_PER_S,
            on_shortage=lambda error: self._report.on_shortage(Listener.RAFT, error),
        )
        return self._listener.port

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._listener is not None:
            self._listener.close()
        for _ in range(_TURNS):
            tasks = self._book.present()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # a connection ends a turn after its close

    def _on_accepted(self, accepted: socket.socket, address: str) -> None:
        end = PipeEnd()
        task = self._loop.create_task(self._serve_until_refused(accepted, end))

        def ended(done: asyncio.Task[None]) -> None:
            self._book.leave(done)
            end.release()
            accepted.close()  # also if the task was cancelled before it made a transport
            self._say_open()

        task.add_done_callback(ended)
        departure = self._book.enter(task, address)
        if departure is not None:
            departure.key.cancel()
            self._report.on_refused(Listener.RAFT, departure.reason, address)
        self._say_open()

    def _say_open(self) -> None:
        self._report.on_open(Listener.RAFT, len(self._book), self._limits.connections)

    async def _serve_until_refused(self, accepted: socket.socket, end: PipeEnd) -> None:
        try:
            await self._serve(accepted, end)
        except asyncio.CancelledError as error:
            # To make room, or at the end: nothing waits for this task. Unforgotten, the task would keep the error.
            forget_frames(error)

    async def _serve(self, accepted: socket.socket, end: PipeEnd) -> None:
        me = asyncio.current_task()
        try:
            await self._loop.connect_accepted_socket(lambda: end, accepted)
            if self._tls is not None and not await self._tls_handshake(end, self._tls):
                return
            target = self.target
            if target is None:
                return  # unformed or learning: no peer connects yet
            if not await self._speaks(end):
                return
            _, inner = await self._loop.create_connection(PipeEnd, LOOPBACK, target)
            try:
                end.meter = FrameMeter()
                end.join(inner)
                if await self._proves_secret(end, inner):
                    if me is not None:
                        self._book.prove(me)
                    await end.ended
            finally:
                inner.release()
        except OSError as error:
            if is_shortage(error):
                self._report.on_shortage(Listener.RAFT, error)
            self._refuse("broken", error)

    async def _tls_handshake(self, end: PipeEnd, tls: RaftTls) -> bool:
        try:
            secured = await self._loop.start_tls(
                end.transport, end, tls.server(), server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (OSError, ssl.SSLError) as error:
            self._refuse("handshake", error)
            return False
        if secured is None:
            self._on_refused("handshake", "the connection was closed")
            return False
        end.transport = secured
        secured.pause_reading()
        if problem := replica_problem(secured.get_extra_info("ssl_object")):
            self._on_refused("identity", problem)
            return False
        return True

    async def _speaks(self, end: PipeEnd) -> bool:
        """Wait for the first bytes: a silent connection is not worth two more descriptors."""
        end.transport.resume_reading()
        await asyncio.wait([end.spoke, end.ended], timeout=HANDSHAKE_S, return_when=asyncio.FIRST_COMPLETED)
        if not end.spoke.done() or end.refused or end.ended.done():
            self._on_refused(end.refused or "secret", "the peer said nothing that it could prove itself with")
            return False
        end.transport.pause_reading()
        return True

    async def _proves_secret(self, end: PipeEnd, inner: PipeEnd) -> bool:
        """Wait for Raft's first answer, which proves that the peer knows the secret; then allow larger frames."""
        ends = [inner.sent, end.ended, inner.ended]
        await asyncio.wait(ends, timeout=HANDSHAKE_S, return_when=asyncio.FIRST_COMPLETED)
        if inner.sent.done() and end.meter is not None:
            end.meter.limit = FRAME_BYTES
            return True
        self._on_refused(end.refused or "secret", "the peer did not prove that it knows our secret")
        return False

    def _refuse(self, reason: str, error: OSError) -> None:
        self._on_refused(reason, str(error))
        forget_frames(error)


def forget_frames(error: BaseException) -> None:
    """Take from an error that was dealt with the frames it came through.

    They hold the waiter that holds the error, and the TLS protocol with its buffers: a cycle.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        clear_frames(each.__traceback__)
        each.__traceback__ = None
        following = each.__cause__ or each.__context__
        each.__cause__ = each.__context__ = None
        each = following
