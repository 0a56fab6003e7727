"""The catalogue against the contract."""

from collections import Counter

import pytest

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import Metric, MetricType, Stability
from bigfleet.shard.metrics import SHARD_METRICS
from docs.generate.metrics import CATALOGUE

BY_NAME = {metric.name: metric for metric in CATALOGUE}

DEAD = (
    "bigfleet_shard_phase1_pool_build_duration_seconds",
    "bigfleet_shard_phase1_take_duration_seconds",
    "bigfleet_shard_phase1_calls_total",
)

# Every name that is contract: type and labels, as users of the original know them.
CONTRACT = """
bigfleet_shard_cycle_duration_seconds histogram A
bigfleet_shard_cycle_phase_duration_seconds histogram A phase
bigfleet_shard_provisioning_latency_seconds histogram C
bigfleet_shard_configure_phase_seconds histogram B
bigfleet_shard_request_bootstrap_seconds histogram B
bigfleet_shard_drain_phase_seconds histogram B
bigfleet_shard_actions_total counter - kind
bigfleet_shard_action_execute_outcomes_total counter - kind outcome
bigfleet_shard_actions_deferred_total counter
bigfleet_shard_actions_dropped_total counter
bigfleet_shard_actions_deduped_total counter
bigfleet_shard_actions_suppressed_total counter - kind
bigfleet_shard_actions_dryrun_total counter - kind
bigfleet_shard_actuation_paused gauge
bigfleet_shard_action_queue_depth gauge
bigfleet_shard_execute_inflight gauge
bigfleet_shard_inventory_machines gauge - state capacity_type interruption_penalty_bucket
bigfleet_shard_demand_machines gauge - interruption_penalty_bucket
bigfleet_shard_shortfalls gauge
bigfleet_shard_shortfalls_aged gauge - bucket
bigfleet_shard_shortfalls_by_priority gauge - priority_class
bigfleet_shard_session_lifecycle_total counter - event
bigfleet_shard_active_sessions gauge
bigfleet_shard_session_identity_rejected_total counter
bigfleet_shard_reclaims_capped_total counter
bigfleet_shard_rollup_quarantined gauge - cluster
bigfleet_shard_rollups_rejected_total counter - cluster
bigfleet_shard_machines_rejected_total counter - reason
bigfleet_shard_idle_releases_total counter
bigfleet_shard_phase1_occ_proposals_total counter - outcome
bigfleet_shard_phase1_occ_displacements_total counter
bigfleet_shard_phase1_occ_retries_exhausted_total counter
bigfleet_coordinator_raft_term gauge
bigfleet_coordinator_apply_total counter - outcome
bigfleet_coordinator_pending_instructions gauge - shard
bigfleet_operator_session_reconnects_total counter
bigfleet_operator_rollup_duration_seconds histogram ROLLUP
bigfleet_operator_rollup_phase_duration_seconds histogram ROLLUP phase
bigfleet_operator_acknowledge_duration_seconds histogram B
bigfleet_operator_acknowledged_total counter
bigfleet_operator_outbox_dropped_total counter
bigfleet_operator_dispatch_inflight gauge
bigfleet_operator_node_state_update_duration_seconds histogram E phase
bigfleet_operator_upcoming_node_writes_total counter - op outcome
bigfleet_operator_upcoming_node_op_duration_seconds histogram E op
bigfleet_unschedulable_pod_controller_reconciles_total counter - outcome
"""


def spelt(metric: Metric) -> str:
    buckets = metric.buckets.name if metric.buckets else "-"
    return " ".join([metric.name, metric.type, buckets, *metric.label_names]).removesuffix(" -")


@pytest.mark.rule("dashboard#metrics-contract")
def test_the_contract_is_complete_and_unchanged() -> None:
    found = {spelt(metric) for metric in CATALOGUE if metric.stability is Stability.CONTRACT}
    assert found == set(CONTRACT.split("\n")) - {""}


def test_names_are_unique_and_the_dead_ones_stay_dead() -> None:
    assert not [name for name, count in Counter(metric.name for metric in CATALOGUE).items() if count > 1]
    assert not set(DEAD) & set(BY_NAME)


@pytest.mark.parametrize(
    "name",
    [
        "bigfleet_shard_last_reconcile_success_timestamp_seconds",
        "bigfleet_shard_self_paused",
        "bigfleet_shard_audit_write_errors_total",
        "bigfleet_operator_session_up",
        "bigfleet_operator_last_ack_timestamp_seconds",
        "bigfleet_coordinator_serving",
        "bigfleet_coordinator_snapshot_export_last_success_timestamp_seconds",
        "bigfleet_provider_rpc_seconds",
        "bigfleet_unschedulable_pod_controller_inexact_total",
    ],
)
def test_ours_are_there_and_stable(name: str) -> None:
    assert BY_NAME[name].stability is Stability.STABLE


def test_the_lag_of_the_loop_has_buckets_of_milliseconds() -> None:
    assert BY_NAME["bigfleet_event_loop_lag_seconds"].buckets is Buckets.D


@pytest.mark.rule("dashboard#metrics-contract")
def test_only_the_shard_exports_the_inventory() -> None:
    name = "bigfleet_shard_inventory_machines"
    assert name in {metric.name for metric in SHARD_METRICS.metrics}
    assert [metric.name for metric in CATALOGUE].count(name) == 1


@pytest.mark.rule("dashboard#metrics-contract")
def test_label_texts_are_those_that_dashboards_ask_for() -> None:
    state, capacity, penalty = BY_NAME["bigfleet_shard_inventory_machines"].labels
    assert state.values == (
        "Speculative", "Creating", "Idle", "Configuring", "Configured", "Draining", "Deleting", "Failed",
    )  # fmt: skip
    assert capacity.values == ("CapacityType(0)", "BareMetal", "Reserved", "OnDemand", "Spot")
    assert penalty.values[:5] == ("unspecified", "0", "0.5", "1", "2")
    assert penalty.values[-2:] == ("8388608", "pinned")
    assert len(penalty.values) == 28


def test_only_a_status_update_can_be_a_noop() -> None:
    series = BY_NAME["bigfleet_operator_upcoming_node_writes_total"].fixed_series()
    assert [op for op, outcome in series if outcome == "noop"] == ["status_update"]
    assert len(series) == 13


def test_no_metric_names_a_machine_pod_or_request() -> None:
    names = {label.name for metric in CATALOGUE for label in metric.labels}
    assert not names & {"machine", "machine_id", "pod", "node", "capacity_request", "name"}


def test_every_metric_says_what_it_means() -> None:
    assert all(metric.help.endswith(".") and len(metric.help) > 15 for metric in CATALOGUE)


def test_a_row_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="has buckets"):
        Metric(MetricType.HISTOGRAM, "bigfleet_x_seconds", "X.")
    with pytest.raises(ValueError, match="ends in _total"):
        Metric(MetricType.COUNTER, "bigfleet_x", "X.")
