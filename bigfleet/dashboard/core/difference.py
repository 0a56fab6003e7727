"""Shortens the answer to a what-if for a page: one row for machines with the same change, and long lists end with a count.

Why: losing a zone of a large fleet moves a hundred thousand machines, too many to read, and an answer must not exceed a
megabyte. `bigfleet what-if -o json` has them all.
Must never: leave something out without giving the total.
Rules: `dashboard#what-if`, `dashboard#budgets`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

TableRow = Mapping[str, Any]  # a JSON object
NEEDS: Final = 300
GROUPS: Final = 200
IDS: Final = 5


def shown(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a comparison with its two lists cut, and their full sizes as `totals`."""
    needs, machines = comparison["needs"], comparison["machines"]
    groups = _groups(machines)
    return {
        **comparison,
        "needs": [_need(row) for row in needs[:NEEDS]],
        "machines": groups[:GROUPS],
        "totals": {"needs": len(needs), "machines": len(machines), "machine_rows": len(groups)},
    }


def _need(row: TableRow) -> dict[str, Any]:
    return {**row, **{name: _side(row[name]) for name in ("before", "after")}}


def _side(side: TableRow | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {**side, "machines": side["machines"][:IDS], "machine_count": len(side["machines"])}


def _groups(machines: Sequence[TableRow]) -> list[dict[str, Any]]:
    """Groups of similar machines with the same change, largest first."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for row in machines:
        before, after = _treated(row["before"]), _treated(row["after"])
        if before == after:  # it serves another need of the same cluster
            before, after = before + _need_numbers(row["before"]), after + _need_numbers(row["after"])
        shape = (row[name] for name in ("instance_type", "zone", "capacity_type", "price_per_hour"))
        key = (*shape, before, after)
        found.setdefault(key, []).append(row["machine"])
    names = ("instance_type", "zone", "capacity_type", "price_per_hour", "before", "after")
    rows = [
        {**dict(zip(names, key, strict=True)), "count": len(ids), "machines": ids[:IDS]}
        for key, ids in found.items()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["machines"]))


def _treated(side: TableRow | None) -> str:
    if side is None:
        return "not there"
    whose = f" for {side['cluster']}" if side["cluster"] else ""
    if side["action"]:
        return f"{side['action']}{whose}"
    return f"{side['state']}{whose}" if whose else f"{side['state']}, free"


def _need_numbers(side: TableRow | None) -> str:
    needs = side["needs"] if side is not None else []
    return f", need {', '.join(map(str, needs))}" if needs else ", no need"
