"""Parses the texts of the fake's flags and verbs, such as `create=lognormal:30s,p99=4m` and `m6i.large@zone-a=5m-10m`.

Must never: accept an unknown kind, code or lie.
Rules: `providers#fake-flags`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import CapacityType
from bigfleet.provider.contract import CALLS, OperationKind
from bigfleet.provider.fake.latency import Latency, parse_duration, parse_latency

ANY: Final = "*"
"""Matches every type, every zone or every call."""

READY: Final = "ready"
STEPS: Final = (
    OperationKind.CREATE.value,
    OperationKind.CONFIGURE.value,
    READY,
    OperationKind.DRAIN.value,
    OperationKind.DELETE.value,
)
"""The steps of the backend: the four operations, and the node becoming Ready after Configure."""
CALL_KINDS: Final = ("get", "list", *(f"{kind.value}-call" for kind in OperationKind))
"""Calls whose answer can be delayed."""
LATENCY_KINDS: Final = (*STEPS, *CALL_KINDS)
CAPACITY_TYPES: Final = (ANY, *(kind.label for kind in CapacityType if kind))
"""Capacity types of a stock-out."""
CURSORS: Final = ("honest", "none", "stale")


@dataclass(frozen=True, slots=True)
class FailureRate:
    """How often operations of a kind fail, and with which message."""

    probability: float
    message: str


@dataclass(frozen=True, slots=True)
class StockoutWindow:
    """The Creates that fail with a stock-out, and when, in seconds since the start; None for no end."""

    instance_type: str = ANY
    zone: str = ANY
    from_s: float = 0.0
    to_s: float | None = None
    capacity_type: str = ANY

    def hits(self, instance_type: str, zone: str, now_s: float, capacity_type: str = "") -> bool:
        """Return whether a Create of such a machine fails now."""
        return (
            self.instance_type in (ANY, instance_type)
            and self.zone in (ANY, zone)
            and self.capacity_type in (ANY, capacity_type)
            and self.from_s <= now_s
            and (self.to_s is None or now_s < self.to_s)
        )


def parse_latencies(texts: Sequence[str]) -> dict[str, Latency]:
    """Read `KIND=SPEC` texts; the last one of a kind counts."""
    found: dict[str, Latency] = {}
    for text in rejoined(texts, LATENCY_KINDS):
        kind, _, spec = text.partition("=")
        found[known(kind, LATENCY_KINDS, "latency")] = parse_latency(spec, f"latency {kind}")
    return found


def parse_failures(texts: Sequence[str]) -> dict[str, FailureRate]:
    """Read `KIND=P` and `KIND=P:message` texts."""
    found: dict[str, FailureRate] = {}
    for text in rejoined(texts, STEPS):
        kind, _, rest = text.partition("=")
        share, _, message = rest.partition(":")
        probability = parse_share(share, f"fail {known(kind, STEPS, 'fail')}")
        found[kind] = FailureRate(probability, message or "injected failure")
    return found


def parse_stockout(text: str) -> StockoutWindow:
    """Read `TYPE[@ZONE[@CAPACITY]][=FROM-TO]`; `*` matches all."""
    place, window, times = text.partition("=")
    instance_type, _, rest = place.partition("@")
    zone, _, capacity_type = rest.partition("@")
    if not instance_type:
        raise InvalidFieldError(
            "stockout", text, "TYPE[@ZONE[@CAPACITY]][=FROM-TO], * for any type, zone or capacity type"
        )
    offering = StockoutWindow(
        instance_type, zone or ANY, capacity_type=known(capacity_type or ANY, CAPACITY_TYPES, "stockout")
    )
    if not window:
        return offering
    begin, dash, end = times.partition("-")
    if not dash:
        raise InvalidFieldError("stockout", text, "a window FROM-TO such as 5m-10m")
    from_s, to_s = parse_duration(begin, "stockout"), parse_duration(end, "stockout")
    if to_s <= from_s:
        raise InvalidFieldError("stockout", text, "a window that ends after it begins")
    return replace(offering, from_s=from_s, to_s=to_s)


def parse_share(text: str, field: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InvalidFieldError(field, text, "a number from 0 to 1")
    return share


def known(name: str, names: Iterable[str], field: str) -> str:
    """Return the name if it is one of these, else refuse it."""
    allowed = tuple(names)
    if name not in allowed:
        raise InvalidFieldError(field, name, f"one of {', '.join(allowed)}")
    return name


def rpc_named(name: str, field: str = "rpc") -> str:
    """Return the name of a call, written in any case, or `*`."""
    if name == ANY:
        return ANY
    return known(name.capitalize(), CALLS, field)


def rejoined(pieces: Sequence[str], kinds: Iterable[str]) -> list[str]:
    """Join values that a list split at commas: a piece that begins with no kind belongs to the one before."""
    heads = tuple(f"{kind}=" for kind in kinds)
    found: list[str] = []
    for piece in pieces:
        if found and not piece.startswith(heads) and "=" in found[-1]:
            # An unknown kind must be refused by its own name; a tail such as `p99=4m` is none.
            if _looks_like_a_kind(piece):
                found.append(piece)
            else:
                found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found


def _looks_like_a_kind(piece: str) -> bool:
    head, equals, _ = piece.partition("=")
    return bool(equals) and head.replace("-", "").isalpha()
