"""Profiles: the constraints a machine must meet and what its workload is worth, and their fingerprint.

Why: needs with equal profiles are one row of demand, and machines are stamped with the profile they were obtained
for; both rest on one canonical form and its text.
Must never: hold resource amounts (ADR-0027), a cluster or a group.
Rules: `engine#profile`, `engine#fingerprint`. The fingerprint's layout is contract (`engine#fingerprint`, ADR-0089).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from bigfleet.model.buckets import PINNED, ZERO_DOLLARS, PenaltyBucket

INSTANCE_TYPE_KEY = "node.kubernetes.io/instance-type"
ZONE_KEY = "topology.kubernetes.io/zone"
HOST_NAME_KEY = "kubernetes.io/hostname"
"""Every machine has a value for it, if need be its id (`engine#hostname-domain`)."""


class RequirementOperator(IntEnum):
    """How a requirement judges a label; the numbers are the wire's and part of the fingerprint."""

    UNSPECIFIED = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    DOES_NOT_EXIST = 4
    SAME = 5


OPERATOR_WORDS = {
    RequirementOperator.IN: "In",
    RequirementOperator.NOT_IN: "NotIn",
    RequirementOperator.EXISTS: "Exists",
    RequirementOperator.DOES_NOT_EXIST: "DoesNotExist",
    RequirementOperator.SAME: "Same",
}
"""The operators as custom resources and bootstrap templates word them."""


class WhenUnsatisfiable(IntEnum):
    """Whether a spread binds the engine; only DO_NOT_SCHEDULE does."""

    UNSPECIFIED = 0
    DO_NOT_SCHEDULE = 1
    SCHEDULE_ANYWAY = 2


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One label key, how to judge it, and the values to judge it by; values are kept sorted."""

    key: str
    operator: RequirementOperator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(self.values)))


@dataclass(frozen=True, slots=True, order=True)
class Spread:
    """How evenly the machines of a need must be spread over the values of one topology key."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.DO_NOT_SCHEDULE


@dataclass(frozen=True, slots=True)
class Profile:
    """Requirements and spreads in canonical order, priority and the two penalty buckets.

    What follows from them is made at once: it is asked for in every cycle, and slots take a fourth of what a dict for it takes.
    """

    requirements: tuple[Requirement, ...] = ()
    spreads: tuple[Spread, ...] = ()
    priority: int = 0
    interruption_bucket: PenaltyBucket = field(default=ZERO_DOLLARS)
    reclamation_bucket: PenaltyBucket = field(default=ZERO_DOLLARS)
    fingerprint: str = field(init=False, compare=False, repr=False)
    """A text that is equal exactly when the canonical profiles are equal."""
    requirements_text: str = field(init=False, compare=False, repr=False)
    """The requirements' part of the fingerprint: equal exactly when the requirements are."""
    precedence: tuple[int, int, int] = field(init=False, compare=False, repr=False)
    """Who outranks whom when both want one machine; larger wins, equal ones never outrank each other."""
    same_key: str | None = field(init=False, compare=False, repr=False)
    """The key whose value all machines of a gang share; the smallest if there are several."""
    pinned_types: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """The instance types the profile is limited to, each once; empty when it is not limited."""
    _without_same: "Profile | None" = field(init=False, compare=False, repr=False, default=None)

    def __post_init__(self) -> None:
        # The last sort keys, values and skew, are not in the original, whose order was then left to chance
        # (`engine#profile`).
        object.__setattr__(self, "requirements", tuple(sorted(self.requirements)))
        object.__setattr__(self, "spreads", tuple(sorted(self.spreads)))
        object.__setattr__(self, "requirements_text", _requirements_text(self.requirements))
        object.__setattr__(self, "fingerprint", _fingerprint(self))
        precedence = (self.priority, self.interruption_bucket, self.reclamation_bucket)
        object.__setattr__(self, "precedence", precedence)
        object.__setattr__(self, "same_key", _same_key(self.requirements))
        object.__setattr__(self, "pinned_types", _pinned_types(self.requirements))

    @property
    def refuses_interruptible(self) -> bool:
        """Whether an interruption costs this work without end, so that no interruptible machine is obtained for it."""
        return self.interruption_bucket == PINNED

    @property
    def without_same(self) -> "Profile":
        """The profile of a gang that fits on one machine, so no domain has to be chosen (ADR-0041)."""
        made = self._without_same  # made on first use, as few profiles are those of gangs
        if made is None:
            made = replace(self, requirements=_kept(self.requirements))
            object.__setattr__(self, "_without_same", made)
        return made


def _requirements_text(requirements: Iterable[Requirement]) -> str:
    return "".join(
        f"{_escaped(item.key)}:{int(item.operator)}:{_joined(item.values)};" for item in requirements
    )


def _fingerprint(profile: Profile) -> str:
    spreads = "".join(
        f"{_escaped(item.topology_key)}:{item.max_skew}:{int(item.when_unsatisfiable)};"
        for item in profile.spreads
    )
    return (
        f"p={profile.priority}|ipb={profile.interruption_bucket}|rpb={profile.reclamation_bucket}"
        f"|reqs={profile.requirements_text}|spr={spreads}"
    )


def _same_key(requirements: Iterable[Requirement]) -> str | None:
    return next((item.key for item in requirements if item.operator is RequirementOperator.SAME), None)


def _pinned_types(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    first = next((item for item in requirements if item.key == INSTANCE_TYPE_KEY), None)
    if first is None or first.operator is not RequirementOperator.IN:
        return ()
    return tuple(dict.fromkeys(first.values))


def _kept(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(item for item in requirements if item.operator is not RequirementOperator.SAME)


# No label that Kubernetes accepts contains one of these, so for every legal profile the text is the original's.
_ESCAPES = str.maketrans({character: f"%{ord(character):02X}" for character in "%,;:|"})


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _joined(values: tuple[str, ...]) -> str:
    if values == ("",):
        return "%"  # else a list of one empty text would read like an empty list
    return ",".join(map(_escaped, values))
