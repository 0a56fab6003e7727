"""Connections that say nothing, or one byte at a time, kept at a number and opened again as they are ended.

Why: what silent and slow peers do to a listener is shown by opening them. One thread, so that the test's own loop is free.
Must never: reach beyond 127.0.0.1, open more than its number or its rate, or outlive its block.
"""

import select
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

LOOPBACK: Final = "127.0.0.1"
MOST: Final = 10_000
_TURN_S: Final = 0.02
_BYTE_EVERY_S: Final = 0.5
_CLOSED: Final = select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP


class ConnectionFlood:
    """Floods ports of this host while its block runs."""

    def __init__(self, *ports: int, count: int, per_second: int, dripped: bytes = b"") -> None:
        """Half of the connections send `dripped` byte by byte, the others nothing."""
        self._ports, self._count, self._per_second = ports, min(count, MOST), per_second
        self._dripped = dripped
        self._open: dict[int, socket.socket] = {}
        self._sent: dict[int, int] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connection flood", daemon=True)
        self.opened = 0
        """How many it has opened so far."""
        self.ended = 0
        """How many of them were ended by the other side."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def standing(self) -> int:
        """How many are open now."""
        return len(self._open)

    def _run(self) -> None:
        with select.epoll() as epoll:
            byte_s = began_s = time.monotonic()
            try:
                while not self._ending.wait(_TURN_S):
                    now_s = time.monotonic()
                    allowed = min(
                        self._count - len(self._open), int((now_s - began_s) * self._per_second) - self.opened
                    )
                    for _ in range(min(allowed, self._per_second)):
                        self._open_one(epoll)
                    for number, event in epoll.poll(0):
                        self._look(epoll, number, event)
                    if now_s - byte_s >= _BYTE_EVERY_S:
                        byte_s = now_s
                        self._drip()
            finally:
                for each in self._open.values():
                    each.close()
                self._open.clear()

    def _open_one(self, epoll: select.epoll) -> None:
        opened = socket.socket()
        opened.setblocking(False)
        # No wait at the end, and no port kept by a closed connection: thousands are opened.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        try:
            opened.connect((LOOPBACK, self._ports[self.opened % len(self._ports)]))
        except BlockingIOError:
            pass
        except OSError:
            opened.close()
            return
        self.opened += 1
        self._open[opened.fileno()] = opened
        if self._dripped and self.opened // len(self._ports) % 2:
            self._sent[opened.fileno()] = 0
        epoll.register(opened.fileno(), select.EPOLLIN | _CLOSED)

    def _look(self, epoll: select.epoll, number: int, event: int) -> None:
        each = self._open[number]
        gone = bool(event & _CLOSED)
        with suppress(BlockingIOError):
            try:
                gone = gone or not each.recv(65_536)
            except ConnectionError:
                gone = True
        if gone:
            epoll.unregister(number)
            del self._open[number]
            self._sent.pop(number, None)
            each.close()
            self.ended += 1

    def _drip(self) -> None:
        for number, sent in list(self._sent.items()):
            if sent < len(self._dripped):
                with suppress(OSError):
                    self._open[number].send(self._dripped[sent : sent + 1])
                self._sent[number] = sent + 1
