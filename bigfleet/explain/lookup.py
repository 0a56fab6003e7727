"""Finds a need by its number in the document or by its name, and a machine by its id.

A name is the cluster, with the group of a gang, and with the priority where several needs share the rest: `web`, `train/llm-7`,
`web:5000`.
Must never: guess; a name that fits several needs is refused with the names or numbers that tell them apart.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need

_SHOWN = 8
_CHARACTERS = 80


class AmbiguousNeedError(InvalidFieldError):
    """A text names several needs."""

    def __str__(self) -> str:
        return f"{self.field}: {self.found} has {self.allowed}"


def name_of(need: Need) -> str:
    """The name of a need as far as it is short."""
    return f"{need.cluster}/{need.group}" if need.group else need.cluster


def find_need(cycle: DecidedCycle, text: str, field: str) -> int:
    """The place of the need that a text names, `3`, `train`, `train/llm-7` or `web:5000`; `field` is how a refusal calls it."""
    count = len(cycle.needs_by_number)
    if text.isascii() and text.isdigit():
        if len(text) < 10 and int(text) < count:  # longer ones are no number of anything
            return cycle.place_of(int(text))
        allowed = f"a number from 0 to {count - 1}" if count else "nothing, as there is no need"
        raise InvalidFieldError(field, _clipped(text), allowed)
    needs = cycle.needs_by_number
    found = _named(needs, text)
    places = sorted({cycle.place_of(number) for number in found})
    if len(places) == 1:
        return places[0]
    if found:
        raise AmbiguousNeedError(field, _clipped(text), f"{len(found)} needs; use {_apart(needs, found)}")
    if not needs:
        raise InvalidFieldError(field, _clipped(text), "nothing, as there is no need")
    names = sorted({name_of(need) for need in needs.values()})
    raise InvalidFieldError(field, _clipped(text), f"the number of a need, or one of {_some(names)}")


def _named(needs: Mapping[int, Need], text: str) -> list[int]:
    """The numbers of the needs that a name may mean."""
    found = [number for number, need in sorted(needs.items()) if text in (need.cluster, name_of(need))]
    name, colon, priority = text.rpartition(":")
    if found or not colon:
        return found
    return [
        number
        for number, need in sorted(needs.items())
        if name in (need.cluster, name_of(need)) and priority == str(need.profile.priority)
    ]


def _apart(needs: Mapping[int, Need], numbers: Sequence[int]) -> str:
    """What names each of these needs alone: a name with its priority, or else its number."""
    texts = [f"{name_of(needs[number])}:{needs[number].profile.priority}" for number in numbers]
    counts = Counter(texts)
    apart = [text if counts[text] == 1 else str(number) for text, number in zip(texts, numbers, strict=True)]
    return _some(apart)


def known_machine(cycle: DecidedCycle, machine_id: str, field: str) -> str:
    """The id of a machine that is there."""
    if machine_id in cycle.machines:
        return machine_id
    near = sorted(known for known in cycle.machines if known.startswith(machine_id)) or sorted(cycle.machines)
    allowed = f"the id of a machine: {_some(near)}" if near else "nothing, as there is no machine"
    raise InvalidFieldError(field, _clipped(machine_id), allowed)


def _clipped(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(_clipped(str(item)) for item in items[:_SHOWN]) + more
