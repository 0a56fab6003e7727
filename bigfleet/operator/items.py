"""What can wait in the lane of a machine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bigfleet.model.frames import MachineNews, ReclaimTarget

if TYPE_CHECKING:
    from bigfleet.operator.drains import Drain
    from bigfleet.operator.reclaims import ReclaimJob


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A frame about the machine; the newest one counts."""

    news: MachineNews
    arrived_s: float


@dataclass(frozen=True, slots=True)
class ReclaimItem:
    """The machine's node is to be emptied; never coalesced."""

    job: "ReclaimJob"
    target: ReclaimTarget


@dataclass(frozen=True, slots=True)
class DrainEndedItem:
    """The drain of the machine's node is over; `error` is empty when it succeeded."""

    drain: "Drain"
    error: str


@dataclass(frozen=True, slots=True)
class NodeSeenItem:
    """The machine's Node appeared or changed; the newest look counts."""


@dataclass(frozen=True, slots=True)
class OrphanItem:
    """The machine left while nobody looked; the object of this uid goes, or, without one, whichever it has by then."""

    uid: str = ""


Item = NewsItem | ReclaimItem | DrainEndedItem | NodeSeenItem | OrphanItem
NEWEST_ONLY = (NewsItem, NodeSeenItem)
