"""Templates: what kinds of machines could be added for a need."""

from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.explain.amounts import amounts_text
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.fit import FitChecker, strict_spread
from bigfleet.explain.fleet_summary import cost_for
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import Machine, MachineState, Shape
from bigfleet.model.matching import matches
from bigfleet.model.need import Need
from bigfleet.model.profile import (
    HOST_NAME_KEY,
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    Requirement,
    RequirementOperator,
)
from bigfleet.model.resources import Resources

_NEW_VALUE = "new"


@dataclass(frozen=True, slots=True)
class Template:
    """A machine to add more of, as the edit that adds it says."""

    words: str
    edit: Mapping[str, object]
    capacity: Resources
    """What it counts as towards the need."""

    def count_for(self, amounts: Resources) -> int:
        """How many it takes at least."""
        counts = (
            -(-amount // self.capacity.amount(name))
            for name, amount in amounts.items()
            if self.capacity.amount(name)
        )
        return max(counts, default=1)


def templates_for(cycle: DecidedCycle, place: int) -> list[Template]:
    """Kinds of machines that could serve a need, the best first; one made up where the fleet has none."""
    verdict, checker = cycle.verdict(place), FitChecker(cycle, place)
    need = verdict.need
    key = need.profile.same_key
    found: dict[tuple[object, ...], tuple[tuple[object, ...], Template]] = {}
    for group in cycle.groups:
        shape = group.first.shape
        counted = need.counted(shape)
        if not checker.fits(group.first) or not _helps(counted, verdict.deficit):
            continue
        away = key is not None and checker.domain is not None and group.first.label(key) != checker.domain
        name = (shape.instance_type, shape.zone, shape.capacity_type, shape.price_per_hour, away)
        order = (away, cost_for(shape, need), shape.instance_type, shape.zone, group.first.id)
        template = Template(_words(shape), {"like": group.first.id}, counted)
        known = found.get(name)
        if known is None or order < known[0]:
            found[name] = (order, template)
    ordered = [template for _, template in sorted(found.values(), key=lambda item: item[0])]
    if ordered:
        return ordered
    made = _made_up(need)
    return [] if made is None else [made]


def _helps(counted: Resources, deficit: Resources) -> bool:
    """Whether enough machines that count as so much cover a deficit."""
    return all(counted.amount(name) > 0 for name in deficit)


def _words(shape: Shape) -> str:
    named = f"of type {shape.instance_type}" if shape.instance_type else "of the same type"
    where = f" in zone {shape.zone}" if shape.zone else ""
    return f"{named}{where} ({shape.capacity_type.label}, ${shape.price_per_hour:g}/h)"


def _made_up(need: Need) -> Template | None:
    """A machine that meets every requirement and holds the unit; None when requirements exclude each other."""
    labels: dict[str, str] = {}
    for requirement in need.profile.requirements:
        value = _value(requirement)
        if value is not None and (requirement.key != HOST_NAME_KEY or value in requirement.values):
            labels.setdefault(requirement.key, value)
    spread = strict_spread(need)
    if spread is not None and spread.topology_key != HOST_NAME_KEY:
        labels.setdefault(spread.topology_key, _NEW_VALUE)
    made = Machine(_NEW_VALUE, MachineState.IDLE, Shape(labels=FrozenMap(labels)))
    if not matches(made, need.profile):
        return None
    capacity = _size(need)
    instance_type, zone = labels.pop(INSTANCE_TYPE_KEY, ""), labels.pop(ZONE_KEY, "")
    machine = {
        **({"instance_type": instance_type} if instance_type else {}),
        **({"zone": zone} if zone else {}),
        "resources": capacity.texts(),
        **({"labels": labels} if labels else {}),
    }
    where = f" in zone {zone}" if zone else ""
    named = f"of type {instance_type}" if instance_type else "of a new type"
    counted = need.counted(Shape(resources=FrozenMap(capacity.texts())))
    return Template(f"{named}{where} with {amounts_text(capacity)}", {"machine": machine}, counted)


def _size(need: Need) -> Resources:
    """The unit, and of what the unit does not name as much as lets equal machines cover the total."""
    shares = (
        -(-amount // need.unit.amount(name)) for name, amount in need.total.items() if need.unit.amount(name)
    )
    count = max(shares, default=1)
    return need.unit.maximum(Resources({name: -(-amount // count) for name, amount in need.total.items()}))


def _value(requirement: Requirement) -> str | None:
    match requirement.operator:
        case RequirementOperator.IN | RequirementOperator.SAME if requirement.values:
            return requirement.values[0]
        case RequirementOperator.SAME | RequirementOperator.EXISTS:
            return _NEW_VALUE
        case _:
            return None
