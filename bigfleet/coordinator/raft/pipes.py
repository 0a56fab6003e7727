"""Pipes: forward bytes between two connections, with a limit on frame sizes.

Why: the library trusts any length prefix and keeps a silent connection for ever.
Must never: interpret the content, or buffer more than the receiver takes.
Rules: `coordinator#raft-port`. Until the library has answered once, which takes the secret, a connection has five
seconds and may only send small frames.
"""

import asyncio
import struct
from collections.abc import Callable

from bigfleet.transport.accepting import release

FIRST_FRAME_BYTES = 4096
FRAME_BYTES = 8 << 20
_LENGTH = struct.Struct("i")  # native, as the library writes it


class FrameMeter:
    """Follows the library's length prefixes through a stream of bytes."""

    def __init__(self) -> None:
        self.limit = FIRST_FRAME_BYTES
        self._head = b""
        self._left = 0

    def fits(self, data: bytes) -> bool:
        """Return whether every frame that begins in these bytes is within the limit."""
        at = 0
        while at < len(data):
            if self._left:
                taken = min(self._left, len(data) - at)
                self._left -= taken
                at += taken
                continue
            taken = min(_LENGTH.size - len(self._head), len(data) - at)
            self._head += data[at : at + taken]
            at += taken
            if len(self._head) == _LENGTH.size:
                (self._left,) = _LENGTH.unpack(self._head)
                self._head = b""
                if not 0 < self._left <= self.limit:
                    return False
        return True


class PipeEnd(asyncio.Protocol):
    """One end of a pipe; it reads nothing until it is joined to another."""

    def __init__(self, on_made: Callable[["PipeEnd"], object] = lambda _leg: None) -> None:
        self._on_made = on_made
        self._transport: asyncio.Transport | None = None
        self._raw: asyncio.Transport | None = None  # below TLS
        self._other: PipeEnd | None = None
        self._early = b""
        self.meter: FrameMeter | None = None
        self.refused = ""
        """Why the meter closed this end; empty if it did not."""
        loop = asyncio.get_running_loop()
        self.spoke: asyncio.Future[None] = loop.create_future()
        """Done once this end has received its first bytes, joined or not."""
        self.sent: asyncio.Future[None] = loop.create_future()
        """Done once this end has passed on its first bytes."""
        self.ended: asyncio.Future[None] = loop.create_future()

    @property
    def transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise ConnectionError("the connection was never made")
        return self._transport

    @transport.setter
    def transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def join(self, other: "PipeEnd") -> None:
        """Forward bytes both ways from now on; if one end is closed, close the other."""
        self._other, other._other = other, self
        if self.ended.done() or other.ended.done():
            self.close()
            other.close()
            return
        for end in (self, other):
            early, end._early = end._early, b""
            if early:
                end.data_received(early)
            if not end.transport.is_closing():
                end.transport.resume_reading()

    def close(self) -> None:
        """Close this end at once; undelivered bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    def release(self) -> None:
        """Close this end and break its reference cycles; it is of no use afterwards."""
        self.close()
        self._forget()

    def _forget(self) -> None:
        # With TLS the two know each other through 256 KiB of buffers, and cycles wait long for the collector.
        transport, self._transport, self._other = self._transport, None, None
        raw, self._raw = self._raw, None
        if transport is not None and raw is not None and raw.is_closing():
            release(raw)

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("expected a stream transport")
        self._transport = self._raw = transport
        transport.pause_reading()
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        if not self.spoke.done():
            self.spoke.set_result(None)
        if self._other is None:
            # The end of a TLS handshake may bring the first bytes although reading is paused.
            self._early += data
            if len(self._early) > FIRST_FRAME_BYTES + _LENGTH.size:
                self.refused = "frame"
                self.close()
            return
        if self.meter is not None and not self.meter.fits(data):
            self.refused = "frame"
            self.close()
            return
        if not self.sent.done():
            self.sent.set_result(None)
        if self._other._transport is not None:
            self._other._transport.write(data)

    def pause_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._other is not None:
            self._other.close()
        if not self.ended.done():
            self.ended.set_result(None)
        self._forget()
