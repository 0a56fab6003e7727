"""Selectors: which machines, and which needs, an edit is about.

Why: users mean "the spot machines of zone za" and "all demand of cluster b", and an edit that selects nothing is a typo.
Must never: match nothing in silence; who applies an edit refuses that with the path of its selector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bigfleet.document.edits.draft import Draft, DraftNeed
from bigfleet.document.errors import DocumentError, shown
from bigfleet.document.fields import INT32, Fields, Form, checked_texts
from bigfleet.document.needs import NEED, NeedReader
from bigfleet.model.machine import TRANSITIONS, CapacityType, Machine
from bigfleet.model.matching import holds, matches
from bigfleet.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, Profile, Requirement, RequirementOperator

# None is no default that a file can say: a criterion is given or it is not.
MACHINES_WHERE: Form = {
    "ids": None,
    "state": None,
    "cluster": None,
    "instance_type": None,
    "zone": None,
    "capacity_type": None,
    "provider": None,
    "labels": {},
    "requirements": [],
}
NEEDS_WHERE: Form = {"needs": None, "cluster": None, "group": None, "fingerprint": None, "priority": None}

STATES = {state.label: state for state in TRANSITIONS}
CAPACITY_TYPES = {kind.label: kind for kind in CapacityType}

_TEXTS = "a text or a list of texts"
_KEYS = {"instance_type": INSTANCE_TYPE_KEY, "zone": ZONE_KEY}


@dataclass(frozen=True, slots=True)
class MachineSelector:
    """Machines for which every criterion holds; without any criterion, all."""

    tests: tuple[Callable[[Machine], bool], ...]

    def of(self, draft: Draft) -> list[Machine]:
        """The machines, by id; at least one, or a refusal."""
        found = [
            machine
            for machine_id, machine in sorted(draft.machines.items())
            if all(test(machine) for test in self.tests)
        ]
        if not found:
            raise DocumentError("where", "no machine", "a selector that matches a machine")
        return found


@dataclass(frozen=True, slots=True)
class NeedSelector:
    """Needs for which every criterion holds; without any criterion, all."""

    numbers: tuple[int, ...] | None
    tests: tuple[Callable[[DraftNeed], bool], ...]

    def of(self, draft: Draft) -> list[DraftNeed]:
        """The needs in list order; at least one, and every one that was named by number, or a refusal."""
        known = {row.number for row in draft.rows}
        for place, number in enumerate(self.numbers or ()):
            if number not in known:
                allowed = "the number of a need that is there"
                raise DocumentError(f"where.needs[{place}]", str(number), allowed)
        wanted = known if self.numbers is None else set(self.numbers)
        found = [row for row in draft.rows if row.number in wanted and all(test(row) for test in self.tests)]
        if not found:
            raise DocumentError("where", "no need", "a selector that matches a need")
        return found


def read_machine_selector(raw: object) -> MachineSelector:
    """Read the `where` of an edit of machines."""
    fields = Fields(raw, MACHINES_WHERE)
    given: Mapping[str, object] = raw if isinstance(raw, dict) else {}
    tests: list[Callable[[Machine], bool]] = []
    for name in given:
        match name:
            case "ids" | "cluster" | "provider":
                tests.append(_one_of(name, _texts(given, name)))
            case "state":
                tests.append(_in_states({STATES[text] for text in _choices(given, name, STATES)}))
            case "capacity_type":
                kinds = {CAPACITY_TYPES[text] for text in _choices(given, name, CAPACITY_TYPES)}
                tests.append(_of_capacity(kinds))
            case "instance_type" | "zone":
                tests.append(_meets(Requirement(_KEYS[name], RequirementOperator.IN, _texts(given, name))))
            case "labels":
                labels = checked_texts(fields.mapping(name), name)
                tests.extend(
                    _meets(Requirement(key, RequirementOperator.IN, (labels[key],))) for key in labels
                )
            case "requirements":
                tests.append(_matches(_profile(given[name])))
            case _:
                pass  # an `x-` key; every other unknown name is refused already
    return MachineSelector(tuple(tests))


def read_need_selector(raw: object) -> NeedSelector:
    """Read the `where` of an edit of needs."""
    Fields(raw, NEEDS_WHERE)  # unknown names are refused here
    given: Mapping[str, object] = raw if isinstance(raw, dict) else {}
    tests = [
        _row_has(name, _texts(given, name)) for name in ("cluster", "group", "fingerprint") if name in given
    ]
    if "priority" in given:
        tests.append(_row_has("priority", _integers(given, "priority", INT32)))
    numbers = _integers(given, "needs", (0, 2**31 - 1)) if "needs" in given else None
    return NeedSelector(numbers, tuple(tests))


def _one_of(name: str, texts: Sequence[str]) -> Callable[[Machine], bool]:
    wanted = frozenset(texts)
    if name == "ids":
        return lambda machine: machine.id in wanted
    if name == "cluster":
        return lambda machine: machine.cluster in wanted
    return lambda machine: machine.host.provider in wanted


def _in_states(states: set[object]) -> Callable[[Machine], bool]:
    return lambda machine: machine.state in states


def _of_capacity(kinds: set[CapacityType]) -> Callable[[Machine], bool]:
    return lambda machine: machine.shape.capacity_type in kinds


def _meets(requirement: Requirement) -> Callable[[Machine], bool]:
    return lambda machine: holds(requirement, machine.label(requirement.key))


def _matches(profile: Profile) -> Callable[[Machine], bool]:
    return lambda machine: matches(machine, profile)


def _profile(requirements: object) -> Profile:
    """Requirements as a need has them; the cluster is only there because a need must name one."""
    return NeedReader().read(Fields({"cluster": "any", "requirements": requirements}, NEED)).profile


def _row_has(name: str, wanted: Sequence[object]) -> Callable[[DraftNeed], bool]:
    if name == "cluster":
        return lambda row: row.need.cluster in wanted
    if name == "group":
        return lambda row: row.need.group in wanted
    if name == "priority":
        return lambda row: row.need.profile.priority in wanted
    return lambda row: row.need.profile.fingerprint in wanted


def _texts(given: Mapping[str, object], name: str) -> tuple[str, ...]:
    return _listed(given, name, lambda value: isinstance(value, str), _TEXTS)


def _choices(given: Mapping[str, object], name: str, choices: Mapping[str, object]) -> tuple[str, ...]:
    allowed = f"one of {', '.join(choices)}, or a list of them"
    return _listed(given, name, lambda value: isinstance(value, str) and value in choices, allowed)


def _integers(given: Mapping[str, object], name: str, bounds: tuple[int, int]) -> tuple[int, ...]:
    low, high = bounds
    allowed = f"an integer from {low} to {high}, or a list of them"
    return _listed(given, name, lambda value: type(value) is int and low <= value <= high, allowed)


def _listed(
    given: Mapping[str, object], name: str, accepts: Callable[[object], bool], allowed: str
) -> tuple[Any, ...]:  # Any: what `accepts` lets pass, of which the callers know the type
    value = given[name]
    if accepts(value):
        return (value,)
    if type(value) is not list or not value:
        raise DocumentError(name, shown(value) if value != [] else "an empty list", allowed)
    for place, item in enumerate(value):
        if not accepts(item):
            raise DocumentError(f"{name}[{place}]", shown(item), allowed)
    return tuple(value)
