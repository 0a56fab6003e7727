"""Our own routes: status, shards, needs, machines, explanations, decisions, events, exports.

Must never: return 0 for an unknown value (it returns null), or answer with more than a page of machines.
Rules: `dashboard#own-routes`, `dashboard#explain`, `dashboard#budgets`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from bigfleet.dashboard.api.shard_rows import coverage_row, shard_row
from bigfleet.dashboard.core.approximate import approximate, find
from bigfleet.dashboard.core.need_list import NeedListQuery
from bigfleet.dashboard.core.summary import STATES, summarise
from bigfleet.dashboard.fleet_sources import FleetSources
from bigfleet.dashboard.parameters import ParameterError, Parameters
from bigfleet.dashboard.rows import decision_row, machine_row, transition_row
from bigfleet.dashboard.shard_reader import ShardReader
from bigfleet.dashboard.sources import SourceError, SourceProblem
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.times import rfc3339_of_s

Answer = Mapping[str, Any]
PAGE: Final = 200
_DECISIONS: Final = 500
SORTS: Final = {
    "": pb.ListMachinesRequest.ORDER_UNSPECIFIED,
    "id": pb.ListMachinesRequest.ORDER_UNSPECIFIED,
    "price": pb.ListMachinesRequest.ORDER_PRICE,
    "state": pb.ListMachinesRequest.ORDER_STATE,
    "cluster": pb.ListMachinesRequest.ORDER_CLUSTER,
    "type": pb.ListMachinesRequest.ORDER_INSTANCE_TYPE,
    "zone": pb.ListMachinesRequest.ORDER_ZONE,
    "idle": pb.ListMachinesRequest.ORDER_IDLE_SINCE,
    "priority": pb.ListMachinesRequest.ORDER_PRIORITY,
}
_DIRECTIONS: Final = {sign + name: None for name in SORTS for sign in ("", "-")}
NEED_STATUSES: Final = {"": None, "short": None, "satisfied": None, "parked": None}
_KINDS: Final = ("Bootstrap", "Provision", "Reclaim", "Preempt", "Delete")


async def status(fleet: FleetSources, _given: Parameters) -> Answer:
    """The overview page as one object, for scripts too."""
    summary = summarise(fleet.picture)
    return {
        "state": summary.health.word,
        "verdict": summary.verdict,
        "reasons": [
            {
                "kind": reason.kind,
                "state": reason.health.word,
                "text": reason.text,
                "page": f"/{reason.path}",
            }
            for reason in summary.reasons
        ],
        "at": rfc3339_of_s(fleet.picture.at),
        "shards": summary.shards,
        "shardsWithoutCurrentNumbers": summary.silent_shards,
        "clusters": summary.clusters,
        "machines": summary.machines,
        "machinesByState": summary.by_state,
        "machinesByCapacityType": summary.by_capacity_type,
        "costPerHour": summary.cost_per_hour,
        "idleCostPerHour": summary.idle_cost_per_hour,
        "exposurePerHour": summary.exposure_per_hour,
        "pinnedMachinesAtRisk": summary.pinned_at_risk,
        "needs": summary.needs,
        "needsShort": summary.needs_short,
        "coverage": coverage_row(summary.coverage),
        "shortfallsByClass": summary.short_by_class,
        "oldestShortfalls": [
            {
                "shardId": row.shard_id,
                "fingerprint": row.fingerprint,
                "priority": row.priority,
                "ageCycles": row.age_cycles,
                "deficit": dict(row.deficit),
                "clusters": list(row.clusters),
                "reason": row.reason,
            }
            for row in summary.oldest
        ],
        "queueDepth": summary.queue_depth,
        "actionsInFlight": summary.in_flight,
        "secondsSinceLastCycle": summary.last_cycle_age_s,
        "actionsWithheld": summary.withheld,
    }


async def shards(fleet: FleetSources, _given: Parameters) -> Answer:
    """What each shard reports of itself: provider, problems, cool-offs, clusters with their coverage."""
    return {"shards": [shard_row(place, fleet.picture.at) for place in fleet.picture.shards]}


async def needs(fleet: FleetSources, given: Parameters) -> Answer:
    """One page of needs of one shard, each with its coverage."""
    shard_id = given.required("shard")
    number = given.number("page", 1, least=1, most=10**8)
    query = NeedListQuery(
        cluster=given.text("cluster"),
        status=given.choice("status", NEED_STATUSES),
        reason=given.text("reason"),
        text=given.text("q"),
        first=(number - 1) * PAGE,
        size=PAGE,
    )
    answer = await fleet.shard(shard_id).need_list(query)
    return {
        "shardId": shard_id,
        "cycle": answer.cycle,
        "needs": answer.needs,
        "total": answer.total,
        "short": answer.short,
        "rows": list(answer.rows),
        "nextPage": number + 1 if number * PAGE < answer.total else None,
    }


async def machines(fleet: FleetSources, given: Parameters) -> Answer:
    """One page of machines of one shard."""
    reader = fleet.shard(given.required("shard"))
    return await reader.machines(machine_query(given))


def machine_query(given: Parameters, page_size: int = PAGE) -> pb.ListMachinesRequest:
    """Return the query for the shard that a request describes."""
    sort = given.choice("sort", _DIRECTIONS)
    states = given.texts("state")
    for state in states:
        if state not in STATES:
            raise ParameterError("state", state, "one of " + ", ".join(STATES))
    return pb.ListMachinesRequest(
        states=states,
        clusters=given.texts("cluster"),
        instance_types=given.texts("type"),
        zones=given.texts("zone"),
        capacity_types=given.texts("capacity"),
        id_contains=given.text("q"),
        order=SORTS[sort.removeprefix("-")],
        descending=sort.startswith("-"),
        page_size=page_size,
        page_token=given.text("page"),
    )


async def machine(fleet: FleetSources, given: Parameters) -> Answer:
    """One machine: its record, its transitions, the decisions about it."""
    shard_id = given.path("shard")
    answer = await fleet.shard(shard_id).explain_machine(given.path("id"), quick=True)
    return {
        "shardId": shard_id,
        "cycle": answer.cycle.number,
        "machine": machine_row(answer.machine),
        "transitions": [transition_row(row) for row in answer.transitions],
        "decisions": [decision_row(shard_id, row) for row in answer.decisions],
    }


async def explain_need(fleet: FleetSources, given: Parameters) -> Answer:
    """Why a need is satisfied or short."""
    shard_id = given.required("shard")
    key = pb.NeedKey(
        cluster=given.required("cluster"),
        fingerprint=given.required("fingerprint"),
        group=given.text("group"),
    )
    reader = fleet.shard(shard_id)
    try:
        answer = await reader.explain_need(pb.ExplainNeedRequest(key=key))
    except SourceError as error:
        if error.trouble is not SourceProblem.NOT_OFFERED:
            raise
        return await _guessed(reader, key)
    return {
        "shardId": shard_id,
        "cycle": answer.cycle.number,
        "approximate": False,
        "explanation": _document(answer.document),
        "ageCyclesUnmet": answer.age_cycles,
        "parkedAgeCycles": answer.parked_age_cycles,
        "blobBackoffUntilUnixNanos": answer.blob_backoff_until_unix_nanos,
        "history": [{"cycle": row.cycle, "reason": row.reason} for row in answer.history],
    }


async def _guessed(reader: ShardReader, key: pb.NeedKey) -> Answer:
    """An approximate explanation, from the needs of a shard without the insight service."""
    answer = await reader.needs()
    place = find(answer["needs"], key.cluster, key.fingerprint, key.group)
    if place is None:
        raise SourceError(SourceProblem.NOT_FOUND, f"shard {reader.shard_id} has no such need")
    row = answer["needs"][place]
    return {
        "shardId": reader.shard_id,
        "cycle": answer["cycle"],
        "approximate": True,
        "explanation": approximate(answer["needs"], place),
        "ageCyclesUnmet": row["ageCyclesUnmet"],
        "parkedAgeCycles": row["parkedAgeCycles"],
        "blobBackoffUntilUnixNanos": 0,
        "history": [],
    }


async def explain_machine(fleet: FleetSources, given: Parameters) -> Answer:
    """Why a machine is in its state."""
    shard_id = given.required("shard")
    answer = await fleet.shard(shard_id).explain_machine(given.required("id"))
    return {
        "shardId": shard_id,
        "cycle": answer.cycle.number,
        "explanation": _document(answer.document),
        "machine": machine_row(answer.machine),
        "transitions": [transition_row(row) for row in answer.transitions],
        "decisions": [decision_row(shard_id, row) for row in answer.decisions],
    }


async def decisions(fleet: FleetSources, given: Parameters) -> Answer:
    """Recent actions of one shard or of all, newest first."""
    wanted = given.text("shard")
    query = decision_query(given)
    shard_ids = [wanted] if wanted else [place.shard_id for place in fleet.picture.shards]
    if not shard_ids:
        fleet.shard("")  # raises an error that names the missing flag
    rows: list[Mapping[str, Any]] = []
    problems = []
    for shard_id in shard_ids:
        try:
            rows += await fleet.shard(shard_id).decisions(query)
        except SourceError as error:
            if wanted:
                raise
            problems.append({"shardId": shard_id, "error": str(error)})
    rows.sort(key=lambda row: (-row["atUnixNanos"], row["shardId"], -row["sequence"]))
    return {"decisions": rows[:_DECISIONS], "problems": problems}


def decision_query(given: Parameters) -> pb.ListDecisionsRequest:
    """Return the query for the shards that a request describes."""
    kinds = given.texts("kind")
    for kind in kinds:
        if kind not in _KINDS:
            raise ParameterError("kind", kind, "one of " + ", ".join(_KINDS))
    return pb.ListDecisionsRequest(
        since_unix_nanos=given.number("since", 0, least=0, most=2**62),
        kinds=kinds,
        machine=given.text("machine"),
        cluster=given.text("cluster"),
        limit=_DECISIONS,
    )


async def events(fleet: FleetSources, given: Parameters) -> Answer:
    """What changed lately, newest first."""
    since = given.number("since", 0, least=0, most=2**62)
    return {
        "events": [
            {
                "number": row.number,
                "at": rfc3339_of_s(row.at),
                "kind": row.kind,
                "text": row.text,
                "page": f"/{row.path}",
            }
            for row in fleet.events.newest(since=since)
        ]
    }


def _document(text: bytes) -> Any:  # Any: a JSON value
    try:
        return json.loads(text)
    except ValueError as error:
        raise SourceError(SourceProblem.FAILED, "the shard's explanation cannot be read") from error
