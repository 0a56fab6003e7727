"""A behaviour: an id that never changes, one sentence, steps for people, and the code that checks it.

Why: `--list`, `--show`, reports and the verdict all read the same object that runs, so none of them can lie.
Must never: reuse or renumber an id; ids are frozen (`providers#observation`).

The sentence is the first line of the function's docstring, the steps are the rest of it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from inspect import cleandoc

from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.settings import ConformanceProfile


class Lane(StrEnum):
    """Where a behaviour runs, and how its result counts."""

    BASELINE = "baseline"
    EXTENSION = "extension"
    FAULT = "fault"
    DURABLE = "durable"
    SCALE = "scale"
    SELF_TEST = "self-test"
    EXTRA = "extra"


class Prerequisite(Enum):
    """What a behaviour cannot do without; the value says so to people."""

    CURSOR = "a revision that moves"
    DELETE = "Delete to be offered"
    START = "--start, so that the kit owns the process"
    SUBSTRATE = "--substrate, so that the kit can reach below the provider"
    LONG = "--extra or --only, as it takes long"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One row of the table."""

    id: str
    name: str
    meaning: str
    steps: str
    lane: Lane
    profiles: tuple[ConformanceProfile, ...]
    needs: tuple[Prerequisite, ...]
    bare_metal: bool
    check: Callable[[BehaviourContext], Awaitable[None]]

    @property
    def title(self) -> str:
        """The id, with the original's name where it has one."""
        return f"{self.id} {self.name}" if self.name else self.id

    @property
    def counts_for(self) -> str:
        """Profiles and lane in one word for listings."""
        profiles = ",".join(self.profiles)
        return f"{profiles}/{self.lane}" if profiles and profiles != self.lane else str(self.lane)


_Check = Callable[[BehaviourContext], Awaitable[None]]


def behaviour(
    id: str,  # noqa: A002  the column of the table
    name: str = "",
    *,
    lane: Lane = Lane.EXTENSION,
    profiles: tuple[ConformanceProfile, ...] = (ConformanceProfile.CORE,),
    needs: tuple[Prerequisite, ...] = (),
    bare_metal: bool = True,
) -> Callable[[_Check], Behaviour]:
    """Make a behaviour of a function; `bare_metal` is False for what needs a slot, Create or Delete."""

    def make(check: _Check) -> Behaviour:
        meaning, _, steps = cleandoc(check.__doc__ or "").partition("\n\n")
        return Behaviour(id, name, " ".join(meaning.split()), steps, lane, profiles, needs, bare_metal, check)

    return make
