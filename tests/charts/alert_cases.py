"""For each alert a failure on which it must fire, and a state just short of it on which it must stay silent.

Series are in promtool's notation, one sample a minute. Each row: the minute at which the failing series must have fired, the
failing series, the quiet ones, which are looked at every third minute until then and a little longer.
"""

from dataclasses import dataclass

S, C, O = "bigfleet_shard_", "bigfleet_coordinator_", "bigfleet_operator_"  # noqa: E741  the letters of the rules' own table
LONG = 90
Series = dict[str, str]


@dataclass(frozen=True)
class Case:
    """One alert."""

    at: int  # minutes
    fires: Series
    quiet: Series


def level(name: str, bad: str, good: str, at: int, labels: str = 'pod="a"') -> Case:
    """Return the case of a gauge that is bad or good all the time."""
    return Case(at, {f"{name}{{{labels}}}": f"{bad}x{LONG}"}, {f"{name}{{{labels}}}": f"{good}x{LONG}"})


def count(name: str, at: int, labels: str = 'pod="a"', bad: str = "0+1") -> Case:
    """Return the case of a counter that rises or stands still."""
    return Case(at, {f"{name}{{{labels}}}": f"{bad}x{LONG}"}, {f"{name}{{{labels}}}": f"7x{LONG}"})


def slow(name: str, limit: str, above: str, at: int, labels: str = 'pod="a"') -> Case:
    """Return the case of a histogram: all beyond the limit, or all up to it."""

    def series(low: str) -> Series:
        return {
            f'{name}_bucket{{{labels},le="{limit}"}}': f"{low}x{LONG}",
            f'{name}_bucket{{{labels},le="{above}"}}': f"0+60x{LONG}",
            f'{name}_bucket{{{labels},le="+Inf"}}': f"0+60x{LONG}",
        }

    return Case(at, series("0"), series("0+60"))


def shares(name: str, bad: dict[str, str], good: dict[str, str], at: int) -> Case:
    """Return the case of a quotient, by the series of its parts."""
    return Case(
        at,
        {f'{name}{{pod="a",{labels}}}': f"{values}x{LONG}" for labels, values in bad.items()},
        {f'{name}{{pod="a",{labels}}}': f"{values}x{LONG}" for labels, values in good.items()},
    )


def stuck(ages: tuple[str, str], name: str, at: int) -> Case:
    """Return the case of a time stamp that stands still, or goes with the clock (time is 0 at the start of a test)."""
    return Case(at, {f'{name}{{pod="a"}}': f"{ages[0]}x{LONG}"}, {f'{name}{{pod="a"}}': f"{ages[1]}x{LONG}"})


_BOOT = f"{S}action_execute_outcomes_total"
CASES: dict[str, Case] = {
    "ShardDown": level("up", "0", "1", 3, 'component="shard",pod="a"'),
    "ShardNotCycling": Case(
        25,
        {f'{S}cycle_duration_seconds_count{{pod="a"}}': f"7x{LONG}", 'process_start_time_seconds{pod="a"}': f"0x{LONG}"},
        {f'{S}cycle_duration_seconds_count{{pod="a"}}': f"0+6x{LONG}", 'process_start_time_seconds{pod="a"}': f"0x{LONG}"},
    ),
    "CycleSlow": slow(f"{S}cycle_duration_seconds", "1", "2.5", 20),
    "CycleOverrun": slow(f"{S}cycle_duration_seconds", "5", "10", 20),
    "ProviderUnreachable": level(f"{S}provider_reachable", "0", "1", 3),
    "ListingStale": stuck(("0", "0+60"), f"{S}last_reconcile_success_timestamp_seconds", 6),
    "ListingDoubted": Case(
        6, {f'{S}listing_doubted{{pod="a"}}': "0x3 1x2 0x85"}, {f'{S}listing_doubted{{pod="a"}}': f"0x{LONG}"}
    ),
    "OfferingOutOfStock": Case(
        17,
        {f'{S}offering_cool_offs{{pod="a"}}': f"2x{LONG}"},
        {f'{S}offering_cool_offs{{pod="a"}}': "1x9 0x2 1x9 0x70"},
    ),
    "ActionsHeldOff": Case(
        12,
        {f'{S}actions_held_off{{pod="a",reason="machine-back-off"}}': f"3x{LONG}"},
        {f'{S}actions_held_off{{pod="a",reason="provider-unreachable"}}': f"9x{LONG}"},
    ),
    "Shortfall": level(f"{S}shortfalls", "1", "0", 7),
    "ShortfallAged": Case(
        7,
        {f'{S}shortfalls_aged{{pod="a",bucket="60-299"}}': f"1x{LONG}"},
        {f'{S}shortfalls_aged{{pod="a",bucket="10-59"}}': f"9x{LONG}", f'{S}shortfalls_aged{{pod="a",bucket="300+"}}': f"0x{LONG}"},
    ),
    "CriticalShortfall": Case(
        4,
        {f'{S}shortfalls_by_priority{{pod="a",priority_class="critical"}}': f"1x{LONG}"},
        {f'{S}shortfalls_by_priority{{pod="a",priority_class="service"}}': f"9x{LONG}"},
    ),
    "ReclaimCapped": count(f"{S}reclaims_capped_total", 20),
    "RollupQuarantined": level(f"{S}rollup_quarantined", "1", "0", 2, 'pod="a",cluster="prod-1"'),
    "RollupRejected": count(f"{S}rollups_rejected_total", 5, 'pod="a",cluster="prod-1"'),
    "SessionsRefused": Case(
        12,
        {f'{S}sessions_refused_total{{pod="a",reason="full"}}': f"0+1x{LONG}"},
        {f'{S}sessions_refused_total{{pod="a",reason="full"}}': f"7x{LONG}", f'{S}sessions_refused_total{{pod="a",reason="identity"}}': f"0+1x{LONG}"},
    ),
    "MachineRejected": count(f"{S}machines_rejected_total", 5, 'pod="a",reason="price"'),
    "ActuationPaused": level(f"{S}actuation_paused", "1", "0", 65),
    "Fenced": Case(
        4,
        {f'{_BOOT}{{pod="a",kind="Bootstrap",outcome="fenced"}}': f"0+1x{LONG}"},
        {f'{_BOOT}{{pod="a",kind="Bootstrap",outcome="provider_error"}}': f"0+9x{LONG}"},
    ),
    "ShardSelfPaused": level(f"{S}self_paused", "1", "0", 1),
    "BootstrapFailing": shares(
        _BOOT,
        {'kind="Bootstrap",outcome="success"': "0+98", 'kind="Bootstrap",outcome="blob_error"': "0+2"},
        {'kind="Bootstrap",outcome="success"': "0+995", 'kind="Bootstrap",outcome="blob_error"': "0+5"},
        30,
    ),
    "ConfigureSlow": slow(f"{S}configure_phase_seconds", "15", "30", 30),
    "ActionsDropped": count(f"{S}actions_dropped_total", 25),
    "MoneyLoop": Case(
        85,
        {f'{S}idle_releases_total{{pod="a"}}': f"0+2x{LONG}", f'{S}actions_total{{pod="a",kind="Provision"}}': f"0+2x{LONG}"},
        {f'{S}idle_releases_total{{pod="a"}}': f"0+2x{LONG}", f'{S}actions_total{{pod="a",kind="Reclaim"}}': f"0+2x{LONG}"},
    ),
    "FailedMachines": shares(
        f"{S}inventory_machines", {'state="Failed"': "2", 'state="Idle"': "98"}, {'state="Failed"': "1", 'state="Idle"': "99"}, 35
    ),
    "PinnedOnSpot": Case(
        20,
        {f'{S}inventory_machines{{pod="a",state="Configured",capacity_type="Spot",interruption_penalty_bucket="pinned"}}': f"1x{LONG}"},
        {f'{S}inventory_machines{{pod="a",state="Configured",capacity_type="OnDemand",interruption_penalty_bucket="pinned"}}': f"9x{LONG}"},
    ),
    "SessionsLost": Case(
        45,
        {f'{S}active_sessions{{pod="a"}}': "10x20 4x70"},
        {f'{S}active_sessions{{pod="a"}}': "10x20 5x70"},
    ),
    "AuditLost": count(f"{S}audit_write_errors_total", 5),
    "IdentityRejected": Case(
        4,
        {f'{C}identity_rejected_total{{pod="a",rpc="AssignDomain"}}': f"0+1x{LONG}"},
        {f'{C}identity_rejected_total{{pod="a",rpc="AssignDomain"}}': f"7x{LONG}", f'{S}session_identity_rejected_total{{pod="a"}}': f"3x{LONG}"},
    ),
    "LoopLag": slow("bigfleet_event_loop_lag_seconds", "0.5", "1", 20),
    "ConnectionsAtLimit": Case(
        12,
        {
            'bigfleet_connections_open{pod="a",listener="grpc"}': f"512x{LONG}",
            'bigfleet_connections_limit{pod="a",listener="grpc"}': f"512x{LONG}",
            'bigfleet_connections_refused_total{pod="a",listener="grpc",reason="full"}': f"0+1x{LONG}",
        },
        {
            'bigfleet_connections_open{pod="a",listener="grpc"}': f"511x{LONG}",
            'bigfleet_connections_limit{pod="a",listener="grpc"}': f"512x{LONG}",
            'bigfleet_connections_refused_total{pod="a",listener="grpc",reason="full"}': f"7x{LONG}",
        },
    ),
    "PlaintextExposed": level("bigfleet_plaintext_exposed", "1", "0", 7),
    "CertificateExpiring": stuck(("259000", "300000"), "bigfleet_tls_certificate_not_after_timestamp_seconds", 65),
    "CoordinatorNoLeader": Case(
        3, {f'{C}serving{{pod="a"}}': f"0x{LONG}", f'{C}serving{{pod="b"}}': f"0x{LONG}"}, {f'{C}serving{{pod="a"}}': f"0x{LONG}", f'{C}serving{{pod="b"}}': f"1x{LONG}"}
    ),
    "CoordinatorTwoLeaders": Case(
        3, {f'{C}serving{{pod="a"}}': f"1x{LONG}", f'{C}serving{{pod="b"}}': f"1x{LONG}"}, {f'{C}serving{{pod="a"}}': f"0x{LONG}", f'{C}serving{{pod="b"}}': f"1x{LONG}"}
    ),
    "ProviderConflict": Case(
        3,
        {f'{C}provider_conflict{{pod="{pod}",provider="p:9000"}}': f"2x{LONG}" for pod in ("c-0", "c-1")},
        {f'{C}provider_conflict{{pod="c-0",provider="p:9000"}}': f"0x{LONG}"},
    ),
    "CoordinatorReplicaDown": level("up", "0", "1", 7, 'component="coordinator",pod="a"'),
    "CoordinatorTickStalled": level(f"{C}tick_age_seconds", "6", "5", 3),
    "CoordinatorSolo": Case(
        20,
        {f'{C}membership_solo{{pod="a"}}': f"1x{LONG}", 'up{component="coordinator",pod="a"}': f"1x{LONG}", 'up{component="coordinator",pod="b"}': f"1x{LONG}"},
        {f'{C}membership_solo{{pod="a"}}': f"1x{LONG}", 'up{component="coordinator",pod="a"}': f"1x{LONG}"},
    ),
    "CoordinatorElections": count(f"{C}elections_total", 15),
    "CoordinatorPeerLost": level(f"{C}peer_connected", "0", "1", 7, 'pod="a",peer="b"'),
    "CoordinatorApplyErrors": shares(
        f"{C}apply_total", {'outcome="error"': "0+2", 'outcome="success"': "0+998"}, {'outcome="error"': "0+1", 'outcome="success"': "0+1999"}, 25
    ),
    "CoordinatorFsyncSlow": slow(f"{C}journal_fsync_seconds", "0.1", "0.25", 20),
    "CoordinatorDumpFailing": count(f"{C}dump_failures_total", 5),
    "CoordinatorExportStale": stuck(("0", "0+60"), f"{C}snapshot_export_last_success_timestamp_seconds", 25),
    "InstructionsStuck": Case(
        20, {f'{C}pending_instructions{{pod="a",shard="s"}}': f"3x{LONG}"}, {f'{C}pending_instructions{{pod="a",shard="s"}}': "0 " + "3x10 0x10 " * 4}
    ),
    "ShardAddressMismatch": level(f"{C}shard_address_mismatch", "1", "0", 7, 'pod="a",shard="s"'),
    "OperatorDown": level("up", "0", "1", 7, 'component="operator",pod="a"'),
    "OperatorSessionDown": level(f"{O}session_up", "0", "1", 7),
    "OperatorReconnecting": Case(
        15, {f'{O}session_reconnects_total{{pod="a"}}': f"0+1x{LONG}"}, {f'{O}session_reconnects_total{{pod="a"}}': "0+1x4 4x86"}
    ),
    "RollupRefused": level(f"{O}rollup_refused", "1", "0", 12),
    "RollupSlow": slow(f"{O}rollup_duration_seconds", "1", "2", 20),
    "AckSlow": slow(f"{O}acknowledge_duration_seconds", "12", "30", 35),
    "NodePublishSlow": slow(f"{O}node_state_update_duration_seconds", "1.5", "5", 30, 'pod="a",phase="Ready"'),
    "OutboxDropped": count(f"{O}outbox_dropped_total", 5),
    "PodControllerErrors": Case(
        25,
        {'bigfleet_unschedulable_pod_controller_reconciles_total{pod="a",outcome="error"}': f"0+12x{LONG}"},
        {
            'bigfleet_unschedulable_pod_controller_reconciles_total{pod="a",outcome="error"}': f"0+5x{LONG}",
            'bigfleet_unschedulable_pod_controller_reconciles_total{pod="a",outcome="cr_exists"}': f"0+900x{LONG}",
        },
    ),
}  # fmt: skip


def _fleet(**changed: str) -> Series:
    """Return half an hour of a healthy fleet of three replicas, one shard and one operator, with some series changed."""
    healthy: Series = {
        **{f'up{{component="coordinator",pod="c-{n}"}}': "1x30" for n in range(3)},
        'up{component="shard",pod="s-0"}': "1x30",
        'up{component="operator",pod="o"}': "1x30",
        **{f'{C}serving{{pod="c-{n}"}}': f"{int(n == 0)}x30" for n in range(3)},
        **{f'{C}tick_age_seconds{{pod="c-{n}"}}': "0.1x30" for n in range(3)},
        **{f'{C}dump_failures_total{{pod="c-{n}"}}': "0x30" for n in range(3)},
        f'{S}cycle_duration_seconds_count{{pod="s-0"}}': "0+6x30",
        **{
            f'{S}cycle_duration_seconds_bucket{{pod="s-0",le="{le}"}}': "0+6x30"
            for le in ("0.1", "5", "+Inf")
        },
        'process_start_time_seconds{pod="s-0"}': "0x30",
        f'{S}last_reconcile_success_timestamp_seconds{{pod="s-0"}}': "0+60x30",
        f'{S}shortfalls_by_priority{{pod="s-0",priority_class="critical"}}': "0x30",
        f'{S}active_sessions{{pod="s-0"}}': "4x30",
        f'{S}self_paused{{pod="s-0"}}': "0x30",
        f'{S}provider_reachable{{pod="s-0"}}': "1x30",
        f'{S}session_identity_rejected_total{{pod="s-0"}}': "0x30",
        f'{O}session_up{{pod="o"}}': "1x30",
    }
    unknown = changed.keys() - healthy.keys()
    assert not unknown, unknown
    return healthy | changed


QUIET_DAYS: dict[str, Series] = {
    "a healthy half hour": _fleet(),
    "a provider that is restarted": _fleet(**{f'{S}provider_reachable{{pod="s-0"}}': "1x10 0 1x19"}),
    "a failover": _fleet(
        **{
            f'{C}serving{{pod="c-0"}}': "1x10 0x20",
            f'{C}serving{{pod="c-1"}}': "0x11 1x19",
            'up{component="coordinator",pod="c-0"}': "1x10 0x3 1x17",
        }
    ),
    "a rolling restart": _fleet(
        **{
            'up{component="shard",pod="s-0"}': "1x10 0 1x19",
            f'{S}cycle_duration_seconds_count{{pod="s-0"}}': "0+6x10 _ 0+6x19",
            f'{S}active_sessions{{pod="s-0"}}': "4x10 _ 0x3 4x16",
            f'{O}session_up{{pod="o"}}': "1x10 0x3 1x17",
            'process_start_time_seconds{pod="s-0"}': "0x10 _ 660x19",
            f'{S}last_reconcile_success_timestamp_seconds{{pod="s-0"}}': "0+60x10 _ 0 720+60x18",
            'up{component="coordinator",pod="c-1"}': "1x14 0x2 1x14",
        }
    ),
    "a cold start": _fleet(
        **{
            **{f'{C}serving{{pod="c-{n}"}}': f"0 {int(n == 0)}x29" for n in range(3)},
            f'{S}cycle_duration_seconds_count{{pod="s-0"}}': "0 0 0+6x28",
            f'{S}last_reconcile_success_timestamp_seconds{{pod="s-0"}}': "0 0 120+60x28",
            f'{S}active_sessions{{pod="s-0"}}': "0x5 4x25",
            f'{O}session_up{{pod="o"}}': "0x4 1x26",
        }
    ),
}
