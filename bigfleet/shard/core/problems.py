"""What is wrong with a shard at one moment, as one ordered list of sentences.

Why: readiness detail, status, metric and pages must name the same problems, so the list is made in one place.
Must never: list a thing that a person chose (kill switch, dry run), or grow with the fleet: of each kind a few problems are
named and the rest is counted.
Rules: `shard#problems-in-one-look`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.explain.amounts import amounts_words
from bigfleet.explain.durations import duration_text
from bigfleet.explain.hold_offs import hold_off_words, verdict_words
from bigfleet.explain.left_out import next_attempt, offering_name
from bigfleet.model.need import Need
from bigfleet.shard.core.coverage import Coverage
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.core.views import CycleView, OfferingCoolOff, ShardStatus

NAMED: Final = 5
"""How many problems of one kind are named."""
_ERROR_CHARACTERS: Final = 200


class ProblemKind(StrEnum):
    """The kinds of problems, worst first; the texts are those of the metric."""

    SELF_PAUSED = "self_paused"
    PROVIDER_UNREACHABLE = "provider_unreachable"
    LISTING_DOUBTED = "listing_doubted"
    ROLLUP_QUARANTINE = "rollup_quarantine"
    SHORTFALLS = "shortfalls"
    OFFERING_COOL_OFF = "offering_cool_off"
    AUDIT_LOST = "audit_lost"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong."""

    kind: ProblemKind
    text: str
    """One sentence with names and numbers, without a full stop."""
    for_s: float = 0.0
    """For how long; 0 when that is not known."""
    count: int = 1
    """How many things of this kind the sentence is about."""


def problems_of(
    status: ShardStatus, view: CycleView | None, coverage: Coverage | None, sources: StatusSources
) -> tuple[Problem, ...]:
    """Everything that is wrong, worst first; `coverage` is of the view, at the same moment as the status."""
    found = [*_self_paused(status, sources), *_provider(status, view), *_quarantine(view, sources)]
    if view is not None and coverage is not None:
        found += _shortfalls(view, coverage)
    if view is not None:
        found += _cool_offs(view, sources.now(view.now))
    if lost := sources.audit_lost():
        found.append(Problem(ProblemKind.AUDIT_LOST, lost))
    return tuple(found)


def short_places_now(view: CycleView, coverage: Coverage) -> list[int]:
    """The needs whose machines do not come, in list order: left over by Phase 2, held off, or not accepted for long."""
    return sorted({*(item.need for item in view.decision.unresolved), *coverage.held_short})


def actions_waiting(view: CycleView | None) -> int:
    """How many actions of the last cycle were decided and held off."""
    return 0 if view is None else view.facts.backed_off


def cool_off_text(item: OfferingCoolOff, now_s: float) -> str:
    """An offering in cool-off, as `m5.large in za (Spot) is stocked out; next attempt in 40 s`."""
    name = offering_name(item.instance_type, item.zone, item.capacity_type)
    return f"{name} is stocked out; {next_attempt(item.until_s - now_s)}"


def need_name(need: Need) -> str:
    """A need in a sentence: its cluster, and its group if it is a gang."""
    return f"{need.cluster}/{need.group}" if need.group else need.cluster


def _self_paused(status: ShardStatus, sources: StatusSources) -> Iterator[Problem]:
    if status.paused and not sources.actuation_paused:
        text = sources.self_pause() or "actuation stopped: the shard paused itself"
        yield Problem(ProblemKind.SELF_PAUSED, text)


def _provider(status: ShardStatus, view: CycleView | None) -> Iterator[Problem]:
    provider = status.provider
    if not provider.reachable:
        name = f"provider {status.provider_address}" if status.provider_address else "the provider"
        why = f": {error}" if (error := _one_line(provider.last_error)) else ""
        text = f"{name} unreachable for {duration_text(provider.unreachable_for_s)}{why}"
        if waiting := actions_waiting(view):
            text += f"; {waiting} {'action waits' if waiting == 1 else 'actions wait'}"
        text += f"; {next_attempt(provider.next_probe_in_s)}"
        yield Problem(ProblemKind.PROVIDER_UNREACHABLE, text, provider.unreachable_for_s)
    if provider.doubted_for_s is not None:
        machines = f"{provider.doubted_missing} {_plural('machine', provider.doubted_missing)}"
        text = (
            f"the provider's listings have lacked {machines} for {duration_text(provider.doubted_for_s)}; "
            "the shard does not believe them yet and removes none"
        )
        yield Problem(ProblemKind.LISTING_DOUBTED, text, provider.doubted_for_s)


def _quarantine(view: CycleView | None, sources: StatusSources) -> Sequence[Problem]:
    if view is None:
        return ()
    held = ((cluster, sources.held_rollups(cluster)) for cluster in sorted(view.reported_clusters))
    kind = ProblemKind.ROLLUP_QUARANTINE
    return _first_few(
        kind,
        (
            Problem(
                kind,
                f"{count} {_plural('roll-up', count)} of {cluster} in a row held back: almost no rows left; "
                "its earlier demand counts",
            )
            for cluster, count in held
            if count
        ),
        "clusters have roll-ups held back",
    )


def _shortfalls(view: CycleView, coverage: Coverage) -> Sequence[Problem]:
    verdicts, kind = view.decision.verdicts, ProblemKind.SHORTFALLS
    places = short_places_now(view, coverage)
    named = []
    for place in places[:NAMED]:
        verdict, split = verdicts[place], coverage.of(place)
        why = hold_off_words(split.held_off) if split.held_off else verdict_words(verdict.reason.value)
        text = f"{need_name(verdict.need)} is short {amounts_words(split.missing)}: {why}"
        named.append(Problem(kind, text, split.waiting_s))
    return _with_rest(kind, named, len(places), "needs are short")


def _cool_offs(view: CycleView, now_s: float) -> Sequence[Problem]:
    kind = ProblemKind.OFFERING_COOL_OFF
    named = [Problem(kind, cool_off_text(item, now_s)) for item in view.cool_offs[:NAMED]]
    return _with_rest(kind, named, len(view.cool_offs), "offerings are stocked out")


def _first_few(kind: ProblemKind, found: Iterable[Problem], rest: str) -> Sequence[Problem]:
    every = list(found)
    return _with_rest(kind, every[:NAMED], len(every), rest)


def _with_rest(kind: ProblemKind, named: list[Problem], count: int, rest: str) -> Sequence[Problem]:
    left = count - len(named)
    return [*named, Problem(kind, f"{left} more {rest}", count=left)] if left else named


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _ERROR_CHARACTERS else f"{line[: _ERROR_CHARACTERS - 1]}…"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
