"""The words of the loop for fragments: what it is told of a cluster, what it answers, and its times.

Rules: `operator#fragments`; ADR-0269, ADR-0270.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.model.frozen_map import NO_TEXTS
from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.holds import Hold
from bigfleet.operator.core.rooms import Row, Workload

ANSWER_S: Final = 60.0
"""How long a raise may take to bring a machine, that is to say an UpcomingNode."""
ON_ITS_WAY_S: Final = 900.0
"""How long a machine on its way is waited for; after that it counts no more."""
PATIENCE: Final = 10.0
"""Times `stuck_after_s`: a pod is stuck after so long even if new nodes keep joining."""
KEEP_S: Final = 300.0
"""How long machines for fragments are kept at least."""
LONGEST_KEEP_S: Final = 4 * 3600.0
BETWEEN_RELEASES_S: Final = 60.0
WRONG_WITHIN_S: Final = 600.0
"""How soon after a release a stuck pod of the row says that it was wrong."""
NOT_BOUGHT: Final = Hold(first_s=60.0, longest_s=1800.0)
"""Before asking again for pods for which no machine came."""
NO_HELP: Final = Hold(first_s=300.0, longest_s=4 * 3600.0)
"""Before asking again for pods that a new machine did not help."""
Class = tuple[Row | None, str]  # the pods of one row and one owner


class Why(StrEnum):
    """Why nothing more is asked for a stuck pod; the values are labels of the metric."""

    YOUNG = "young"
    NO_REQUEST = "no_request"
    ON_ITS_WAY = "on_its_way"
    SHORT = "short"
    ELSEWHERE = "no_fragment"
    HELD = "held"
    LIMITED = "limited"
    ASKED = "asked"


WORDS: Final[Mapping[Why, str]] = {
    Why.YOUNG: "not stuck for long enough",
    Why.NO_REQUEST: "no CapacityRequest names the pod",
    Why.ON_ITS_WAY: "a machine is on its way",
    Why.SHORT: "the shard has not yet covered the demand of the row",
    Why.ELSEWHERE: "a machine with room for the pod is there, so another one would not help",
    Why.HELD: "a machine that was asked for did not come or did not help, it is asked for again later",
    Why.LIMITED: "the share of the demand for fragments is used up",
    Why.ASKED: "machines for it are asked for",
}


@dataclass(frozen=True, slots=True)
class FragmentRules:
    """The settings of the loop."""

    stuck_after_s: float = 30.0
    share: float = 0.25


@dataclass(frozen=True, slots=True)
class RowDemand:
    """What a row asks for by its requests."""

    total: Resources
    unit: Resources
    counted: Resources = ZERO
    """What a machine counts as at most, by a limit of units per machine; zero for no limit."""
    least: Resources | None = None
    """What every machine that counts must hold, where it is less than the unit: of rows that differ in their limit only."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod of which the scheduler says that no node takes it."""

    uid: str
    workload: Workload
    since_s: float


@dataclass(frozen=True, slots=True)
class Coming:
    """A machine on its way into the cluster."""

    machine_id: str
    labels: Mapping[str, str] = NO_TEXTS
    offers: Resources = ZERO
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Extra:
    """What a row asks for on top of its sum."""

    machines: int
    size: Resources
    """What one machine counts as."""
    for_fragments: bool
    """Whether it is a row of its own; a gang has it added to its own total."""

    @property
    def total(self) -> Resources:
        """What all of them count as."""
        return self.size.scaled(self.machines)


@dataclass(frozen=True, slots=True)
class FragmentsAnswer:
    """What is asked for on top of the demand, why no more, and when to look again at the latest."""

    extra: Mapping[Row, Extra]
    stuck: Mapping[Why, int]
    look_again_s: float


def order_of(row: Row) -> tuple[int, str, str]:
    """Sort key of rows: by falling priority."""
    return (-row.profile.priority, row.profile.fingerprint, row.group)
