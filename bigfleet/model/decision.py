"""A decision: the actions of one cycle, and for every need how it fares and why.

Why: the shard acts on it, `bigfleet decide` prints it, what-if compares it and pages show it.
Must never: be looked at by a later decision; verdicts are observation only.
Rules: `engine#phase-1-results`, `engine#unresolved`, `engine#verdicts`, `engine#snapshot-decision`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar, overload

from bigfleet.model.action import Action
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources


class Reason(StrEnum):
    """Why a need is as it is; the first that applies."""

    SATISFIED = "SATISFIED"
    TOPOLOGY_UNSATISFIABLE = "TOPOLOGY_UNSATISFIABLE"
    NO_MATCHING_SUPPLY = "NO_MATCHING_SUPPLY"
    PREEMPTION_EXHAUSTED = "PREEMPTION_EXHAUSTED"
    PRIORITY_STARVED = "PRIORITY_STARVED"


SUPPLY_CAP = 256
"""Where counting of matching machines stops: enough to distinguish none, some and plenty."""

CANDIDATE_LIMIT = 6
"""How many domains of a gang a verdict names."""


@dataclass(frozen=True, slots=True)
class MatchingSupply:
    """Machines anywhere, claimed or not, that match the need and cover its unit; each count stops at the cap."""

    idle: int
    speculative: int
    configured: int

    @property
    def capped(self) -> bool:
        """Whether some count stopped at the cap."""
        return max(self.idle, self.speculative, self.configured) >= SUPPLY_CAP


@dataclass(frozen=True, slots=True)
class DomainCoverage:
    """How much of a gang one domain could hold, by its worst dimension."""

    domain: str
    coverage_per_mille: int
    satisfiable: bool


T = TypeVar("T")


class LazySequence(Sequence[T], Generic[T]):
    """A sequence that is computed on first use.

    A decision about half a million machines names most of them; most readers look at a few, or only count them.
    """

    __slots__ = ("_compute", "_items", "_size")

    def __init__(self, compute: Callable[[], Sequence[T]], size: int | None = None) -> None:
        """`size` is how many there will be, where that is known beforehand."""
        self._compute: Callable[[], Sequence[T]] | None = compute
        self._items: tuple[T, ...] = ()
        self._size = size

    def _made(self) -> tuple[T, ...]:
        compute = self._compute  # held: another thread may compute it at the same time, with the same result
        if compute is not None:
            self._items = tuple(compute())
            self._compute = None
        return self._items

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return self._made()[at]

    def __len__(self) -> int:
        return len(self._made()) if self._size is None else self._size

    def __iter__(self) -> Iterator[T]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazySequence):
            return self._made() == other._made()
        return self._made() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made())

    def __repr__(self) -> str:
        return repr(self._made())


class Verdict(NamedTuple):  # a tuple, as a decision has tens of thousands of them
    """How one need of the normalised demand fares after Phase 1."""

    need: Need
    folded_from: Sequence[int]
    """Places in the demand as it was given; several when gangs were folded."""
    deficit: Resources = ZERO
    claimed: Sequence[str] = ()  # ids ascending, as in the two below
    bootstrapped: Sequence[str] = ()
    provisioned: Sequence[str] = ()
    domain: str | None = None
    structurally_satisfiable: bool = False
    parked: bool = False
    reason: Reason = Reason.SATISFIED
    matching_supply: MatchingSupply | None = None  # only where the need is not satisfied
    same_candidates: Sequence[DomainCoverage] = ()

    @property
    def satisfied(self) -> bool:
        """Whether Phase 1 covered the whole demand."""
        return self.deficit.is_zero


@dataclass(frozen=True, slots=True)
class Unresolved:
    """What Phase 2 left of a need."""

    need: int
    deficit: Resources
    victims: int = 0
    freed: Resources = ZERO


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Decision:
    """Everything one cycle decided."""

    actions: Sequence[Action]
    verdicts: Sequence[Verdict]
    unresolved: Sequence[Unresolved]
