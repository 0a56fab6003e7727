"""Links and connections of the in-memory network: order, delay, silence, reset.

Why: a connection behaves like TCP under HTTP/2: frames arrive in order and exactly once, or the connection is lost. A fault
can delay, hold, refuse or reset; it cannot lose a single frame.
Must never: reorder frames of one connection, or depend on the order of a set.
Rules: `testing#memory-network`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bigfleet.aio.net import Peer
from bigfleet.transport.keepalive import NOTICED_AFTER_S


class LinkPolicy(Protocol):
    """The behaviour of one direction between two hosts."""

    def accepts(self) -> bool:
        """False: an attempt to connect is refused at once."""
        ...

    def delay_s(self, size: int) -> float:
        """How long a frame of this size takes; frames of one connection stay in order."""
        ...

    def resets(self, size: int) -> bool:
        """True: in place of this frame, the connection is reset."""
        ...


@dataclass(frozen=True, slots=True)
class SteadyLink:
    """A link without faults."""

    seconds: float = 0.0

    def accepts(self) -> bool:
        return True

    def delay_s(self, size: int) -> float:  # noqa: ARG002 - part of the policy
        return self.seconds

    def resets(self, size: int) -> bool:  # noqa: ARG002 - part of the policy
        return False


@dataclass(frozen=True, slots=True)
class RefusingLink(SteadyLink):
    """A link that refuses new connections; existing ones continue."""

    def accepts(self) -> bool:
        return False


class NetworkLink:
    """One direction between two hosts."""

    def __init__(self, source: str, target: str, policy: LinkPolicy) -> None:
        self.source, self.target, self.policy = source, target, policy
        self._silent_since: int | None = None
        self._silences = 0
        self._pipes: list[Pipe] = []
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def silent(self) -> bool:
        return self._silent_since is not None

    def silence(self) -> None:
        """Hold every frame; a side notices only by its own timeout."""
        if not self.silent:
            self._silences += 1
            self._silent_since = self._silences
            for pipe in list(self._pipes):
                self.watch(pipe)

    def restore(self) -> None:
        """Deliver everything held, in order."""
        if self.silent:
            self._silent_since = None
            for pipe in list(self._pipes):
                pipe.pump_soon()
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def until_open(self) -> None:
        """Wait while the link is silent."""
        while self.silent:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def join(self, pipe: "Pipe") -> None:
        self._pipes.append(pipe)
        if self.silent:
            self.watch(pipe)

    def leave(self, pipe: "Pipe") -> None:
        self._pipes.remove(pipe)

    def watch(self, pipe: "Pipe") -> None:
        """Let both ends of a connection notice when this silence outlasts their pings."""
        silence = self._silent_since

        def look() -> None:
            if self._silent_since == silence:
                pipe.on_silence()

        asyncio.get_running_loop().call_later(NOTICED_AFTER_S, look)


class Pipe:
    """One direction of one connection."""

    def __init__(
        self, link: NetworkLink, on_reset: Callable[[], None], on_silence: Callable[[], None]
    ) -> None:
        self._link, self._on_reset, self.on_silence = link, on_reset, on_silence
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()
        self._last_due = 0.0
        self._handle: asyncio.Handle | None = None
        self._closed = False
        link.join(self)

    def put(self, deliver: Callable[[], None], size: int = 0) -> None:
        """Send one frame; it arrives by calling `deliver`."""
        if self._closed:
            return
        if self._link.policy.resets(size):
            self._on_reset()
            return
        now = asyncio.get_running_loop().time()
        self._last_due = max(self._last_due, now + self._link.policy.delay_s(size))
        self._queue.append((self._last_due, deliver))
        self.pump_soon()

    def close(self) -> None:
        """Drop the frames in flight."""
        if not self._closed:
            self._closed = True
            self._queue.clear()
            self._link.leave(self)
            if self._handle is not None:
                self._handle.cancel()

    def pump_soon(self) -> None:
        if self._handle is None and self._queue and not self._link.silent:
            loop = asyncio.get_running_loop()
            due = self._queue[0][0]
            # Without a timer where no time passes: only the ready queue is first in, first out.
            soon = due <= loop.time()
            self._handle = loop.call_soon(self._pump) if soon else loop.call_at(due, self._pump)

    def _pump(self) -> None:
        self._handle = None
        if not self._link.silent and self._queue:
            _, deliver = self._queue.popleft()
            deliver()
            self.pump_soon()


class CallEnd(Protocol):
    """One side of one call, as its connection sees it."""

    def connection_lost(self, detail: str) -> None: ...


class Connection:
    """A connection between two hosts; each side is alive until it learns of the end."""

    def __init__(self, peer: Peer, up: NetworkLink, down: NetworkLink) -> None:
        self.peer = peer
        self.hosts = (up.source, up.target)
        self.up = Pipe(up, self.reset, self._silence_noticed)
        self.down = Pipe(down, self.reset, self._silence_noticed)
        self.client_alive = self.server_alive = True
        self.stopping = False
        self._going_away = False
        self.lost = asyncio.Event()  # set once the client knows that it can begin no further call
        self._client_calls: dict[CallEnd, None] = {}  # dicts keep their order
        self._server_calls: dict[CallEnd, None] = {}

    @property
    def takes_calls(self) -> bool:
        """Whether the client may begin a call, as far as it knows."""
        return self.client_alive and not self._going_away

    def go_away(self) -> None:
        """The server takes no more calls on this connection; calls in flight may finish."""
        self.stopping = True
        self.down.put(self._go)

    def _go(self) -> None:
        self._going_away = True
        self.lost.set()

    def add_client(self, call: CallEnd) -> None:
        self._client_calls[call] = None

    def add_server(self, call: CallEnd) -> None:
        self._server_calls[call] = None

    def remove(self, call: CallEnd) -> None:
        self._client_calls.pop(call, None)
        self._server_calls.pop(call, None)

    def reset(self, detail: str = "the connection was reset") -> None:
        """End the connection on both sides at once; frames in flight are lost."""
        self._end_client(detail)
        self._end_server(detail)

    def close_from_client(self) -> None:
        """Close at the client; the server learns of it over the link."""
        self._end_client("the channel was closed")
        if self.server_alive:
            self.up.put(lambda: self._end_server("the peer closed the connection"))

    def close_from_server(self, detail: str) -> None:
        """Close at the server; the client learns of it over the link."""
        self._end_server(detail)
        if self.client_alive:
            self.down.put(lambda: self._end_client(detail))

    def _silence_noticed(self) -> None:
        # Whichever direction is silent, neither end gets the answers to its pings.
        self.reset("the keepalive ping was not answered")

    def _end_client(self, detail: str) -> None:
        if self.client_alive:
            self.client_alive = False
            self.lost.set()
            calls, self._client_calls = self._client_calls, {}
            for call in calls:
                call.connection_lost(detail)
            self._close_pipes_if_dead()

    def _end_server(self, detail: str) -> None:
        if self.server_alive:
            self.server_alive = False
            calls, self._server_calls = self._server_calls, {}
            for call in calls:
                call.connection_lost(detail)
            self._close_pipes_if_dead()

    def _close_pipes_if_dead(self) -> None:
        if not self.client_alive and not self.server_alive:
            self.up.close()
            self.down.close()
