"""Finds a need by its number in the document or by cluster and group, and a machine by its id.

Must never: guess; a name that fits several needs is refused with their numbers.
"""

from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.model.errors import InvalidFieldError

_SHOWN = 8
_CHARACTERS = 80


class AmbiguousNeedError(InvalidFieldError):
    """A text names several needs."""


def find_need(cycle: DecidedCycle, text: str, field: str) -> int:
    """The place of the need that a text names, `3` or `train` or `train/llm-7`; `field` is how a refusal calls it."""
    count = len(cycle.needs_by_number)
    if text.isascii() and text.isdigit():
        if len(text) < 10 and int(text) < count:  # longer ones are no number of anything
            return cycle.place_of(int(text))
        allowed = f"a number from 0 to {count - 1}" if count else "nothing, as there is no need"
        raise InvalidFieldError(field, _clipped(text), allowed)
    cluster, slash, group = text.partition("/")  # a group may have a slash, a cluster has none
    needs = cycle.needs_by_number
    found = [
        number
        for number, need in sorted(needs.items())
        if need.cluster == text or (slash and need.cluster == cluster and need.group == group)
    ]
    places = sorted({cycle.place_of(number) for number in found})
    if len(places) == 1:
        return places[0]
    if found:
        raise AmbiguousNeedError(
            field, _clipped(text), f"the number of one of the needs it names: {_some(found)}"
        )
    if not needs:
        raise InvalidFieldError(field, _clipped(text), "nothing, as there is no need")
    names = sorted(
        {f"{need.cluster}/{need.group}" if need.group else need.cluster for need in needs.values()}
    )
    raise InvalidFieldError(field, _clipped(text), f"the number of a need, or one of {_some(names)}")


def known_machine(cycle: DecidedCycle, machine_id: str, field: str) -> str:
    """The id of a machine that is there."""
    if machine_id in cycle.machines:
        return machine_id
    near = sorted(known for known in cycle.machines if known.startswith(machine_id)) or sorted(cycle.machines)
    allowed = f"the id of a machine: {_some(near)}" if near else "nothing, as there is no machine"
    raise InvalidFieldError(field, _clipped(machine_id), allowed)


def _clipped(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def _some(items: list[int] | list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(_clipped(str(item)) for item in items[:_SHOWN]) + more
