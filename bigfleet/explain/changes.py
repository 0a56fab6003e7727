"""Proposes changes that would satisfy a need, each tried on the engine first.

Why: a short need also wants to know what would help, in a form that what-if accepts.
Must never: propose what was not tried. Every proposal is a list of edits in their public form; it was read, applied and
decided on, and the need was satisfied. The number of tries is bounded, and cheap ones come first.
Rules: `dashboard#explain-changes`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bigfleet.document.compare import Comparer, NeedChange, NeedChangeKind, Side
from bigfleet.document.compare_costs import costs_of
from bigfleet.document.edits import apply_edits, edits_of
from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.ideas import Idea, ideas_for
from bigfleet.model.action import ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.situation import Situation

Decide = Callable[[Situation], Decision]

DEFAULT_TRIES = 40
_MACHINES_TRIED = 500_000  # in all: large fleets get fewer tries, and the same fleet always the same number
_LEAST_TRIES = 4
_NARROWING = 5


class ProposalEffect(StrEnum):
    """The effect of a proposal when it was tried."""

    SATISFIED = "satisfied at once"
    PREEMPTS = "satisfied once the machines it preempts have drained"
    OTHER_MACHINE = "takes the other machine"


@dataclass(frozen=True, slots=True)
class HarmedNeed:
    """A need that is worse off with the proposal."""

    numbers: tuple[int, ...]
    cluster: str
    priority: int
    change: NeedChangeKind


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that suffices."""

    words: str
    edits: tuple[Mapping[str, object], ...]
    effect: ProposalEffect
    cost_difference: float
    """Dollars per hour that the fleet costs more, or less, once everything decided is done."""
    preempted: int = 0
    """Machines that it preempts."""
    hurts: tuple[HarmedNeed, ...] = ()


def tries_for(machines: int) -> int:
    """How often the engine may be run on a fleet of this size for one explanation."""
    return max(_LEAST_TRIES, min(DEFAULT_TRIES, _MACHINES_TRIED // max(1, machines)))


def propose(
    cycle: DecidedCycle, document: SnapshotDocument, place: int, decide: Decide, tries: int | None = None
) -> tuple[Proposal, ...]:
    """Changes to a document after which the need at a place is satisfied, the cheapest first; `cycle` is its decision."""
    if tries is None:
        tries = tries_for(len(cycle.machines))
    trials = _Trials(cycle, document, place, decide, tries)
    found: dict[str, Proposal] = {}
    for idea in ideas_for(cycle, place):
        proposal = trials.narrowed(idea)
        if proposal is not None:
            found.setdefault(proposal.words, proposal)
        if not trials.left or (proposal is not None and idea.ends):
            break
    return tuple(sorted(found.values(), key=lambda item: (item.cost_difference, len(item.hurts), item.words)))


class _Trials:
    """Runs of the engine on edited documents, counted."""

    def __init__(
        self, cycle: DecidedCycle, document: SnapshotDocument, place: int, decide: Decide, tries: int
    ) -> None:
        self._document, self._decide, self.left = document, decide, tries
        self._numbers = frozenset(cycle.numbers(place))
        self._comparer = Comparer(Side(document, cycle.decision))
        self._cost = costs_of(document.situation, cycle.decision).total
        self._waits_already = cycle.open_after_preemption(place).is_zero

    def narrowed(self, idea: Idea) -> Proposal | None:
        """The least amount of an idea that is found to suffice; its amounts rise."""
        failed = -1
        for place, amount in enumerate(idea.amounts):
            proposal = self._try(idea, amount)
            if proposal is not None:
                below = idea.amounts[failed] if failed >= 0 else None
                return self._smaller(idea, below, amount, proposal) if idea.between else proposal
            failed = place
        return None

    def _smaller(self, idea: Idea, below: int | None, amount: int, found: Proposal) -> Proposal:
        """Bisect between an amount that did not suffice and one that did, a few times."""
        if below is None:
            return found
        for _ in range(_NARROWING):
            middle = (below + amount) // 2
            if middle in (below, amount):
                break
            proposal = self._try(idea, middle)
            if proposal is None:
                below = middle
            else:
                amount, found = middle, proposal
        return found

    def _try(self, idea: Idea, amount: int) -> Proposal | None:
        if not self.left:
            return None
        self.left -= 1
        edits = tuple(idea.edits(amount))
        try:
            edited = apply_edits(self._document, edits_of(edits))
        except DocumentError:
            return None  # an idea that cannot be said, as a price below zero
        after = Side(edited.document, self._decide(edited.document.situation))
        places = self._places(after, edited.numbers)
        effect = _effect(idea, after.decision, places)
        if effect is None or (effect is ProposalEffect.PREEMPTS and self._waits_already):
            return None
        cost = costs_of(edited.document.situation, after.decision).total
        preempted = sum(
            action.kind is ActionKind.PREEMPT and action.need in places for action in after.decision.actions
        )
        return Proposal(
            words=idea.words(amount),
            edits=edits,
            effect=effect,
            cost_difference=round(cost - self._cost, 6),
            preempted=preempted,
            hurts=tuple(self._hurt(self._comparer.needs(after, edited.numbers))),
        )

    def _places(self, after: Side, numbers: Sequence[int]) -> list[int]:
        """The places of the need after the change: several when it is no longer folded, none when it is gone."""
        wanted = {place for place, number in enumerate(numbers) if number in self._numbers}
        return [
            place
            for place, verdict in enumerate(after.decision.verdicts)
            if any(after.document.places[source] in wanted for source in verdict.folded_from)
        ]

    def _hurt(self, changes: Iterable[NeedChange]) -> Iterator[HarmedNeed]:
        worse = (NeedChangeKind.SHORT, NeedChangeKind.SHORTER, NeedChangeKind.SHORT_OTHERWISE)
        for item in changes:
            if item.change in worse and item.after is not None and not self._numbers & set(item.numbers):
                need = item.after.need
                yield HarmedNeed(item.numbers, need.cluster, need.profile.priority, item.change)


def _effect(idea: Idea, decision: Decision, places: Sequence[int]) -> ProposalEffect | None:
    if not places:
        return None  # a need that is gone is not satisfied
    verdicts = [decision.verdicts[place] for place in places]
    if idea.wants_machine:
        taken = any(idea.wants_machine in verdict.claimed for verdict in verdicts)
        return ProposalEffect.OTHER_MACHINE if taken else None
    if all(verdict.satisfied for verdict in verdicts):
        return ProposalEffect.SATISFIED
    still_open = {left.need for left in decision.unresolved}
    return None if still_open & set(places) else ProposalEffect.PREEMPTS
