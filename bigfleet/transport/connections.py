"""Limits on connections that have not proven themselves, and the choice of the one that goes.

Why: a stranger can open connections faster than they end by their deadlines. A full listener that refuses newcomers would
refuse our own peers; so the newcomer comes in, and a connection of the address that holds most goes.
Must never: end a connection that has proven itself to make room for one that has not, unless the book says so; or look at
a clock: deadlines belong to the listener.
Rules: `packaging#connection-limits`.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from bigfleet.aio.connection_report import RefusedFor
from bigfleet.model.errors import InvalidFieldError

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class BookLimits:
    """How many connections one listener keeps."""

    connections: int
    """Of all kinds; a descriptor each, at least."""
    unproven: int
    """Of those that have not proven themselves."""
    unproven_per_address: int

    def within(self, descriptors: int) -> "BookLimits":
        """Return the limits that fit into so many descriptors."""
        connections = min(self.connections, descriptors)
        return BookLimits(
            connections, min(self.unproven, connections), min(self.unproven_per_address, connections)
        )


@dataclass(frozen=True, slots=True)
class Departure(Generic[Key]):
    """The connection that has to go."""

    key: Key
    reason: RefusedFor


class ConnectionBook(Generic[Key]):
    """The connections of one listener, in the order in which they came."""

    def __init__(self, limits: BookLimits, *, spare_proven: bool = True) -> None:
        """Without `spare_proven` the oldest proven connection makes room when no other is left."""
        self._limits, self._spare_proven = limits, spare_proven
        # Addresses and their connections are dictionaries for their order; only addresses with a connection are in.
        self._unproven: dict[str, dict[Key, None]] = {}
        self._proven: dict[Key, None] = {}
        self._address: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._address)

    def present(self) -> tuple[Key, ...]:
        """Return the connections, the oldest first."""
        return tuple(self._address)

    @property
    def unproven(self) -> int:
        """How many have not proven themselves."""
        return len(self._address) - len(self._proven)

    def enter(self, key: Key, address: str) -> Departure[Key] | None:
        """Note a new connection; return the one that has to go for it, which may be itself."""
        self._address[key] = address
        own = self._unproven.setdefault(address, {})
        own[key] = None
        if len(own) > self._limits.unproven_per_address:
            return self._departed(next(iter(own)), RefusedFor.ADDRESS)
        if len(self) > self._limits.connections or self.unproven > self._limits.unproven:
            return self._departed(self._next_to_go(), RefusedFor.FULL)
        return None

    def prove(self, key: Key) -> None:
        """Note that a connection has proven itself; harmless after its departure."""
        if key in self._address and key not in self._proven:
            self._forget_unproven(key)
            self._proven[key] = None

    def leave(self, key: Key) -> None:
        """Note that a connection has ended; harmless after its departure."""
        if key not in self._address:
            return
        if key in self._proven:
            del self._proven[key]
        else:
            self._forget_unproven(key)
        del self._address[key]

    def _next_to_go(self) -> Key:
        if self.unproven == 1 and self._proven and not self._spare_proven:
            return next(iter(self._proven))
        # The address with most of them: a flood from one address costs the others nothing.
        heaviest = max(self._unproven.values(), key=len)
        return next(iter(heaviest))

    def _departed(self, key: Key, reason: RefusedFor) -> Departure[Key]:
        self.leave(key)
        return Departure(key, reason)

    def _forget_unproven(self, key: Key) -> None:
        address = self._address[key]
        own = self._unproven[address]
        del own[key]
        if not own:
            del self._unproven[address]


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """The limits of a gRPC listener, which accepts by itself."""

    max_connections: int = 10_000
    """Two for each of 5,000 operators, since a reconnect may overlap the session before; less where descriptors are few."""
    unproven_per_address: int = 256
    """Above it an address loses its oldest connections without a call when the listener runs full."""
    handshake_s: float = 20.0
    """For TLS and the first HTTP/2 frames; as long as our own clients wait when all of them come back at once."""

    def __post_init__(self) -> None:
        if self.max_connections < 1:
            raise InvalidFieldError("max_connections", self.max_connections, "at least 1")
        if self.unproven_per_address < 1:
            raise InvalidFieldError("unproven_per_address", self.unproven_per_address, "at least 1")
        if self.handshake_s <= 0:
            raise InvalidFieldError("handshake_s", self.handshake_s, "more than 0")
