"""Which need or machine somebody means: a need by its number in the document, or by cluster and group.

Must never: guess between two; what fits several is refused with those it fits.
"""

from bigfleet.explain.case import Case
from bigfleet.model.errors import InvalidFieldError

_SHOWN = 8
_CHARACTERS = 80


class AmbiguousNeedError(InvalidFieldError):
    """A text names several needs."""


def find_need(case: Case, text: str, field: str) -> int:
    """The place of the need that a text names, `3` or `train` or `train/llm-7`; `field` is how a refusal calls it."""
    count = len(case.document.places)
    if text.isascii() and text.isdigit():
        if len(text) < 10 and int(text) < count:  # longer ones are no number of anything
            return case.place_of(int(text))
        allowed = f"a number from 0 to {count - 1}" if count else "nothing, as there is no need"
        raise InvalidFieldError(field, _clipped(text), allowed)
    cluster, slash, group = text.partition("/")  # a group may have a slash, a cluster has none
    by_place = dict(zip(case.document.places, case.document.situation.needs, strict=True))
    found = [
        number
        for number, need in sorted(by_place.items())
        if need.cluster == text or (slash and need.cluster == cluster and need.group == group)
    ]
    places = sorted({case.place_of(number) for number in found})
    if len(places) == 1:
        return places[0]
    if found:
        raise AmbiguousNeedError(
            field, _clipped(text), f"the number of one of the needs it names: {_some(found)}"
        )
    if not by_place:
        raise InvalidFieldError(field, _clipped(text), "nothing, as there is no need")
    names = sorted(
        {f"{need.cluster}/{need.group}" if need.group else need.cluster for need in by_place.values()}
    )
    raise InvalidFieldError(field, _clipped(text), f"the number of a need, or one of {_some(names)}")


def known_machine(case: Case, machine_id: str, field: str) -> str:
    """The id of a machine that is there."""
    if machine_id in case.machines:
        return machine_id
    near = sorted(known for known in case.machines if known.startswith(machine_id)) or sorted(case.machines)
    allowed = f"the id of a machine: {_some(near)}" if near else "nothing, as there is no machine"
    raise InvalidFieldError(field, _clipped(machine_id), allowed)


def _clipped(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def _some(items: list[int] | list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(_clipped(str(item)) for item in items[:_SHOWN]) + more
