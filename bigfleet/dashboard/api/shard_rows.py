"""A shard in the API: its provider, problems, cool-offs and clusters, and machines of needs by how far they are.

Must never: return 0 for an unknown value; it returns null.
Rules: `dashboard#own-routes`, `dashboard#need-parts`, `dashboard#trouble-in-one-look`.
"""

from collections.abc import Mapping
from typing import Any

from bigfleet.dashboard.core.observed import ObservedCoverage, ObservedProvider, ShardPlace

Answer = Mapping[str, Any]


def shard_row(place: ShardPlace, now: float) -> Answer:
    """Return a shard; null where it does not answer, or does not report something."""
    seen = place.seen
    return {
        "shardId": place.shard_id,
        "error": place.error,
        "secondsSinceAnswer": None if place.answered_at is None else now - place.answered_at,
        "cycle": seen and seen.cycle,
        "ready": seen and seen.ready,
        "needs": seen and seen.needs,
        "needsShort": seen and seen.uncovered,
        "coverage": coverage_row(seen.coverage) if seen else None,
        "problems": [
            {"kind": row.kind, "text": row.text, "forSeconds": row.for_s}
            for row in (seen.problems if seen else ())
        ],
        "provider": _provider(seen.provider_address, seen.provider) if seen and seen.provider else None,
        "coolOffs": [
            {
                "instanceType": row.instance_type,
                "zone": row.zone,
                "capacityType": row.capacity_type,
                "error": row.error,
                "failures": row.failures,
                "nextAttemptInSeconds": row.next_attempt_in_s,
                "machines": row.machines,
            }
            for row in (seen.cool_offs if seen else ())
        ],
        "clusters": [
            {
                "cluster": row.cluster,
                "connected": row.connected,
                "heldRollups": row.held_rollups,
                "machines": row.machines,
                "coverage": coverage_row(row.coverage),
            }
            for row in (seen.clusters if seen else ())
        ],
    }


def _provider(address: str, provider: ObservedProvider) -> Answer:
    return {
        "address": address,
        "reachable": provider.reachable,
        "unreachableForSeconds": provider.unreachable_for_s,
        "lastError": provider.last_error,
        "nextProbeInSeconds": provider.next_probe_in_s,
        "heldOffActions": provider.held_off_actions,
        "secondsSinceListing": provider.listing_age_s,
        "listingDoubtedForSeconds": provider.doubted_for_s,
        "listingMissingMachines": provider.doubted_missing,
    }


def coverage_row(coverage: ObservedCoverage | None) -> Answer | None:
    """Return the machines of needs by how far they are; None when that is not known."""
    if coverage is None:
        return None
    return {
        "running": coverage.running,
        "joining": coverage.joining,
        "onOrder": coverage.on_order,
        "wanted": coverage.wanted,
        "missing": coverage.missing.texts(),
    }
