"""Ideas: changes that might satisfy a need, in the form of edits, before they are tried.

Must never: be shown untried.
Rules: `dashboard#explain-changes`, `engine#obtainable`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bigfleet.explain.amounts import amounts_text, units_text
from bigfleet.explain.decided_cycle import DecidedCycle, MachineGroup
from bigfleet.explain.fit import FitChecker, requirement_text, strict_spread
from bigfleet.explain.prices import price_idea
from bigfleet.explain.templates import Template, templates_for
from bigfleet.explain.usable import is_refused
from bigfleet.model.buckets import PINNED, PenaltyBucket, upper_bound
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources

EditObject = Mapping[str, object]

_TEMPLATES = 3
_MAX_PRIORITY = 2**31 - 1
_MOST_MACHINES = 50_000
_ONCE = (0,)


@dataclass(frozen=True, slots=True)
class Idea:
    """A change that might help, in a number of sizes."""

    words: Callable[[int], str]
    edits: Callable[[int], Sequence[EditObject]]
    amounts: tuple[int, ...] = _ONCE
    """Rising; the first that does is proposed."""
    between: bool = False
    """Whether an amount between two of these is one too, so that the least can be looked for."""
    ends: bool = False
    """Whether nothing else is worth trying once it suffices."""
    wants_machine: str = ""
    """The machine that the need is to take; empty when the need is to be satisfied."""


def ideas_for(cycle: DecidedCycle, place: int) -> Iterator[Idea]:
    """What to try for a need, in the order of trying."""
    verdict, checker = cycle.verdict(place), FitChecker(cycle, place)
    if verdict.satisfied:
        cheaper = price_idea(cycle, place)
        if cheaper is not None:
            machine_id, price = cheaper
            yield Idea(
                lambda _: f"a price of ${price:g}/h for {machine_id}",
                lambda _: [
                    {"edit": "change_machines", "where": {"ids": machine_id}, "to": {"price_per_hour": price}}
                ],
                wants_machine=machine_id,
            )
        return
    where = {"needs": list(cycle.numbers(place))}
    if not verdict.parked:
        yield from _ideas_of_a_short_need(cycle, checker, where)
        return
    unpark = {"edit": "unpark", "where": where}
    yield Idea(lambda _: "let the parked gang try again", lambda _: [unpark], ends=True)
    for idea in _ideas_of_a_short_need(cycle, checker, where):
        yield _together(unpark, idea)


def _together(unpark: EditObject, idea: Idea) -> Idea:
    """A parked gang acquires nothing, so every change must also unpark it."""
    return replace(
        idea,
        words=lambda amount: f"let it try again, and {idea.words(amount)}",
        edits=lambda amount: [unpark, *idea.edits(amount)],
    )


def _ideas_of_a_short_need(cycle: DecidedCycle, checker: FitChecker, where: EditObject) -> Iterator[Idea]:
    place, verdict = checker.place, cycle.verdict(checker.place)
    yield from _smaller(cycle, place, where)
    more = [
        _more_machines(template, verdict.need, verdict.deficit)
        for template in templates_for(cycle, place)[:_TEMPLATES]
    ]
    # One idea of each sort first: on a large fleet there are few tries.
    yield from more[:1]
    yield from _higher_priority(cycle, checker, where)
    yield from _not_pinned(cycle, verdict.need, where)
    yield from _fewer_constraints(verdict.need, where)
    yield from more[1:]
    yield from _smaller_unit(cycle, checker, where)


def _smaller(cycle: DecidedCycle, place: int, where: EditObject) -> Iterator[Idea]:
    """Ask for no more than the need can get."""
    verdict, numbers = cycle.verdict(place), cycle.numbers(place)
    if len(numbers) > 1:
        unit = verdict.need.unit
        members = max(
            (
                -(-amount // unit.amount(name))
                for name, amount in verdict.deficit.items()
                if unit.amount(name)
            ),
            default=0,
        )
        if 0 < members < len(numbers):
            gone = list(numbers[-members:])
            yield Idea(
                lambda _: f"without {members} of the {len(numbers)} gangs that were folded",
                lambda _: [{"edit": "remove_needs", "where": {"needs": gone}}],
            )
        return
    kept = verdict.need.total - verdict.deficit
    if not kept.is_zero:
        yield Idea(
            lambda _: f"a total of {amounts_text(kept)} instead of {amounts_text(verdict.need.total)}",
            lambda _: [{"edit": "change_needs", "where": where, "to": {"total": kept.texts()}}],
        )


def _more_machines(template: Template, need: Need, deficit: Resources) -> Idea:
    least, whole = template.count_for(deficit), template.count_for(need.total)
    amounts = sorted(
        {count for count in (least, whole, 2 * whole, 4 * whole, 16 * whole) if count <= _MOST_MACHINES}
        or {least}
    )

    def words(count: int) -> str:
        return f"{count} more {'machine' if count == 1 else 'machines'} {template.words}"

    def edits(count: int) -> Sequence[EditObject]:
        return [{"edit": "add_machines", "count": count, **template.edit}]

    return Idea(words, edits, tuple(amounts), between=True)


def _higher_priority(cycle: DecidedCycle, checker: FitChecker, where: EditObject) -> Iterator[Idea]:
    """Outrank the needs that hold usable machines, or whose machines could be preempted."""
    mine = checker.need.profile.priority
    levels: set[int] = set()
    for group in cycle.groups:
        if not checker.fits(group.first):
            continue
        levels |= _levels(cycle, group)
    rising = tuple(sorted(level for level in levels if mine < level <= _MAX_PRIORITY))
    if rising:
        yield Idea(
            lambda level: f"priority {level} instead of {mine}",
            lambda level: [{"edit": "change_needs", "where": where, "to": {"priority": level}}],
            _sampled(rising),
        )


def _levels(cycle: DecidedCycle, group: MachineGroup) -> set[int]:
    found: set[int] = set()
    if group.holder >= 0:
        holder = cycle.need(group.holder).profile.priority
        found |= {holder, holder + 1}
    if group.first.state is MachineState.CONFIGURED:
        found.add(group.first.assigned.priority + 1)
    return found


def _sampled(levels: tuple[int, ...]) -> tuple[int, ...]:
    """A few of many levels, the highest among them."""
    most = 6
    if len(levels) <= most:
        return levels
    return tuple(sorted({levels[(len(levels) - 1) * place // (most - 1)] for place in range(most)}))


def _not_pinned(cycle: DecidedCycle, need: Need, where: EditObject) -> Iterator[Idea]:
    """The largest penalty that still lets the need have machines that can be interrupted."""
    if any(is_refused(group.first.shape, need) for group in cycle.groups):
        bucket = PenaltyBucket(PINNED - 1)
        yield Idea(
            lambda _: f"an interruption penalty of ${upper_bound(bucket):,.0f} instead of pinned",
            lambda _: [
                {"edit": "change_needs", "where": where, "to": {"interruption_penalty_bucket": int(bucket)}}
            ],
        )


def _fewer_constraints(need: Need, where: EditObject) -> Iterator[Idea]:
    profile = need.profile
    if strict_spread(need) is not None:
        yield Idea(
            lambda _: "without the spread",
            lambda _: [{"edit": "change_needs", "where": where, "to": {"topology_spread": []}}],
        )
    if need.max_units:
        yield Idea(
            lambda _: f"without the limit of {units_text(need.max_units)} per machine",
            lambda _: [{"edit": "change_needs", "where": where, "to": {"max_units_per_machine": 0}}],
        )
    for key in dict.fromkeys(item.key for item in profile.requirements):
        texts = "; ".join(requirement_text(item) for item in profile.requirements if item.key == key)
        yield _without(key, texts, where)


def _without(key: str, texts: str, where: EditObject) -> Idea:
    return Idea(
        lambda _: f"without the requirement {texts}",
        lambda _: [{"edit": "change_needs", "where": where, "drop_requirements": [key]}],
    )


def _smaller_unit(cycle: DecidedCycle, checker: FitChecker, where: EditObject) -> Iterator[Idea]:
    """Accept the largest machines there are."""
    unit = checker.need.unit
    largest = dict.fromkeys(unit, 0)
    for group in cycle.groups:
        if checker.matches(group.first):
            for name in unit:
                largest[name] = max(largest[name], group.first.shape.with_pods.amount(name))
    smaller = Resources({name: min(amount, largest[name]) for name, amount in unit.items()})
    if smaller != unit:
        yield Idea(
            lambda _: f"a unit of {amounts_text(smaller)} instead of {amounts_text(unit)}",
            lambda _: [{"edit": "change_needs", "where": where, "to": {"unit": smaller.texts()}}],
        )
