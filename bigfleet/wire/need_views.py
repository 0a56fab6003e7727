"""Needs and the verdicts on them: from the model to the messages of inspection.

Why: which parts of a verdict are present says something to a reader, so the rules are in one place.
Must never: name a machine; inspection shows counts only.
Rules: `wire#need-row-order`, `shard#inspection`; ADR-0061.
"""

from collections.abc import Mapping
from typing import Final

from bigfleet.model.coverage import CoverageSplit
from bigfleet.model.decision import Reason, Unresolved, Verdict
from bigfleet.model.resources import Resources
from bigfleet.v1alpha1 import provider_pb2
from bigfleet.v1alpha1 import shardread_pb2 as pb
from bigfleet.wire.rollups import need_to_proto

_REASONS: Final[Mapping[Reason, pb.UnmetReason.ValueType]] = {
    Reason.SATISFIED: pb.UNMET_REASON_UNSPECIFIED,
    Reason.PRIORITY_STARVED: pb.UNMET_REASON_PRIORITY_STARVED,
    Reason.NO_MATCHING_SUPPLY: pb.UNMET_REASON_NO_MATCHING_SUPPLY,
    Reason.TOPOLOGY_UNSATISFIABLE: pb.UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
    Reason.PREEMPTION_EXHAUSTED: pb.UNMET_REASON_PREEMPTION_EXHAUSTED,
}


def need_view_to_proto(
    verdict: Verdict,
    unresolved: Unresolved | None,
    *,
    unmet_age: int,
    parked_age: int,
    coverage: CoverageSplit | None = None,
) -> pb.NeedView:
    """Write one need; `unresolved` is what Phase 2 left of it, the ages are those of its ledgers, 0 where they have none."""
    need = verdict.need
    view = pb.NeedView(
        need=need_to_proto(need),
        cluster_id=need.cluster,
        arrival_unix_nanos=need.arrival_ns,
        profile_fingerprint=need.profile.fingerprint,
        satisfied=verdict.satisfied,
        claimed_machine_count=len(verdict.claimed),
        bootstrap_count=len(verdict.bootstrapped),
        provision_count=len(verdict.provisioned),
    )
    # What an ordinary need has not is not written: of tens of thousands of needs few are gangs.
    if verdict.domain is not None or verdict.structurally_satisfiable:
        _write_gang(view, verdict)
    if verdict.parked:
        view.acquisition_parked = True
    if not verdict.satisfied:
        _write_unmet(view, verdict, unresolved, unmet_age=unmet_age, parked_age=parked_age)
    if coverage is not None:
        view.coverage.CopyFrom(coverage_to_proto(coverage))
    return view


def coverage_to_proto(split: CoverageSplit) -> pb.NeedCoverage:
    """Write how far machines are; `missing` is absent where nothing is."""
    message = pb.NeedCoverage(
        running=split.running,
        joining=split.joining,
        on_order=split.on_order,
        wanted=split.wanted,
        held_off=split.held_off,
        waiting_seconds=split.waiting_s,
    )
    if not split.covered:
        message.missing.CopyFrom(_amounts(split.missing))
    return message


def coverage_from_proto(message: pb.NeedCoverage) -> CoverageSplit:
    """Read how far machines are; refuses an amount that cannot be read."""
    return CoverageSplit(
        message.running,
        message.joining,
        message.on_order,
        message.wanted,
        Resources.parse(message.missing.resources),
        message.held_off,
        message.waiting_seconds,
    )


def _write_gang(view: pb.NeedView, verdict: Verdict) -> None:
    view.same_domain = verdict.domain or ""
    view.same_satisfiable = verdict.structurally_satisfiable
    for item in verdict.same_candidates:
        view.same_candidates.add(
            domain=item.domain, coverage_per_mille=item.coverage_per_mille, satisfiable=item.satisfiable
        )


def _write_unmet(
    view: pb.NeedView, verdict: Verdict, unresolved: Unresolved | None, *, unmet_age: int, parked_age: int
) -> None:
    view.residual_deficit.CopyFrom(_amounts(verdict.deficit))
    view.unmet_reason = _REASONS[verdict.reason]
    if verdict.parked:
        view.parked_age_cycles = parked_age
    supply = verdict.matching_supply
    view.matching_supply.SetInParent()
    if supply is not None:
        view.matching_supply.idle = supply.idle
        view.matching_supply.configured = supply.configured
        view.matching_supply.speculative = supply.speculative
        view.matching_supply.capped = supply.capped
    if unresolved is None:
        return  # preemption brings the rest, so the need is not in the ledger
    view.age_cycles_unmet = unmet_age
    if unresolved.victims:
        view.preemption.victims_found = unresolved.victims
        view.preemption.capacity_freed.CopyFrom(_amounts(unresolved.freed))


def _amounts(amounts: Resources) -> provider_pb2.Resources:
    return provider_pb2.Resources(resources=amounts.texts())
