"""A listener that accepts at a bounded rate and survives a lack of descriptors.

Why: asyncio's own server accepts a hundred connections a turn and logs a traceback a second while descriptors lack. A
connection with TLS costs Python some milliseconds; accepted without a bound, a flood takes the interpreter from the threads
that keep a replica alive. Connections beyond the rate wait in the kernel.
Must never: hold an accepted socket without an owner, or end because an accept failed.
Rules: `packaging#connection-limits`.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from bigfleet.transport.address import ListenAddress
from bigfleet.transport.descriptors import is_shortage

BACKLOG: Final = 128
_SHORTAGE_S: Final = 0.5
"""How long a listener pauses after the system gave no descriptor."""
_TURN_S: Final = 0.01

OnAccepted = Callable[[socket.socket, str], object]
"""Gets the socket, which it owns from then on, and the peer's address without its port; must not raise."""


def bind_all(address: ListenAddress) -> list[socket.socket]:
    """Return sockets that listen on every address of the name; raises OSError."""
    found = socket.getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            if (listener := _bound(family, kind, protocol, place)) is not None:
                listeners.append(listener)
        if not listeners:
            raise OSError("none of its addresses exists here")
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _bound(
    family: socket.AddressFamily, kind: socket.SocketKind, protocol: int, place: Any
) -> socket.socket | None:  # Any: the shape of an address depends on its family
    try:
        listener = socket.socket(family, kind, protocol)
    except OSError:
        return None  # the kernel lacks this family, as asyncio's server tolerates
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setblocking(False)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class PacedListener:
    """Accepts on listening sockets; created and used on the loop that accepts."""

    def __init__(
        self,
        listeners: list[socket.socket],
        on_accepted: OnAccepted,
        *,
        per_second: float,
        on_shortage: Callable[[OSError], object],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners, self._on_accepted, self._on_shortage = listeners, on_accepted, on_shortage
        self._per_second = per_second
        self._burst = max(1.0, per_second / 10)
        self._tokens, self._counted_s = self._burst, self._loop.time()
        self._waiting: asyncio.TimerHandle | None = None
        self._closed = False
        self._listen()

    @property
    def port(self) -> int:
        """The port really bound."""
        port: int = self._listeners[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop listening; connections that were accepted stay with their owner."""
        self._closed = True
        self._pause()
        for listener in self._listeners:
            listener.close()

    def _listen(self) -> None:
        self._waiting = None
        for listener in self._listeners:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _pause(self, seconds: float | None = None) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        for listener in self._listeners:
            if listener.fileno() >= 0:
                self._loop.remove_reader(listener.fileno())
        if seconds is not None:
            self._waiting = self._loop.call_later(seconds, self._listen)

    def _accept(self, listener: socket.socket) -> None:
        self._refill()
        while self._tokens >= 1.0 and not self._closed:
            try:
                accepted, place = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if not is_shortage(error):
                    return  # the peer was gone before it was accepted
                self._on_shortage(error)
                self._pause(_SHORTAGE_S)
                return
            self._tokens -= 1.0
            accepted.setblocking(False)
            with suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._on_accepted(accepted, str(place[0]))
        if not self._closed:
            self._pause(max(_TURN_S, (1.0 - self._tokens) / self._per_second))

    def _refill(self) -> None:
        now_s = self._loop.time()
        self._tokens = min(self._burst, self._tokens + (now_s - self._counted_s) * self._per_second)
        self._counted_s = now_s


def release(transport: asyncio.BaseTransport) -> None:
    """Break the reference to itself that a transport of asyncio keeps after its end.

    `bigfleet.app.garbage` freezes what is alive, so a cycle waits an hour for a full collection, and a flood would fill the
    memory with them. The attribute is not public; without it there is nothing to break.
    """
    vars(transport).pop("_read_ready_cb", None)
