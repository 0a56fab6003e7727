"""Builds the messages of the insight service from views, logs and counts.

Why: it is here and not in `bigfleet.wire` because only the shard knows views and ledgers.
Must never: wait, or look at anything that a later cycle changes.
Rules: `dashboard#insight-service`.
"""

from collections.abc import Mapping

from bigfleet.engine.verdicts import short_places
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.buckets import label_of
from bigfleet.model.coverage import CoverageSplit
from bigfleet.model.errors import InvalidFieldError
from bigfleet.shard.core.coverage import Coverage, held_off_reason
from bigfleet.shard.core.problems import actions_waiting, problems_of
from bigfleet.shard.core.read.cycle_log import CycleSummary
from bigfleet.shard.core.read.decision_log import DecisionRecord
from bigfleet.shard.core.read.figures import ClusterFigure, cluster_figures, machine_figures
from bigfleet.shard.core.read.machine_query import MachineQuery, MachineSort
from bigfleet.shard.core.read.need_rows import NeedQuery, NeedStatus
from bigfleet.shard.core.read.status_sources import CoordinatorLinkStatus, StatusSources
from bigfleet.shard.core.read.transition_log import Transition
from bigfleet.shard.core.shortfalls import REPORTED, priority_class
from bigfleet.shard.core.views import CycleView, ShardStatus
from bigfleet.wire.need_views import coverage_to_proto

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
        cycle.age_seconds = status.age_s(view.computed_at_ns)
    return cycle


def status_message(
    status: ShardStatus, view: CycleView | None, coverage: Coverage | None, sources: StatusSources
) -> pb.GetStatusResponse:
    """The status of the shard; `coverage` is of the view."""
    last_reconcile_ns = sources.last_reconcile_ns()
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
        last_reconcile_unix_nanos=last_reconcile_ns,
        last_reconcile_age_seconds=status.age_s(last_reconcile_ns),
        uptime_seconds=status.age_s(status.started_at_ns),
        queue_depth=status.queued,
        in_flight=status.in_flight,
        totals=sources.totals(),
        cycle_interval_seconds=sources.cycle_interval_s,
    )
    coordinator = sources.coordinator()
    if coordinator is not None:
        message.coordinator.CopyFrom(_coordinator(coordinator))
    message.provider.CopyFrom(_provider(status, view))
    for problem in problems_of(status, view, coverage, sources):
        message.problems.add(kind=problem.kind.value, text=problem.text, for_seconds=problem.for_s)
    if view is not None and coverage is not None:
        _add_cycle(message, view, status, coverage, sources)
    return message


def _provider(status: ShardStatus, view: CycleView | None) -> pb.ProviderStatus:
    state = status.provider
    listed = state.last_listing_age_s
    return pb.ProviderStatus(
        reachable=state.reachable,
        unreachable_for_seconds=0.0 if state.reachable else state.unreachable_for_s,
        failures=state.failures,
        last_error=state.last_error,
        next_probe_in_seconds=0.0 if state.reachable else state.next_probe_in_s,
        held_off_actions=0 if state.reachable else actions_waiting(view),
        last_listing_age_seconds=-1.0 if listed is None else listed,
        listing_doubted=state.doubted_for_s is not None,
        listing_doubted_for_seconds=state.doubted_for_s or 0.0,
        listing_missing_machines=state.doubted_missing,
    )


def _add_cycle(
    message: pb.GetStatusResponse,
    view: CycleView,
    status: ShardStatus,
    coverage: Coverage,
    sources: StatusSources,
) -> None:
    verdicts = view.decision.verdicts
    message.needs = len(verdicts)
    message.needs_short = len(short_places(verdicts)) + len(coverage.held_short)
    message.needs_covered = len(verdicts) - len(coverage.uncovered)
    message.coverage.CopyFrom(coverage_to_proto(coverage.total))
    message.shortfalls = len(view.shortfalls)
    now_s = sources.now(view.now)
    for item in view.cool_offs:
        message.cool_offs.add(
            instance_type=item.instance_type,
            zone=item.zone,
            capacity_type=item.capacity_type.label,
            error=item.error,
            failures=item.failures,
            next_attempt_in_seconds=max(0.0, item.until_s - now_s),
            machines=item.machines,
        )
    for figure in machine_figures(view.every_machine):
        message.machines.add(
            state=figure.state,
            capacity_type=figure.capacity_type,
            count=figure.count,
            price_per_hour=figure.price_per_hour,
            exposure_per_hour=figure.exposure_per_hour,
            pinned_at_risk=figure.pinned_at_risk,
        )
    splits = coverage.by_cluster()
    for cluster in cluster_figures(view):
        message.clusters.append(
            _cluster(cluster, splits.get(cluster.cluster, CoverageSplit()), status, sources)
        )


def _cluster(
    figure: ClusterFigure, split: CoverageSplit, status: ShardStatus, sources: StatusSources
) -> pb.ClusterStatus:
    return pb.ClusterStatus(
        coverage=coverage_to_proto(split),
        cluster=figure.cluster,
        connected=figure.connected,
        rollup_unix_nanos=figure.rollup_ns,
        rollup_age_seconds=status.age_s(sources.rollup_accepted_ns(figure.cluster)),
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
        last_answer_age_seconds=link.last_answer_age_s,
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


def shortfalls_message(
    status: ShardStatus, view: CycleView | None, coverage: Coverage | None
) -> pb.ListShortfallsResponse:
    """The shortfalls, with their clusters and the reason of the first need of each."""
    message = pb.ListShortfallsResponse(cycle=cycle_message(status, view))
    if view is None or coverage is None:
        return message
    message.total = len(view.shortfalls)
    clusters, reasons = _short_clusters(view, coverage)
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


def _short_clusters(view: CycleView, coverage: Coverage) -> tuple[dict[str, set[str]], dict[str, str]]:
    clusters: dict[str, set[str]] = {}
    reasons: dict[str, str] = {}
    verdicts, held = view.decision.verdicts, coverage.held_short
    for place in sorted({*short_places(verdicts), *held}):
        verdict = verdicts[place]
        fingerprint = verdict.need.profile.fingerprint
        clusters.setdefault(fingerprint, set()).add(verdict.need.cluster)
        reason = held_off_reason(held[place]) if place in held else verdict.reason.value
        reasons.setdefault(fingerprint, reason)
    for cluster, fingerprint in view.bootstrap_backoffs:
        clusters.setdefault(fingerprint, set()).add(cluster)
        reasons[fingerprint] = "BLOB_BACK_OFF"
    return clusters, reasons
