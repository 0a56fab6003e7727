"""Rows of the API: converts messages of a shard to JSON objects.

Must never: write NaN or an infinity as a number; the compatible routes use 0 there, ours use words.
Rules: `dashboard#compatible-routes`, `dashboard#own-routes`.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from bigfleet.dashboard.json_text import JsonText, write
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.v1alpha1 import capacity_pb2 as capacity
from bigfleet.v1alpha1 import shardread_pb2 as read

_OPERATORS: Final = {
    capacity.NodeSelectorRequirement.OPERATOR_IN: "In",
    capacity.NodeSelectorRequirement.OPERATOR_NOT_IN: "NotIn",
    capacity.NodeSelectorRequirement.OPERATOR_EXISTS: "Exists",
    capacity.NodeSelectorRequirement.OPERATOR_DOES_NOT_EXIST: "DoesNotExist",
    capacity.NodeSelectorRequirement.OPERATOR_SAME: "Same",
}
_WHENS: Final = {
    capacity.TopologySpread.WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE: "DoNotSchedule",
    capacity.TopologySpread.WHEN_UNSATISFIABLE_SCHEDULE_ANYWAY: "ScheduleAnyway",
}
_BUCKETS: Final = {
    value.number: value.name.removeprefix("PENALTY_BUCKET_")
    for value in capacity.PenaltyBucket.DESCRIPTOR.values
}
_REASONS: Final = {
    value.number: value.name.removeprefix("UNMET_REASON_") for value in read.UnmetReason.DESCRIPTOR.values
}
TableRow = dict[str, Any]  # a JSON object


def need_row(view: read.NeedView) -> TableRow:
    """Return a need as the original's page reads it, and what is ours, which `compatible` leaves out.

    An answer may have two thousand of them, so each part of the message is read once, and empty parts are skipped.
    """
    need, supply, preemption = view.need, view.matching_supply, view.preemption
    return {
        "clusterId": view.cluster_id,
        "priority": need.priority,
        "aggregateResources": _map(need.aggregate_resources),
        "minUnit": _map(need.min_unit),
        "group": need.group,
        "requirements": [_requirement(row) for row in need.requirements] if need.requirements else [],
        "spread": [_spread(row) for row in need.spread] if need.spread else [],
        "interruptionPenaltyBucket": _BUCKETS.get(need.interruption_penalty_bucket, "UNSPECIFIED"),
        "reclamationPenaltyBucket": _BUCKETS.get(need.reclamation_penalty_bucket, "UNSPECIFIED"),
        "satisfied": view.satisfied,
        "residualDeficit": _map(view.residual_deficit.resources),
        "claimedMachineCount": view.claimed_machine_count,
        "bootstrapCount": view.bootstrap_count,
        "provisionCount": view.provision_count,
        "sameDomain": view.same_domain,
        "sameSatisfiable": view.same_satisfiable,
        "acquisitionParked": view.acquisition_parked,
        "parkedAgeCycles": view.parked_age_cycles,
        "ageCyclesUnmet": view.age_cycles_unmet,
        "unmetReason": _REASONS.get(view.unmet_reason, "UNSPECIFIED"),
        "arrivalUnixNanos": view.arrival_unix_nanos,
        "profileFingerprint": view.profile_fingerprint,
        "matchingSupply": {
            "idle": supply.idle,
            "configured": supply.configured,
            "speculative": supply.speculative,
            "capped": supply.capped,
        },
        "preemption": {
            "victimsFound": preemption.victims_found,
            "capacityFreed": _map(preemption.capacity_freed.resources),
        },
        "sameCandidates": [_candidate(row) for row in view.same_candidates] if view.same_candidates else [],
        "maxUnitsPerMachine": need.max_units_per_machine,
        "forFragments": need.for_fragments,
        "coverage": _coverage(view.coverage) if view.HasField("coverage") else None,
    }


_OURS: Final = frozenset({"maxUnitsPerMachine", "forFragments", "coverage"})


def compatible(row: Mapping[str, Any]) -> TableRow:
    """Return a need with the keys of the original's page alone."""
    return {name: value for name, value in row.items() if name not in _OURS}


def exported_need(row: Mapping[str, Any]) -> TableRow:
    """Return a need with its coverage as columns; None where a shard does not report it."""
    parts = row["coverage"] or {}
    names = ("running", "joining", "onOrder", "wanted", "missing", "heldOff")
    return {**row, **{name: parts.get(name) for name in names}}


def _coverage(row: read.NeedCoverage) -> TableRow:
    return {
        "running": row.running,
        "joining": row.joining,
        "onOrder": row.on_order,
        "wanted": row.wanted,
        "missing": _map(row.missing.resources),
        "heldOff": row.held_off,
        "waitingSeconds": row.waiting_seconds,
    }


def _requirement(row: capacity.NodeSelectorRequirement) -> TableRow:
    operator = _OPERATORS.get(row.operator, "Unspecified")
    return {"key": row.key, "operator": operator, "values": list(row.values)}


def _spread(row: capacity.TopologySpread) -> TableRow:
    when = _WHENS.get(row.when_unsatisfiable, "Unspecified")
    return {"topologyKey": row.topology_key, "maxSkew": row.max_skew, "whenUnsatisfiable": when}


def _candidate(row: read.DomainCoverage) -> TableRow:
    return {
        "domain": row.domain,
        "coveragePerMille": row.coverage_per_mille,
        "satisfiable": row.satisfiable,
    }


LEAST_NEED_BYTES: Final = 550
"""The smallest size of a need in JSON; most of it is key names."""


def fitting(rows: Sequence[Mapping[str, Any]], most_bytes: int) -> JsonText:
    """Return the JSON of the first needs that fit into so many bytes, in the form of the original."""
    left, kept = most_bytes, list[str]()
    for row in rows:
        text = write(compatible(row))
        left -= (len(text) if text.isascii() else len(text.encode())) + 1
        if left < 0:
            break
        kept.append(text)
    return JsonText(f"[{','.join(kept)}]")


def machine_row(row: pb.MachineRow) -> TableRow:
    """Return a machine."""
    assigned = row.assigned
    return {
        "id": row.id,
        "state": row.state,
        "host": {"provider": row.host_provider, "ref": row.host_ref}
        if row.host_ref or row.host_provider
        else None,
        "cluster": row.cluster,
        "instanceType": row.instance_type,
        "zone": row.zone,
        "capacityType": row.capacity_type,
        "capacity": _map(row.capacity),
        "labels": _map(row.labels),
        "pricePerHour": row.price_per_hour,
        "interruptionProbability": row.interruption_probability,
        "assigned": {
            "priority": assigned.priority,
            "interruptionPenalty": dollars(assigned.interruption_penalty),
            "reclamationPenalty": dollars(assigned.reclamation_penalty),
            "fingerprint": assigned.fingerprint,
            "group": assigned.group,
            "cluster": assigned.cluster,
        }
        if row.HasField("assigned")
        else None,
        "drainingFor": _need_key(row.draining_for) if row.HasField("draining_for") else None,
        "drainGraceRemainingSeconds": row.drain_grace_remaining_seconds,
        "idleSinceUnixNanos": row.idle_since_unix_nanos,
        "lastError": row.last_error,
        "pending": row.pending,
    }


def decision_row(shard_id: str, row: pb.ListDecisionsResponse) -> TableRow:
    """Return an action and its outcome."""
    return {
        "shardId": shard_id,
        "sequence": row.sequence,
        "atUnixNanos": row.at_unix_nanos,
        "cycle": row.cycle,
        "kind": row.kind,
        "machine": row.machine,
        "cluster": row.cluster,
        "reason": row.reason,
        "graceSeconds": row.grace_seconds,
        "outcome": row.outcome,
        "decidedCycle": row.decided_cycle or None,
        "error": row.error,
    }


def transition_row(row: pb.Transition) -> TableRow:
    """Return a change of a machine's state."""
    return {"atUnixNanos": row.at_unix_nanos, "before": row.before, "after": row.after, "cause": row.cause}


def dollars(value: float) -> float | str:
    """Return an amount; an infinite one is a word, as JSON has no infinity."""
    return value if isfinite(value) else "pinned"


def _need_key(key: pb.NeedKey) -> TableRow:
    return {"cluster": key.cluster, "fingerprint": key.fingerprint, "group": key.group}


def _map(values: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(values.items())) if values else {}
