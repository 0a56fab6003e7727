"""Which objects of ours have nothing behind them any more.

Why: machines leave while the operator is away, and nobody tells it; their objects would stay for ever.
Must never: delete many at once on the word of one session, sweep what a person has to look at, or touch a running drain.
Rules: operator 6.5 and 7.1, decision S8, ADR-0074.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from bigfleet.operator.core.views import UpcomingView

PATIENCE_S: Final = 600.0
_FEW: Final = 10
_SHARE: Final = 0.2
_SWEPT_WITHOUT_MARKER: Final = ("Provisioning", "Launched", "Draining", "Drained")


def unnamed(
    upcoming: Iterable[UpcomingView],
    *,
    since: Collection[str],
    named: Collection[str],
    draining: Collection[str],
) -> list[UpcomingView]:
    """Return the objects that were there when the session began and that none of its frames spoke of."""
    found = [
        view
        for view in upcoming
        if view.uid in since and view.machine_id not in named and view.machine_id not in draining
    ]
    return sorted(found, key=lambda view: view.name)


def is_too_many(orphans: int, total: int) -> bool:
    """Tell whether so many orphans look like a shard that lost its memory rather than machines that left."""
    return orphans > _FEW and orphans > _SHARE * total


def without_marker(
    orphans: Iterable[UpcomingView], node_exists: Callable[[UpcomingView], bool]
) -> list[UpcomingView]:
    """Return those that may go on silence alone, since an old shard never says that it has told everything."""
    return [view for view in orphans if view.phase in _SWEPT_WITHOUT_MARKER and not node_exists(view)]
