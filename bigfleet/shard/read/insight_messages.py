"""Builds the messages of the insight service from views, logs and counts.

Why: it is here and not in `bigfleet.wire` because only the shard knows views and ledgers.
Must never: wait, or look at anything that a later cycle changes.
Rules: `dashboard#insight-service`.
"""

from collections.abc import Mapping, Sequence

from bigfleet.engine.verdicts import short_places
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.buckets import label_of
from bigfleet.model.errors import InvalidFieldError
from bigfleet.shard.core.read.cycle_log import CycleSummary
from bigfleet.shard.core.read.decision_log import DecisionRecord
from bigfleet.shard.core.read.figures import ClusterFigure, cluster_figures, machine_figures
from bigfleet.shard.core.read.machine_query import MachineQuery, MachineSort
from bigfleet.shard.core.read.need_rows import NeedQuery, NeedStatus
from bigfleet.shard.core.read.status_sources import CoordinatorLinkStatus, StatusSources
from bigfleet.shard.core.read.transition_log import Transition
from bigfleet.shard.core.shortfalls import REPORTED, priority_class
from bigfleet.shard.core.views import CycleView, ShardStatus

_SORTS: Mapping[int, MachineSort] = {
    pb.ListMachinesRequest.ORDER_UNSPECIFIED: MachineSort.ID,
    pb.ListMachinesRequest.ORDER_PRICE: MachineSort.PRICE,
    pb.ListMachinesRequest.ORDER_STATE: MachineSort.STATE,
    pb.ListMachinesRequest.ORDER_CLUSTER: MachineSort.CLUSTER,
    pb.ListMachinesRequest.ORDER_INSTANCE_TYPE: MachineSort.INSTANCE_TYPE,
    pb.ListMachinesRequest.ORDER_ZONE: MachineSort.ZONE,
    pb.ListMachinesRequest.ORDER_IDLE_SINCE: MachineSort.IDLE_SINCE,
    pb.ListMachinesRequest.ORDER_PRIORITY: MachineSort.PRIORITY,
}

_STATUSES: Mapping[int, NeedStatus] = {
    pb.ListNeedsRequest.STATUS_UNSPECIFIED: NeedStatus.ANY,
    pb.ListNeedsRequest.STATUS_SHORT: NeedStatus.SHORT,
    pb.ListNeedsRequest.STATUS_SATISFIED: NeedStatus.SATISFIED,
    pb.ListNeedsRequest.STATUS_PARKED: NeedStatus.PARKED,
}


def cycle_message(status: ShardStatus, view: CycleView | None) -> pb.Cycle:
    """The cycle that an answer is about; number 0 when there is none."""
    cycle = pb.Cycle(shard_id=status.shard_id, shard_epoch=status.epoch)
    if view is not None:
        cycle.number, cycle.computed_at_unix_nanos = view.number, view.computed_at_ns
    return cycle


def status_message(
    status: ShardStatus, view: CycleView | None, sources: StatusSources
) -> pb.GetStatusResponse:
    """The status of the shard."""
    message = pb.GetStatusResponse(
        cycle=cycle_message(status, view),
        version=sources.version,
        started_at_unix_nanos=status.started_at_ns,
        ready=status.ready,
        notes=[*status.not_ready, *status.remarks],
        actuation_paused=sources.actuation_paused,
        dry_run=status.dry_run,
        self_paused=status.paused and not sources.actuation_paused,
        provider_address=status.provider_address,
        last_reconcile_unix_nanos=sources.last_reconcile_ns(),
        queue_depth=status.queued,
        in_flight=status.in_flight,
        totals=sources.totals(),
        cycle_interval_seconds=sources.cycle_interval_s,
    )
    coordinator = sources.coordinator()
    if coordinator is not None:
        message.coordinator.CopyFrom(_coordinator(coordinator))
    if view is not None:
        _add_cycle(message, view, sources)
    return message


def _add_cycle(message: pb.GetStatusResponse, view: CycleView, sources: StatusSources) -> None:
    verdicts = view.decision.verdicts
    message.needs, message.needs_short = len(verdicts), len(short_places(verdicts))
    message.shortfalls = len(view.shortfalls)
    for figure in machine_figures(view.snapshot):
        message.machines.add(
            state=figure.state,
            capacity_type=figure.capacity_type,
            count=figure.count,
            price_per_hour=figure.price_per_hour,
            exposure_per_hour=figure.exposure_per_hour,
            pinned_at_risk=figure.pinned_at_risk,
        )
    message.clusters.extend(_cluster(item, sources) for item in cluster_figures(view))


def _cluster(figure: ClusterFigure, sources: StatusSources) -> pb.ClusterStatus:
    return pb.ClusterStatus(
        cluster=figure.cluster,
        connected=figure.connected,
        rollup_unix_nanos=figure.rollup_ns,
        rows=figure.rows,
        held_rollups=sources.held_rollups(figure.cluster),
        reported=figure.reported,
        machines=figure.machines,
        price_per_hour=figure.price_per_hour,
    )


def _coordinator(link: CoordinatorLinkStatus) -> pb.CoordinatorStatus:
    return pb.CoordinatorStatus(
        address=link.address,
        last_answer_unix_nanos=link.last_answer_ns,
        failures=link.failures,
        last_error=link.last_error,
        term=link.term,
        reports=link.reports,
        restarts=link.restarts,
    )


def cycle_summary_message(status: ShardStatus, item: CycleSummary) -> pb.ListCyclesResponse:
    """The figures of one completed cycle; causes that did not occur are left out."""
    facts = item.facts
    withheld = {
        "capped": facts.capped,
        "deferred": facts.deferred,
        "held_off": facts.backed_off,
        "dryrun" if status.dry_run else "suppressed": facts.suppressed,
    }
    return pb.ListCyclesResponse(
        cycle=pb.Cycle(
            number=item.number,
            computed_at_unix_nanos=item.computed_at_ns,
            shard_id=status.shard_id,
            shard_epoch=status.epoch,
        ),
        seconds=facts.duration_s,
        phase_seconds=facts.phases_s,
        actions=item.actions,
        withheld={cause: count for cause, count in withheld.items() if count},
        machines=item.machines,
        needs=item.needs,
        needs_short=item.needs_short,
        reconciled=facts.reconciled,
    )


def machine_query(request: pb.ListMachinesRequest) -> MachineQuery:
    """The query of a request; an unknown sort order means by id."""
    return MachineQuery(
        states=tuple(request.states),
        clusters=tuple(request.clusters),
        instance_types=tuple(request.instance_types),
        zones=tuple(request.zones),
        capacity_types=tuple(request.capacity_types),
        id_contains=request.id_contains,
        order=_SORTS.get(request.order, MachineSort.ID),
        descending=request.descending,
    )


def need_query(request: pb.ListNeedsRequest) -> NeedQuery:
    """The query of a request; an unknown status is refused, since the answer would hold the wrong rows."""
    status = _STATUSES.get(request.status)
    if status is None:
        raise InvalidFieldError("status", request.status, f"a number from 0 to {max(_STATUSES)}")
    return NeedQuery(
        tuple(request.clusters), status, tuple(request.reasons), request.text, grouped=request.grouped
    )


def decision_message(record: DecisionRecord) -> pb.ListDecisionsResponse:
    """One action and its outcome."""
    return pb.ListDecisionsResponse(
        sequence=record.sequence,
        at_unix_nanos=record.at_ns,
        cycle=record.cycle,
        kind=record.kind,
        machine=record.machine_id,
        cluster=record.cluster,
        reason=record.reason,
        grace_seconds=record.grace_s,
        outcome=record.outcome,
        decided_cycle=record.decided_cycle,
        error=record.error,
    )


def transition_message(change: Transition) -> pb.Transition:
    """One transition of a machine."""
    return pb.Transition(
        at_unix_nanos=change.at_ns, before=change.before, after=change.after, cause=change.cause
    )


def shortfalls_message(status: ShardStatus, view: CycleView | None) -> pb.ListShortfallsResponse:
    """The shortfalls, with their clusters and the reason of the first need of each."""
    message = pb.ListShortfallsResponse(cycle=cycle_message(status, view))
    if view is None:
        return message
    message.total = len(view.shortfalls)
    clusters, reasons = _short_clusters(view, short_places(view.decision.verdicts))
    for item in view.shortfalls[:REPORTED]:
        fingerprint = item.profile.fingerprint
        message.shortfalls.add(
            fingerprint=fingerprint,
            priority=item.profile.priority,
            priority_class=priority_class(item.profile.priority),
            deficit=item.deficit.texts(),
            age_cycles=item.age_cycles,
            interruption_penalty_bucket=label_of(item.profile.interruption_bucket),
            clusters=sorted(clusters.get(fingerprint, ())),
            reason=reasons.get(fingerprint, ""),
        )
    return message


def _short_clusters(view: CycleView, places: Sequence[int]) -> tuple[dict[str, set[str]], dict[str, str]]:
    clusters: dict[str, set[str]] = {}
    reasons: dict[str, str] = {}
    for place in places:
        verdict = view.decision.verdicts[place]
        fingerprint = verdict.need.profile.fingerprint
        clusters.setdefault(fingerprint, set()).add(verdict.need.cluster)
        reasons.setdefault(fingerprint, verdict.reason.value)
    for cluster, fingerprint in view.bootstrap_backoffs:
        clusters.setdefault(fingerprint, set()).add(cluster)
        reasons[fingerprint] = "BLOB_BACK_OFF"
    return clusters, reasons
