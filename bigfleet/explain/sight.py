"""What one need sees of the fleet, counted: what it has, what it could take, what it is refused and why.

Why: an explanation names a few machines of each class and counts the rest; how the counting is done depends on how the fleet
is kept, what is told of it does not. This is the plain form, group by group; `bigfleet.explain.column_sight` is the quick one.
Must never: leave a machine out. What is seen as chosen and what is seen as refused add up to the fleet.
Rules: dashboard 6.1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from bigfleet.explain.case import Case, Group
from bigfleet.explain.standing import CHOSEN, Answer, Judge, Standing, step_of
from bigfleet.model.buckets import upper_bound
from bigfleet.model.costs import effective_cost
from bigfleet.model.machine import CapacityType, Machine, MachineState, Shape
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources

EXAMPLES = 5
"""How many machines of a class are named."""
COMPETITORS = 10
REFUSALS_SHOWN = 50
"""How many refusals of one standing are told one by one."""

S = MachineState
STEPS = (S.CONFIGURED, S.CONFIGURING, S.CREATING, S.IDLE, S.SPECULATIVE)
WAITING = (Standing.NOT_NEEDED, Standing.PARKED, Standing.SPREAD_LIMIT)
"""What could be had if the need wanted more and could have it."""
STANDINGS = tuple(Standing)

Looks = tuple[MachineState, str, str, CapacityType, float, float]


def looks_of(state: MachineState, shape: Shape) -> Looks:
    """What is the same on machines of one class."""
    return (
        *(state, shape.instance_type, shape.zone, shape.capacity_type),
        *(shape.price_per_hour, shape.interruption_probability),
    )


def cost_for(shape: Shape, need: Need) -> float:
    """What a machine of a shape really costs a need by the hour."""
    penalty = upper_bound(need.profile.interruption_bucket)
    return effective_cost(shape.price_per_hour, shape.interruption_probability, penalty)


@dataclass(frozen=True, slots=True)
class Seen:
    """Machines that are the same to everybody who pays for them."""

    how: str
    state: MachineState
    shape: Shape
    """Of one of them; they differ in labels at most."""
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Machines that were refused for one reason."""

    answer: Answer
    count: int
    examples: tuple[str, ...]
    others: int = 0
    """How many reasons of one standing are told as one, where there are thousands, as of clusters in a large fleet."""


@dataclass(frozen=True, slots=True)
class Sight:
    """All machines, from where one need stands."""

    fitting: Mapping[MachineState, int]
    """How many the need may take in each state, unless another need does."""
    taken: Mapping[MachineState, int]
    offered: Mapping[MachineState, Resources]
    """What the taken ones hold."""
    chosen: Sequence[Seen]
    next_best: Seen | None
    refused: Sequence[Refused]
    """By standing, then the most common first."""
    held: Sequence[tuple[Answer, int]]
    """How much of what it could use the ten needs have that have most of it."""


def seen_in_groups(case: Case, judge: Judge) -> Sight:
    """Look at every group of machines once."""
    answers = [(judge.answer(group), group) for group in case.groups]
    fitting, taken = dict.fromkeys(STEPS, 0), dict.fromkeys(STEPS, 0)
    offered = dict.fromkeys(STEPS, ZERO)
    for _, group in answers:
        state = group.first.state
        if state in fitting and judge.could_take(group.first):
            fitting[state] += group.size
        if group.holder == judge.place:
            taken[state] += group.size
            offered[state] += group.capacity
    return Sight(
        fitting,
        taken,
        offered,
        chosen=_chosen(answers),
        next_best=_next_best(judge.need, answers),
        refused=_refused(case, answers),
        held=_held(case, answers),
    )


def _examples(groups: Sequence[Group]) -> tuple[str, ...]:
    """The first machines by id of some groups."""
    return tuple(sorted(machine_id for group in groups for machine_id in group.ids[:EXAMPLES])[:EXAMPLES])


def _size(groups: Sequence[Group]) -> int:
    return sum(group.size for group in groups)


def _looks(machine: Machine) -> Looks:
    return looks_of(machine.state, machine.shape)


def _chosen(answers: Iterable[tuple[Answer, Group]]) -> list[Seen]:
    found: dict[tuple[object, ...], tuple[Machine, str, list[Group]]] = {}
    for answer, group in answers:
        if answer.standing in CHOSEN:
            how = answer.detail if answer.standing is Standing.TAKEN else answer.standing.value
            found.setdefault((how, *_looks(group.first)), (group.first, how, []))[2].append(group)
    return [
        Seen(how, machine.state, machine.shape, _size(groups), _examples(groups))
        for machine, how, groups in found.values()
    ]


def _next_best(need: Need, answers: Iterable[tuple[Answer, Group]]) -> Seen | None:
    """The machine that would be taken next if the need wanted more and could have it."""
    free = [
        group
        for answer, group in answers
        if answer.standing in WAITING and group.first.state in (S.IDLE, S.SPECULATIVE)
    ]
    if not free:
        return None

    def order(group: Group) -> tuple[bool, float, float, str]:
        machine = group.first
        if machine.state is S.IDLE:
            return (False, machine.shape.price_per_hour, machine.assigned.reclamation_penalty, group.ids[0])
        return (True, cost_for(machine.shape, need), 0.0, group.ids[0])

    best = min(free, key=order).first
    same = [group for group in free if _looks(group.first) == _looks(best)]
    return Seen(f"would be {step_of(best)}", best.state, best.shape, _size(same), _examples(same))


def _refused(case: Case, answers: Iterable[tuple[Answer, Group]]) -> list[Refused]:
    found: dict[Answer, list[Group]] = {}
    for answer, group in answers:
        if answer.standing not in CHOSEN:
            found.setdefault(answer, []).append(group)
    refused = [Refused(answer, _size(groups), _examples(groups)) for answer, groups in found.items()]
    refused.sort(key=lambda item: _refused_order(case, item))
    return [
        shown
        for _, same in groupby(refused, key=lambda item: item.answer.standing)
        for shown in _most_common(list(same))
    ]


def _refused_order(case: Case, item: Refused) -> tuple[object, ...]:
    answer = item.answer
    numbers = case.numbers(answer.need) if answer.standing is Standing.CLAIMED else ()
    return (STANDINGS.index(answer.standing), -item.count, answer.detail, numbers)


def _most_common(refused: list[Refused]) -> list[Refused]:
    """Refusals of one standing, the smallest put together where there are too many."""
    if len(refused) <= REFUSALS_SHOWN:
        return refused
    shown, rest = refused[: REFUSALS_SHOWN - 1], refused[REFUSALS_SHOWN - 1 :]
    examples = sorted(machine_id for item in rest for machine_id in item.examples)[:EXAMPLES]
    count = sum(item.count for item in rest)
    return [*shown, Refused(Answer(rest[0].answer.standing), count, tuple(examples), len(rest))]


def _held(case: Case, answers: Iterable[tuple[Answer, Group]]) -> list[tuple[Answer, int]]:
    held: dict[Answer, int] = {}
    for answer, group in answers:
        if answer.standing is Standing.CLAIMED:
            held[answer] = held.get(answer, 0) + group.size
    return sorted(held.items(), key=lambda item: (-item[1], case.numbers(item[0].need)))[:COMPETITORS]
