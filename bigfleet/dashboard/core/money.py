"""Cost of the fleet, and work at risk on interruptible machines.

Must never: present demand rows as machines; the gauge counts rows.
Rules: `dashboard#compatible-routes`, `dashboard#page-contents`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

TYPES: Final = ("BareMetal", "Reserved", "OnDemand", "Spot")
PINNED: Final = "pinned"
_HIGH: Final = 1024.0
"""Dollars from which work on spot machines is worth a warning."""


def finops(
    inventory: Mapping[tuple[str, ...], float],
    demand: Mapping[tuple[str, ...], float],
    action_rates: Mapping[str, float],
) -> dict[str, Any]:
    """Return the answer of `/finops/snapshot` from machines by (state, capacity type, bucket) and demand by bucket."""
    configured: dict[str, dict[str, int]] = {}
    idle: dict[str, int] = {}
    for (state, kind, bucket), count in inventory.items():
        if state == "Configured":
            row = configured.setdefault(kind, {})
            row[bucket] = row.get(bucket, 0) + round(count)
        elif state == "Idle":
            idle[kind] = idle.get(kind, 0) + round(count)
    by_type = {kind: sum(row.values()) for kind, row in configured.items()}
    by_bucket: dict[str, int] = {}
    for row in configured.values():
        for bucket, number in row.items():
            by_bucket[bucket] = by_bucket.get(bucket, 0) + number
    wanted = {bucket: round(rows) for (bucket,), rows in demand.items()}
    whole = sum(by_type.values())
    return {
        "totals": {
            "configuredMachines": whole,
            "idleMachines": sum(idle.values()),
            "demandMachines": sum(wanted.values()),
            "spotConfiguredFraction": by_type.get("Spot", 0) / whole if whole else 0.0,
            "pinnedConfiguredFraction": by_bucket.get(PINNED, 0) / whole if whole else 0.0,
        },
        "capacityTypes": in_order(TYPES, {*configured, *idle}),
        "buckets": sorted({*by_bucket, *wanted}, key=bucket_order),
        "configuredByCapacityType": by_type,
        "idleByCapacityType": idle,
        "configured": configured,
        "configuredByBucket": by_bucket,
        "demand": wanted,
        "actionRatesPerSec": dict(action_rates),
        "redFlags": red_flags(configured.get("Spot", {})),
    }


def red_flags(spot: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return warnings about work on spot machines, by penalty bucket."""
    flags = []
    for bucket, number in sorted(spot.items(), key=lambda row: bucket_order(row[0]), reverse=True):
        severity = "critical" if bucket == PINNED else "warning" if bucket_order(bucket)[0] >= _HIGH else ""
        if severity and number:
            worth = (
                "must not be interrupted" if bucket == PINNED else f"loses up to ${bucket} when interrupted"
            )
            message = f"{number} spot machines carry work that {worth}"
            flags.append(
                {
                    "severity": severity,
                    "capacityType": "Spot",
                    "bucket": bucket,
                    "count": number,
                    "message": message,
                }
            )
    return flags


def bucket_order(bucket: str) -> tuple[float, str]:
    """Order buckets by their dollars; pinned comes last, names that are not numbers first."""
    if bucket == PINNED:
        return (float("inf"), bucket)
    try:
        return (float(bucket), bucket)
    except ValueError:
        return (-1.0, bucket)


def in_order(first: Iterable[str], names: set[str]) -> list[str]:
    """Return known names in their own order, then the others by name."""
    known = list(first)
    return [name for name in known if name in names] + sorted(names - set(known))
