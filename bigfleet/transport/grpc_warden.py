"""Ends connections of a gRPC listener that make no call, when it runs full.

Why: the gRPC library accepts by itself. It has a limit on connections and a deadline for handshakes, but no limit per
address, and at its limit it refuses the next peer, known or not. So a stranger who opens connections as fast as they end would keep
our own peers out.
How: while the lowest free descriptor says that the listener may be running full, the process's own sockets are looked
through in a thread. Those of this port that no call ever came over are shut down: of the address that holds most of them
first, the oldest first. The library then sees the end of the connection. No byte of a session passes through here.
Must never: end a connection that a call came over, or look through the sockets of a listener that is not under pressure.
Rules: `packaging#connection-limits`. Why not a front of our own: ADR-0241.
"""

import asyncio
import heapq
import os
import socket
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from bigfleet.aio.connection_report import ConnectionReport, Listener, RefusedFor

LOOK_S: Final = 0.25
FULL_FRACTION: Final = 0.75
"""From this share of its limit on a listener is under pressure; the sweep brings it below `CALM_FRACTION`."""
CALM_FRACTION: Final = 0.5
BUSY_FRACTION: Final = 0.1
"""With fewer than this share of connections without a call, the next look is after `BUSY_LOOK_S`."""
BUSY_LOOK_S: Final = 5.0
REST_FACTOR: Final = 19.0
"""A look may take a twentieth of the time; on a machine that is short of processors it takes long."""
GRACE_S: Final = 1.0
"""A connection younger than this is not ended: a peer makes its first call within milliseconds of its handshake."""
_REMEMBERED: Final = 16_384

Place = tuple[str, int]
"""A peer's address and port."""


def place_of(peer: str) -> Place | None:
    """Return the place in the library's spelling of a peer, as `ipv4:10.0.0.1:4711`; None for another kind."""
    kind, _, rest = peer.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    return host.partition("%")[0].removeprefix("::ffff:")


class CallingPeers:
    """Which connections calls came over: those with a call now, and the last ones that had one."""

    def __init__(self) -> None:
        self._now: dict[Place, int] = {}
        self._recent: OrderedDict[Place, None] = OrderedDict()

    @contextmanager
    def calling(self, peer: str) -> Iterator[None]:
        """Note a call for as long as the block runs."""
        place = place_of(peer)
        if place is None:
            yield
            return
        self._now[place] = self._now.get(place, 0) + 1
        try:
            yield
        finally:
            left = self._now.pop(place) - 1
            if left:
                self._now[place] = left
            self._recent[place] = None
            self._recent.move_to_end(place)
            if len(self._recent) > _REMEMBERED:
                self._recent.popitem(last=False)

    def __contains__(self, place: object) -> bool:
        return place in self._now or place in self._recent

    def keep_recent(self, open_places: Mapping[Place, int]) -> None:
        """Forget the connections that have ended."""
        for place in [place for place in self._recent if place not in open_places]:
            del self._recent[place]


@dataclass(frozen=True, slots=True)
class WardenLimits:
    """The limits of one gRPC listener."""

    connections: int
    unproven_per_address: int


def victims(
    silent_since: Mapping[Place, float], total: int, limits: WardenLimits, now_s: float
) -> dict[Place, RefusedFor]:
    """Choose the connections to end, given those without a call and since when each was seen."""
    by_address: dict[str, list[Place]] = {}
    for place in sorted(silent_since, key=lambda place: (silent_since[place], place)):
        if now_s - silent_since[place] >= GRACE_S:
            by_address.setdefault(place[0], []).append(place)
    chosen: dict[Place, RefusedFor] = {}
    heap: list[tuple[int, str]] = []
    for address, places in by_address.items():
        excess = max(0, len(places) - limits.unproven_per_address)
        chosen.update(dict.fromkeys(places[:excess], RefusedFor.ADDRESS))
        by_address[address] = places[excess:]
        heapq.heappush(heap, (-len(by_address[address]), address))
    calm = round(limits.connections * CALM_FRACTION)
    while heap and total - len(chosen) > calm:
        weight, address = heapq.heappop(heap)
        if weight == 0:
            break
        chosen[by_address[address][len(by_address[address]) + weight]] = RefusedFor.FULL
        heapq.heappush(heap, (weight + 1, address))
    return chosen


class Warden:
    """Watches one gRPC listener from the loop that serves it."""

    def __init__(
        self, port: int, limits: WardenLimits, peers: CallingPeers, report: ConnectionReport
    ) -> None:
        self._port, self._limits, self._peers, self._report = port, limits, peers, report
        self._silent_since: dict[Place, float] = {}
        self._was_pressed = False

    async def run(self) -> None:
        """Look until cancelled."""
        loop = asyncio.get_running_loop()
        wait_s = LOOK_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = LOOK_S
            pressed = self._may_be_full()
            if not pressed and not self._was_pressed:
                continue
            self._was_pressed = (
                pressed  # one more look afterwards, else the last count would stay as it was under pressure
            )
            began_s = loop.time()
            try:
                found = await self.sweep(began_s)
            except OSError as error:
                self._report.on_shortage(Listener.GRPC, error)
                continue
            # The look takes the interpreter from heartbeats: the longer it takes, the more seldom it is.
            wait_s = max(LOOK_S, (loop.time() - began_s) * REST_FACTOR)
            # A listener that is full of sessions needs no such look four times a second.
            if len(self._silent_since) < found * BUSY_FRACTION:
                wait_s = max(wait_s, BUSY_LOOK_S)

    async def sweep(self, now_s: float) -> int:
        """Look through the sockets once and end what has to go; return how many there were."""
        found = await asyncio.to_thread(connections_of, self._port)
        self._peers.keep_recent(found)
        self._silent_since = {
            place: self._silent_since.get(place, now_s) for place in found if place not in self._peers
        }
        if len(found) < self._limits.connections * FULL_FRACTION:
            chosen: dict[Place, RefusedFor] = {}
        else:
            chosen = victims(self._silent_since, len(found), self._limits, now_s)
        for place, reason in chosen.items():
            if place not in self._peers and end_connection(found[place], self._port, place):
                self._report.on_refused(Listener.GRPC, reason, place[0])
        self._report.on_open(Listener.GRPC, len(found), self._limits.connections)
        return len(found)

    def _may_be_full(self) -> bool:
        """Whether so many descriptors are in use that the listener may be near its limit; costs two system calls."""
        try:
            lowest_free = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._report.on_shortage(Listener.GRPC, error)
            return True
        os.close(lowest_free)
        return lowest_free >= self._limits.connections * FULL_FRACTION


def connections_of(port: int) -> dict[Place, int]:
    """Return the connections that came in on a port, with their descriptors; for a thread, as it may take a while."""
    found: dict[Place, int] = {}
    for name in os.listdir("/proc/self/fd"):
        place = _place_behind(int(name), port)
        if place is not None:
            found[place] = int(name)
    return found


def end_connection(descriptor: int, port: int, place: Place) -> bool:
    """Shut a connection down if the descriptor is still the one of that peer; the library closes it then."""
    with suppress(OSError):
        own = os.dup(descriptor)  # a descriptor of ours cannot become another connection in between
        try:
            if _place_behind(own, port) == place:
                with _borrowed(own) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
                return True
        finally:
            os.close(own)
    return False


def _place_behind(descriptor: int, port: int) -> Place | None:
    """Return the peer of a connection that came in on a port; None for every other descriptor."""
    # Written out, not with `_borrowed`: this runs for every descriptor of the process.
    try:
        looked_at = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:
        return None
    try:
        here = looked_at.getsockname()
        if isinstance(here, tuple) and here[1] == port:
            there = looked_at.getpeername()
            return _plain(there[0]), there[1]
    except OSError:
        pass
    finally:
        looked_at.detach()
    return None


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Use a descriptor as a socket without owning it."""
    # The family only names a default; to ask for the right one would cost three system calls each.
    borrowed = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()
