"""The Grafana boards: which panel asks what, in which unit, and why one would look at it.

Why: a board exported by hand repeats its layout fifty times; here a panel is a row, and a test holds each query to the registry.
Must never: ask for a metric that no process exports.
Rules: `packaging#boards`; ADR-0087.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

_S, _C, _O = "bigfleet_shard_", "bigfleet_coordinator_", "bigfleet_operator_"
_POD: Final = 'pod=~"$pod"'
_WINDOW: Final = "$__rate_interval"
_RUNBOOKS: Final = "https://bigfleet.example/docs/runbooks"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `queries` are pairs of a legend and an expression."""

    title: str
    why: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    limit: float | None = None  # beyond it the panel is red
    at_least: bool = False  # the limit is a floor, not a ceiling


@dataclass(frozen=True, slots=True)
class Board:
    """One board."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def p(quantile: float, metric: str, by: str, window: str = _WINDOW) -> str:
    """Return a quantile of a histogram, by a label."""
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate({metric}_bucket{{{_POD}}}[{window}])))"


def r(metric: str, by: str) -> str:
    """Return the rate of a counter, by labels."""
    return f"sum by ({by}) (rate({metric}{{{_POD}}}[{_WINDOW}]))"


FLEET: Final = Board(
    "fleet",
    "BigFleet: the fleet",
    (
        Panel("Machines by state", "What there is, and what it does", "short", (("{{state}}", f"sum by (state) ({_S}inventory_machines)"),)),
        Panel("Capacity mix", "What serves or stands by, by how it was bought", "short", (("{{capacity_type}}", f'sum by (capacity_type) ({_S}inventory_machines{{state=~"Configured|Idle"}})'),)),
        Panel("Shortfalls by priority", "Demand without a machine, by how much it matters", "short", (("{{priority_class}}", f"sum by (priority_class) ({_S}shortfalls_by_priority)"),)),
        Panel("Shortfalls by age", "How long demand has waited, in cycles", "short", (("{{bucket}}", f"sum by (bucket) ({_S}shortfalls_aged)"),)),
        Panel("Actions per second", "What the shards do", "ops", (("{{kind}}", f"sum by (kind) (rate({_S}actions_total[{_WINDOW}]))"),)),
        Panel("Held and demanded by penalty", "Machines held against rows of demand, by what an interruption costs", "short", (("held {{interruption_penalty_bucket}}", f'sum by (interruption_penalty_bucket) ({_S}inventory_machines{{state="Configured"}})'), ("demanded {{interruption_penalty_bucket}}", f"sum by (interruption_penalty_bucket) ({_S}demand_machines)"))),
        Panel("Penalty against capacity type", "Whether costly work sits on machines that may be taken away", "short", (("{{capacity_type}} {{interruption_penalty_bucket}}", f'sum by (capacity_type, interruption_penalty_bucket) ({_S}inventory_machines{{state="Configured"}})'),)),
        Panel("Bought and released", "Both at once for long is money spent in a circle", "ops", (("bought", f'sum(rate({_S}actions_total{{kind="Provision"}}[{_WINDOW}]))'), ("released", f"sum(rate({_S}idle_releases_total[{_WINDOW}]))"))),
        Panel("Clusters and shards", "Operators connected, and shards that decide", "short", (("clusters", f"sum({_S}active_sessions)"), ("shards cycling", f"count(rate({_S}cycle_duration_seconds_count[2m]) > 0)"))),
        Panel("Rails", "What held the fleet back in the last hour", "short", (("reclaims capped", f"sum(increase({_S}reclaims_capped_total[1h]))"), ("roll-ups held", f"max({_S}rollup_quarantined)"), ("paused", f"max({_S}actuation_paused)"), ("suppressed", f"sum(increase({_S}actions_suppressed_total[1h]))"), ("dry run", f"sum(increase({_S}actions_dryrun_total[1h]))"))),
        Panel("Versions", "Which build runs where", "short", (("{{component}} {{version}}", "count by (component, version) (bigfleet_build_info)"),), kind="table"),
    ),
)  # fmt: skip

SHARD: Final = Board(
    "shard",
    "BigFleet: shards",
    (
        Panel("Cycle time", "How long a decision takes", "s", (("p50 {{pod}}", p(0.5, f"{_S}cycle_duration_seconds", "pod")), ("p99 {{pod}}", p(0.99, f"{_S}cycle_duration_seconds", "pod"))), limit=5),
        Panel("Cycle time by phase, p99", "Which part of a cycle is slow", "s", (("{{phase}}", p(0.99, f"{_S}cycle_phase_duration_seconds", "phase")),)),
        Panel("Outcomes of actions", "What became of what was decided", "ops", (("{{kind}} {{outcome}}", r(f"{_S}action_execute_outcomes_total", "kind, outcome")),)),
        Panel("Bootstraps that succeed", "Machines that get to serve, of those chosen", "percentunit", (("share", f'sum(rate({_S}action_execute_outcomes_total{{kind="Bootstrap",outcome="success"}}[15m])) / sum(rate({_S}action_execute_outcomes_total{{kind="Bootstrap"}}[15m]))'),), limit=0.99, at_least=True),
        Panel("Configure, blob and drain, p99", "How long machines, operators and nodes take", "s", (("configure {{pod}}", p(0.99, f"{_S}configure_phase_seconds", "pod")), ("blob {{pod}}", p(0.99, f"{_S}request_bootstrap_seconds", "pod")), ("drain {{pod}}", p(0.99, f"{_S}drain_phase_seconds", "pod"))), limit=15),
        Panel("Queue", "Actions that wait, and that are under way", "short", (("waiting {{pod}}", f"{_S}action_queue_depth{{{_POD}}}"), ("under way {{pod}}", f"{_S}execute_inflight{{{_POD}}}"))),
        Panel("Actions not executed", "Left for later, dropped, or already pending", "ops", (("deferred {{pod}}", r(f"{_S}actions_deferred_total", "pod")), ("dropped {{pod}}", r(f"{_S}actions_dropped_total", "pod")), ("deduped {{pod}}", r(f"{_S}actions_deduped_total", "pod")))),
        Panel("Sessions", "Operators that are there, come and go", "short", (("{{pod}}", f"{_S}active_sessions{{{_POD}}}"), ("{{event}} per second", r(f"{_S}session_lifecycle_total", "event")))),
        Panel("Refused on arrival", "Records and roll-ups that break a rule", "ops", (("machine: {{reason}}", r(f"{_S}machines_rejected_total", "reason")), ("roll-up: {{cluster}}", r(f"{_S}rollups_rejected_total", "cluster")))),
        Panel("Conflicts at the commit broker", "At most 0.15 in a steady fleet", "percentunit", (("share", f'sum(rate({_S}phase1_occ_proposals_total{{outcome="conflict"}}[5m])) / sum(rate({_S}phase1_occ_proposals_total[5m]))'),), limit=0.15),
        Panel("From demand to machine, p99", "A diagnostic without an objective: includes waiting for capacity", "s", (("{{pod}}", p(0.99, f"{_S}provisioning_latency_seconds", "pod")),)),
        Panel("Loop lag and reconcile age", "Whether the process keeps up, and how fresh its knowledge is", "s", (("lag p99 {{pod}}", p(0.99, "bigfleet_event_loop_lag_seconds", "pod")), ("reconciled ago {{pod}}", f"time() - {_S}last_reconcile_success_timestamp_seconds{{{_POD}}}")), limit=120),
        Panel("Provider out of reach", "For how long calls to the provider have failed on the way", "s", (("{{pod}}", f"{_S}provider_unreachable_seconds{{{_POD}}}"),), limit=60),
        Panel("Held off", "Actions decided and not started, by reason", "short", (("{{pod}} {{reason}}", f"sum by (pod, reason) ({_S}actions_held_off{{{_POD}}})"),)),
        Panel("Out of stock and doubted", "Offerings that the shard does not order for now, and listings that it does not believe yet", "short", (("out of stock {{pod}}", f"{_S}offering_cool_offs{{{_POD}}}"), ("listing doubted {{pod}}", f"{_S}listing_doubted{{{_POD}}}"))),
        Panel("Memory", "Resident memory of shards", "bytes", (("{{pod}}", 'process_resident_memory_bytes{component="shard"}'),)),
        Panel("CPU", "Cores used by shards", "short", (("{{pod}}", f'rate(process_cpu_seconds_total{{component="shard"}}[{_WINDOW}])'),)),
    ),
)  # fmt: skip

COORDINATOR: Final = Board(
    "coordinator",
    "BigFleet: coordinator",
    (
        Panel("Serving replica", "Exactly one", "short", (("{{pod}}", f"{_C}serving"),)),
        Panel("Term and epoch", "Rise when a leader changes", "short", (("term", f"max({_C}raft_term)"), ("epoch", f"max({_C}epoch)"))),
        Panel("Applies by outcome", "Writes per second", "ops", (("{{outcome}}", f"sum by (outcome) (rate({_C}apply_total[{_WINDOW}]))"),)),
        Panel("Apply lag", "Entries a replica is behind", "short", (("{{pod}}", f"scalar(max({_C}commit_index)) - {_C}applied_index"),)),
        Panel("Barrier, sync and dump, p99", "What reads and writes wait for", "s", (("barrier {{pod}}", p(0.99, f"{_C}barrier_seconds", "pod")), ("sync {{pod}}", p(0.99, f"{_C}journal_fsync_seconds", "pod")), ("dump {{pod}}", p(0.99, f"{_C}dump_seconds", "pod"))), limit=0.1),
        Panel("Peers", "1 while a connection stands", "short", (("{{pod}} to {{peer}}", f"{_C}peer_connected"),)),
        Panel("Elections and losses in an hour", "Both near 0 in a quiet fleet", "short", (("elections", f"sum(increase({_C}elections_total[1h]))"), ("lost: {{cause}}", f"sum by (cause) (increase({_C}leadership_lost_total[1h]))"))),
        Panel("Instructions", "Waiting for shards, and answered", "short", (("waiting {{shard}}", f"sum by (shard) ({_C}pending_instructions)"), ("{{kind}} {{outcome}} per second", f"sum by (kind, outcome) (rate({_C}instructions_acked_total[{_WINDOW}]))"))),
        Panel("Export and tick age", "How old the last exported snapshot and the last tick are", "s", (("export", f"time() - max({_C}snapshot_export_last_success_timestamp_seconds)"), ("tick {{pod}}", f"{_C}tick_age_seconds")), limit=900),
        Panel("Journal", "Size on disk", "bytes", (("{{pod}}", f"{_C}journal_bytes"),)),
        Panel("Rebalancer", "Machines moved between shards in an hour, and pairs that cool down", "short", (("tier {{tier}} {{outcome}}", f"sum by (tier, outcome) (increase({_C}rebalance_flows_total[1h]))"), ("cooling down", f"{_C}rebalance_cooldowns"))),
    ),
)  # fmt: skip

OPERATOR: Final = Board(
    "operator",
    "BigFleet: operators",
    (
        Panel("Session", "1 while the shard listens", "short", (("{{pod}}", f"{_O}session_up{{{_POD}}}"), ("reconnects per second {{pod}}", r(f"{_O}session_reconnects_total", "pod")))),
        Panel("Last acknowledgement", "How long ago the shard last took a roll-up", "s", (("{{pod}}", f"time() - {_O}last_ack_timestamp_seconds{{{_POD}}}"),), limit=60),
        Panel("Roll-up, p99", "How long adding up demand takes", "s", (("{{pod}}", p(0.99, f"{_O}rollup_duration_seconds", "pod")), ("{{phase}}", p(0.99, f"{_O}rollup_phase_duration_seconds", "phase"))), limit=1),
        Panel("Acknowledging, p99", "How long one batch of status writes takes", "s", (("{{pod}}", p(0.99, f"{_O}acknowledge_duration_seconds", "pod")),), limit=12),
        Panel("Acknowledged", "CapacityRequests per second", "ops", (("{{pod}}", r(f"{_O}acknowledged_total", "pod")),)),
        Panel("Showing machines, p99", "From a frame to the UpcomingNode", "s", (("{{phase}}", p(0.99, f"{_O}node_state_update_duration_seconds", "phase")),), limit=1.5),
        Panel("Writes of UpcomingNodes", "By operation and outcome", "ops", (("{{op}} {{outcome}}", r(f"{_O}upcoming_node_writes_total", "op, outcome")),)),
        Panel("Pressure", "Frames under way, and frames dropped", "short", (("under way {{pod}}", f"{_O}dispatch_inflight{{{_POD}}}"), ("dropped per second {{pod}}", r(f"{_O}outbox_dropped_total", "pod")))),
        Panel("Pod controller", "Pods looked at per second, by outcome", "ops", (("{{outcome}}", f"sum by (outcome) (rate(bigfleet_unschedulable_pod_controller_reconciles_total[{_WINDOW}]))"),)),
    ),
)  # fmt: skip

SLO: Final = Board(
    "slo",
    "BigFleet: objectives",
    (
        Panel("Configure, p99", "At most 15 s", "s", (("", p(0.99, f"{_S}configure_phase_seconds", "pod", "30m")),), kind="stat", limit=15),
        Panel("Bootstraps that succeed", "At least 0.99", "percentunit", (("", f'sum(rate({_S}action_execute_outcomes_total{{kind="Bootstrap",outcome="success"}}[30m])) / sum(rate({_S}action_execute_outcomes_total{{kind="Bootstrap"}}[30m]))'),), kind="stat", limit=0.99, at_least=True),
        Panel("Showing machines, p99", "At most 1.5 s", "s", (("", p(0.99, f"{_O}node_state_update_duration_seconds", "pod", "30m")),), kind="stat", limit=1.5),
        Panel("Shortfalls", "None", "short", (("", f"sum(max_over_time({_S}shortfalls[30m]))"),), kind="stat", limit=1),
        Panel("Cycle, p99", "At most 5 s", "s", (("", p(0.99, f"{_S}cycle_duration_seconds", "pod", "30m")),), kind="stat", limit=5),
        Panel("Roll-up, p99", "At most 1 s", "s", (("", p(0.99, f"{_O}rollup_duration_seconds", "pod", "30m")),), kind="stat", limit=1),
        Panel("Acknowledging, p99", "At most 12 s", "s", (("", p(0.99, f"{_O}acknowledge_duration_seconds", "pod", "30m")),), kind="stat", limit=12),
    ),
)  # fmt: skip

BOARDS: Final = (FLEET, SHARD, COORDINATOR, OPERATOR, SLO)


def board_json(board: Board) -> str:
    """Return a board as Grafana imports it."""
    document = {
        "uid": f"bigfleet-{board.name}",
        "title": board.title,
        "tags": ["bigfleet"],
        "schemaVersion": 39,
        "timezone": "utc",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [{"title": "Runbooks", "type": "link", "url": f"{_RUNBOOKS}/", "targetBlank": True}],
        "templating": {"list": [_DATASOURCE, _PODS]},
        "panels": [_panel(panel, number) for number, panel in enumerate(board.panels)],
    }
    return json.dumps(document, indent=1) + "\n"


_DATASOURCE: Final = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
}
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_PODS: Final = {
    "name": "pod",
    "label": "Pod",
    "type": "query",
    "datasource": _SOURCE,
    "query": "label_values(bigfleet_build_info, pod)",
    "includeAll": True,
    "multi": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
    "refresh": 2,
}


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.limit is not None:
        good, bad = ("red", "green") if panel.at_least else ("green", "red")
        steps = [{"color": good, "value": None}, {"color": bad, "value": panel.limit}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    width = 6 if panel.kind == "stat" else 12
    per_row = 24 // width
    targets = [
        {"refId": "ABCDEFGH"[index], "datasource": _SOURCE, "expr": query, "legendFormat": legend or "__auto"}
        | ({"instant": True, "format": "table"} if panel.kind == "table" else {})
        for index, (legend, query) in enumerate(panel.queries)
    ]
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": f"{panel.why}.",
        "datasource": _SOURCE,
        "gridPos": {"x": number % per_row * width, "y": number // per_row * 8, "w": width, "h": 8},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
    }
