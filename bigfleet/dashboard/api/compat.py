"""The routes of the original's dashboard, key for key, so that its page works with this server.

Must never: add, drop or rename a key. An unknown number is 0 here, as in the original; our own routes and pages say
"unknown" instead.
Rules: `dashboard#compatible-routes`, `dashboard#metrics-contract`.
"""

import asyncio
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from bigfleet.dashboard import metric_reader as names
from bigfleet.dashboard.core.money import finops
from bigfleet.dashboard.core.need_list import NeedListQuery
from bigfleet.dashboard.core.observed import ObservedCoordinator, ObservedReport
from bigfleet.dashboard.fleet_sources import FleetSources
from bigfleet.dashboard.metric_reader import MetricReader
from bigfleet.dashboard.parameters import ParameterError, Parameters
from bigfleet.dashboard.rows import LEAST_NEED_BYTES, fitting
from bigfleet.dashboard.sources import SourceError, SourceProblem, not_wired
from bigfleet.model.times import rfc3339_of_s

Answer = Mapping[str, Any]
_POD: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")
_P99: Final = 0.99
_MAX_RANGE_S: Final = 86_400.0
_MAX_STEP_S: Final = 3_600.0
_MAX_POINTS: Final = 1_440
"""A step that would give more points is lengthened: an answer stays small, and the event loop free."""
_ALIVE_S: Final = 120.0
_NEEDS_BYTES: Final = 1_000_000 - 1_000
"""For the rows; the rest of the answer is small."""
_NEEDS_AT_MOST: Final = _NEEDS_BYTES // LEAST_NEED_BYTES
"""More rows than these never fit, so the dashboard does not ask a shard for more."""


async def health(_fleet: FleetSources, _given: Parameters) -> Answer:
    """Report that the dashboard is up."""
    return {"status": "ok"}


async def config(fleet: FleetSources, _given: Parameters) -> Answer:
    """Report which sources are configured."""
    wiring = fleet.wiring
    return {
        "grafanaUrl": wiring.grafana_url,
        "prometheusWired": wiring.metrics,
        "coordinatorWired": wiring.coordinator,
        "kubeconfigWired": wiring.clusters,
    }


async def overview(fleet: FleetSources, _given: Parameters) -> Answer:
    """Summarise the fleet."""
    reader = fleet.metric_reader()
    by_state = await reader.sums(names.INVENTORY, ("state",))
    alive = await reader.rates(f"{names.CYCLE}_count", ("pod",), _ALIVE_S)
    p99 = await reader.quantiles(names.CYCLE, ("pod",), _P99)
    return {
        "shards": sum(rate > 0 for rate in alive.values()),
        "clusters": _whole(await reader.sums(names.SESSIONS, ())),
        "machines": round(sum(by_state.values())),
        "machinesByState": {state: round(count) for (state,), count in by_state.items()},
        "shortfalls": _whole(await reader.sums(names.SHORTFALLS, ())),
        "cycleP99Seconds": max(p99.values(), default=0.0),
    }


async def actions(fleet: FleetSources, given: Parameters) -> Answer:
    """Actions per second by kind over time."""
    duration_s, step_s = _range(given)
    trend = await fleet.metric_reader().rate_trend(names.ACTIONS, ("kind",), duration_s, step_s)
    return {
        "timestamps": [round(time) for time in trend.times],
        "kinds": [kind for (kind,) in trend.values],
        "values": [[value or 0.0 for value in row] for row in trend.values.values()],
    }


async def shards(fleet: FleetSources, _given: Parameters) -> Answer:
    """A row per shard."""
    reader = fleet.metric_reader()
    machines = await reader.sums(names.INVENTORY, ("pod",))
    p99 = await reader.quantiles(names.CYCLE, ("pod",), _P99)
    shortfalls = await reader.sums(names.SHORTFALLS, ("pod",))
    sessions = await reader.sums(names.SESSIONS, ("pod",))
    return {
        "shards": [
            {
                "pod": pod[0],
                "cycleP99Seconds": _finite(p99.get(pod, 0.0)),
                "machines": round(machines.get(pod, 0.0)),
                "shortfalls": round(shortfalls.get(pod, 0.0)),
                "activeSessions": round(sessions.get(pod, 0.0)),
            }
            for pod in sorted({*machines, *sessions})
        ]
    }


async def shard(fleet: FleetSources, given: Parameters) -> Answer:
    """One shard in figures."""
    pod, reader = await _known_pod(fleet, given)
    proposals = await reader.rates(names.PROPOSALS, ("outcome",), pod=pod)
    by_state = await reader.sums(names.INVENTORY, ("state",), pod=pod)
    by_type = await reader.sums(names.INVENTORY, ("capacity_type",), pod=pod)
    return {
        "pod": pod,
        "cycleP99Seconds": _only(await reader.quantiles(names.CYCLE, (), _P99, pod=pod)),
        "cycleP99ByPhaseSeconds": _named(await reader.quantiles(names.PHASE, ("phase",), _P99, pod=pod)),
        "machines": round(sum(by_state.values())),
        "machinesByState": {state: round(count) for (state,), count in by_state.items()},
        "machinesByCapacityType": {kind: round(count) for (kind,), count in by_type.items()},
        "shortfalls": _whole(await reader.sums(names.SHORTFALLS, (), pod=pod)),
        "activeSessions": _whole(await reader.sums(names.SESSIONS, (), pod=pod)),
        "actionsByKindRatePerSec": _named(await reader.rates(names.ACTIONS, ("kind",), pod=pod)),
        "occCommittedPerSec": _finite(proposals.get(("committed",), 0.0)),
        "occConflictPerSec": _finite(proposals.get(("conflict",), 0.0)),
    }


async def shard_trends(fleet: FleetSources, given: Parameters) -> Answer:
    """One shard over time."""
    pod, reader = await _known_pod(fleet, given)
    duration_s, step_s = _range(given)
    cycle = await reader.quantile_trend(names.CYCLE, (), _P99, duration_s, step_s, pod=pod)
    rates = await reader.rate_trend(names.ACTIONS, ("kind",), duration_s, step_s, pod=pod)
    return {
        "pod": pod,
        "timestamps": [round(time) for time in cycle.times],
        "cycleP99Seconds": [value or 0.0 for value in cycle.values.get((), [0.0] * len(cycle.times))],
        "actionRates": {kind: [value or 0.0 for value in row] for (kind,), row in rates.values.items()},
    }


async def clusters(fleet: FleetSources, _given: Parameters) -> Answer:
    """Custom resources per cluster."""
    return {"clusters": list(await fleet.cluster_reader().clusters())}


async def cluster(fleet: FleetSources, given: Parameters) -> Answer:
    """Custom resources of one cluster by phase."""
    return await fleet.cluster_reader().cluster(given.path("id"))


async def available_capacity(fleet: FleetSources, _given: Parameters) -> Answer:
    """The available capacity that each cluster sees."""
    return {"clusters": list(await fleet.cluster_reader().available_capacity())}


async def topology(fleet: FleetSources, _given: Parameters) -> Answer:
    """Coordinator, registry and domains."""
    seen, warnings = _coordinator(fleet), []
    term = errors = applied = 0.0
    pending: Mapping[tuple[str, ...], float] = {}
    try:
        reader = fleet.metric_reader()
        # Each answer of a replica carries its term; the scraped metric may be older than its first election.
        term = max((await reader.sums(names.TERM, ("pod",))).values(), default=0.0)
        term = max([term, *(float(row.last_term) for row in seen.replicas)])
        outcomes = await reader.rates(names.APPLIED, ("outcome",))
        applied = sum(outcomes.values())
        errors = applied - outcomes.get(("success",), 0.0)
        pending = await reader.sums(names.PENDING, ("shard",))
    except SourceError as error:
        warnings.append(str(error))
    answer: dict[str, Any] = {
        "coordinator": {
            "raftTerm": round(term),
            "applyRatePerSec": _finite(applied),
            "applyErrorRatePerSec": _finite(errors),
            "pendingInstructionsTotal": round(sum(pending.values())),
        },
        "shards": [
            {
                "shardId": row.shard_id,
                "address": row.address,
                "registeredAtUnixSec": int(row.registered_at),
                "lastHeartbeatUnixSec": int(row.last_heartbeat),
                "pendingInstructions": round(pending.get((row.shard_id,), 0.0)),
            }
            for row in seen.registered
        ],
        "domainAssignments": [
            {"topologyKey": row.key, "topologyValue": row.value, "shardId": row.shard_id}
            for row in seen.domains
        ],
    }
    return answer | ({"warnings": warnings} if warnings else {})


async def shard_reports(fleet: FleetSources, given: Parameters) -> Answer:
    """The last report of each shard."""
    wanted = given.text("shard")
    rows = [report for report in _coordinator(fleet).reports if wanted in ("", report.shard_id)]
    return {"reports": [_report(report) for report in rows]}


async def needs(fleet: FleetSources, given: Parameters) -> Answer:
    """The needs of one shard in its last cycle: at most the given limit, and at most a megabyte (ADR-0160)."""
    shard_id = given.required("shard")
    limit = given.lenient_number("limit", 2000, most=_NEEDS_AT_MOST)
    query = NeedListQuery(cluster=given.text("cluster"), size=limit)
    answer = await fleet.shard(shard_id).need_list(query)
    return {
        "shardId": shard_id,
        "cycle": answer.cycle,
        "computedAtUnixNanos": answer.computed_at_ns,
        "totalNeeds": answer.total,
        "needs": await asyncio.to_thread(fitting, answer.rows, _NEEDS_BYTES),
    }


async def finops_snapshot(fleet: FleetSources, _given: Parameters) -> Answer:
    """Machines and demand by penalty bucket and capacity type."""
    reader = fleet.metric_reader()
    inventory = await reader.sums(names.INVENTORY, ("state", "capacity_type", "interruption_penalty_bucket"))
    demand = await reader.sums(names.DEMAND, ("interruption_penalty_bucket",))
    return finops(inventory, demand, _named(await reader.rates(names.ACTIONS, ("kind",))))


def stamped(fleet: FleetSources, answer: Answer) -> Answer:
    """Return an answer with its time, which every answer of these routes has."""
    return {**answer, "queriedAt": rfc3339_of_s(fleet.now())}


def _report(report: ObservedReport) -> Answer:
    return {
        "shardId": report.shard_id,
        "cycle": report.cycle,
        "receivedAtUnixNs": report.received_at_ns,
        "summary": {
            "totalMachines": report.total_machines,
            "freeMachines": report.free_machines,
            "instanceTypeCounts": dict(report.per_instance_type),
            "zoneCounts": dict(report.per_zone),
            "providerAddress": report.provider_address,
        },
        "shortfalls": list(report.shortfalls),
    }


def _coordinator(fleet: FleetSources) -> ObservedCoordinator:
    place = fleet.picture.coordinator
    if place is None:
        raise not_wired("a coordinator", "--coordinator-addr HOST:PORT")
    if place.error:
        raise SourceError(SourceProblem.NO_LEADER if place.leaderless else SourceProblem.FAILED, place.error)
    return place.seen or ObservedCoordinator()


async def _known_pod(fleet: FleetSources, given: Parameters) -> tuple[str, MetricReader]:
    pod = given.path("pod")
    if not _POD.fullmatch(pod):
        raise ParameterError("pod", pod, "letters a-z, digits, dots and hyphens, at most 253")
    reader = fleet.metric_reader()
    if (pod,) not in await reader.sums(names.INVENTORY, ("pod",)) and (pod,) not in await reader.sums(
        names.SESSIONS, ("pod",)
    ):
        raise SourceError(SourceProblem.NOT_FOUND, f"no shard exports metrics as {pod}")
    return pod, reader


def _range(given: Parameters) -> tuple[float, float]:
    """How far back a trend goes, and its step, both in seconds."""
    duration_s = given.lenient_duration("duration", 3600.0, most=_MAX_RANGE_S)
    step_s = given.lenient_duration("step", 30.0, most=_MAX_STEP_S)
    return duration_s, max(step_s, 1.0, duration_s / _MAX_POINTS)


def _only(values: Mapping[tuple[str, ...], float]) -> float:
    return _finite(values.get((), 0.0))


def _whole(values: Mapping[tuple[str, ...], float]) -> int:
    return round(values.get((), 0.0))


def _named(values: Mapping[tuple[str, ...], float]) -> dict[str, float]:
    return {name: _finite(value) for (name,), value in values.items()}


def _finite(value: float) -> float:
    return value if isfinite(value) else 0.0
