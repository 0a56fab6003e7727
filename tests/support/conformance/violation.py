"""What a planted violation is: a name, the behaviour that must notice it, and a model that commits it.

Must never: break more than its sentence says, as far as the contract's rules can be broken one by one.
Rules: `providers#self-check`, `providers#lies`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from bigfleet.provider.conformance.reference.model import ReferenceProvider


class Place(Enum):
    """Where the broken model is used."""

    TARGET = "as target, started process and fault endpoint"
    SELF = "as the kit's own provider in the self-tests"


@dataclass(frozen=True, slots=True)
class Violation:
    """One way to break the contract."""

    name: str
    breaks: str
    """The behaviour that must notice; others may too, see the table of implied ones."""
    meaning: str
    model: type[ReferenceProvider]
    place: Place


def violation(
    name: str, breaks: str, place: Place = Place.TARGET
) -> Callable[[type[ReferenceProvider]], Violation]:
    """Make a violation of a model class; its docstring is the meaning."""

    def make(model: type[ReferenceProvider]) -> Violation:
        return Violation(name, breaks, " ".join((model.__doc__ or "").split()), model, place)

    return make
