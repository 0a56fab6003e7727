"""The safety rails: limits on how much of a decision one cycle carries out.

Why: an engine defect, a wiped cache or a forged roll-up could otherwise release a whole fleet within minutes.
Must never: reorder or add an action, or cap anything but Reclaims and the total.
Rules: `shard#reclaim-cap`, `shard#cycle-order`; ADR-0046.
"""

from collections.abc import Callable, Sequence
from math import floor

from bigfleet.model.action import Action, ActionKind


def cap_reclaims(
    actions: Sequence[Action],
    fraction: float,
    configured: Callable[[str], int],
    pending: Callable[[str], int] = lambda _cluster: 0,
) -> tuple[list[Action], int]:
    """The actions without the Reclaims beyond each cluster's cap, and how many were left out; a fraction of 0 is no cap.

    `configured` returns how many Configured machines a cluster has in the snapshot of this cycle, `pending` how many Reclaims
    of earlier cycles the provider has not answered: they would otherwise pile up behind a slow provider.
    """
    if fraction <= 0:
        return list(actions), 0
    left: dict[str, int] = {}
    kept: list[Action] = []
    for action in actions:
        if action.kind is ActionKind.RECLAIM:
            cluster = action.cluster or ""
            if cluster not in left:
                left[cluster] = max(1, floor(fraction * configured(cluster))) - pending(cluster)
            if left[cluster] <= 0:
                continue
            left[cluster] -= 1
        kept.append(action)
    return kept, len(actions) - len(kept)


def cap_actions(actions: Sequence[Action], limit: int) -> tuple[Sequence[Action], int]:
    """The first actions up to the limit, and how many are deferred; 0 is no limit."""
    if limit <= 0 or len(actions) <= limit:
        return actions, 0
    return actions[:limit], len(actions) - limit
