"""Profiles: the constraints a machine must meet and what its workload is worth, and their fingerprint.

Why: needs with equal profiles are one row of demand, and machines are stamped with the profile they were obtained
for; both rest on one canonical form and its text.
Must never: hold resource amounts (ADR-0027), a cluster or a group.
Rules: `engine#profile`, `engine#fingerprint`. The fingerprint's layout is contract (`engine#fingerprint`, ADR-0089).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

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


@dataclass(frozen=True)  # no slots: the fingerprint is made once and kept
class Profile:
    """Requirements and spreads in canonical order, priority and the two penalty buckets."""

    requirements: tuple[Requirement, ...] = ()
    spreads: tuple[Spread, ...] = ()
    priority: int = 0
    interruption_bucket: PenaltyBucket = field(default=ZERO_DOLLARS)
    reclamation_bucket: PenaltyBucket = field(default=ZERO_DOLLARS)

    def __post_init__(self) -> None:
        # The last sort keys, values and skew, are not in the original, whose order was then left to chance
        # (`engine#profile`).
        object.__setattr__(self, "requirements", tuple(sorted(self.requirements)))
        object.__setattr__(self, "spreads", tuple(sorted(self.spreads)))

    @cached_property
    def fingerprint(self) -> str:
        """A text that is equal exactly when the canonical profiles are equal."""
        spreads = "".join(
            f"{_escaped(item.topology_key)}:{item.max_skew}:{int(item.when_unsatisfiable)};"
            for item in self.spreads
        )
        return (
            f"p={self.priority}|ipb={self.interruption_bucket}|rpb={self.reclamation_bucket}"
            f"|reqs={self.requirements_text}|spr={spreads}"
        )

    @cached_property
    def requirements_text(self) -> str:
        """The requirements' part of the fingerprint: equal exactly when the requirements are."""
        return "".join(
            f"{_escaped(item.key)}:{int(item.operator)}:{_joined(item.values)};" for item in self.requirements
        )

    @cached_property
    def precedence(self) -> tuple[int, int, int]:
        """Who outranks whom when both want one machine; larger wins, equal ones never outrank each other."""
        return (self.priority, self.interruption_bucket, self.reclamation_bucket)

    @cached_property
    def same_key(self) -> str | None:
        """The key whose value all machines of a gang share; the smallest if there are several."""
        return next(
            (item.key for item in self.requirements if item.operator is RequirementOperator.SAME), None
        )

    @cached_property
    def pinned_types(self) -> tuple[str, ...]:
        """The instance types the profile is limited to, each once; empty when it is not limited."""
        first = next((item for item in self.requirements if item.key == INSTANCE_TYPE_KEY), None)
        if first is None or first.operator is not RequirementOperator.IN:
            return ()
        return tuple(dict.fromkeys(first.values))

    @cached_property
    def refuses_interruptible(self) -> bool:
        """Whether an interruption costs this work without end, so that no interruptible machine is obtained for it."""
        return self.interruption_bucket == PINNED

    @cached_property
    def without_same(self) -> "Profile":
        """The profile of a gang that fits on one machine, so no domain has to be chosen (ADR-0041)."""
        return replace(self, requirements=_kept(self.requirements))


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
