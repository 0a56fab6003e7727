"""Which UpcomingNodes are orphans: their machine has left.

Must never: select many at once because of one session, what a person has to look at, or a machine whose drain is running.
Rules: `operator#sweep-with-marker`, `operator#hint-writes`, `shard#resync`; ADR-0074.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from bigfleet.operator.core.views import UpcomingNodeView

PATIENCE_S: Final = 600.0
_FEW: Final = 10
_SHARE: Final = 0.2
_SWEPT_WITHOUT_MARKER: Final = ("Provisioning", "Launched", "Draining", "Drained")


def unnamed(
    upcoming: Iterable[UpcomingNodeView],
    *,
    since: Collection[str],
    named: Collection[str],
    draining: Collection[str],
) -> list[UpcomingNodeView]:
    """Return the objects that existed when the session began and that none of its node states names."""
    found = [
        view
        for view in upcoming
        if view.uid in since and view.machine_id not in named and view.machine_id not in draining
    ]
    return sorted(found, key=lambda view: view.name)


def is_too_many(orphans: int, total: int) -> bool:
    """Return whether this many orphans look like a shard that lost its state rather than machines that left."""
    return orphans > _FEW and orphans > _SHARE * total


def without_marker(
    orphans: Iterable[UpcomingNodeView], node_exists: Callable[[UpcomingNodeView], bool]
) -> list[UpcomingNodeView]:
    """Return the orphans that may be deleted without an end marker, which an old shard never sends."""
    return [view for view in orphans if view.phase in _SWEPT_WITHOUT_MARKER and not node_exists(view)]
