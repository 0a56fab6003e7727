"""Collectors built from the catalogue."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.aio.clock import NANOSECONDS, SystemClock
from bigfleet.coordinator.metrics import COORDINATOR_METRICS
from bigfleet.dashboard.metrics import DASHBOARD_METRICS
from bigfleet.obs.catalogue import EVERY_PROCESS, Metric, MetricCatalogue, MetricType
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.metrics import MetricMisuseError, Metrics, timed
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from bigfleet.provider.metrics import PROVIDER_METRICS
from bigfleet.shard.metrics import SHARD_METRICS

CATALOGUES = (
    SHARD_METRICS, COORDINATOR_METRICS, OPERATOR_METRICS, POD_CONTROLLER_METRICS, PROVIDER_METRICS, DASHBOARD_METRICS,
)  # fmt: skip
each_process = pytest.mark.parametrize("catalogue", CATALOGUES, ids=lambda catalogue: catalogue.component)


class SteppedClock(SystemClock):
    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


def metrics_of(catalogue: MetricCatalogue) -> tuple[Metric, ...]:
    return (*EVERY_PROCESS, *catalogue.metrics)


def build(catalogue: MetricCatalogue = SHARD_METRICS) -> tuple[Metrics, CollectorRegistry]:
    registry = CollectorRegistry()
    return Metrics(catalogue, registry, version="1.2.3", commit="abc"), registry


def text(registry: CollectorRegistry) -> str:
    body, content_type = metrics_text(registry)("")
    assert content_type.startswith("text/plain; version=")
    return body.decode()


def exported(registry: CollectorRegistry) -> dict[str, str]:
    """Return name and type of every family in the text that is served."""
    families = text_string_to_metric_families(text(registry))
    return {f"{f.name}_total" if f.type == "counter" else f.name: f.type for f in families}


@each_process
def test_what_is_served_is_what_the_catalogue_lists(catalogue: MetricCatalogue) -> None:
    _, registry = build(catalogue)
    ours = {name: kind for name, kind in exported(registry).items() if not name.startswith("process_")}
    unasked = {m.name for m in metrics_of(catalogue) if m.on_demand and not m.labels}
    assert ours == {m.name: m.type.value for m in metrics_of(catalogue) if m.name not in unasked}


def test_process_metrics_are_served_too() -> None:
    assert {
        "process_cpu_seconds_total",
        "process_start_time_seconds",
        "process_resident_memory_bytes",
    } <= set(exported(build()[1]))


def test_series_with_fixed_labels_stand_at_0_from_the_start() -> None:
    _, registry = build()
    for kind in ("Bootstrap", "Provision", "Reclaim", "Preempt", "Delete"):
        assert registry.get_sample_value("bigfleet_shard_actions_total", {"kind": kind}) == 0
        labels = {"kind": kind, "outcome": "fenced"}
        assert registry.get_sample_value("bigfleet_shard_action_execute_outcomes_total", labels) == 0
    assert registry.get_sample_value("bigfleet_shard_shortfalls_aged", {"bucket": "300+"}) == 0
    count = "bigfleet_shard_cycle_phase_duration_seconds_count"
    assert registry.get_sample_value(count, {"phase": "phase1"}) == 0


def test_build_info_says_which_build() -> None:
    _, registry = build()
    labels = {"component": "shard", "version": "1.2.3", "commit": "abc"}
    assert registry.get_sample_value("bigfleet_build_info", labels) == 1


def test_a_series_is_written_by_name_and_labels() -> None:
    metrics, registry = build()
    metrics.counter("bigfleet_shard_actions_total", kind="Delete").inc(3)
    metrics.gauge("bigfleet_shard_shortfalls").set(7)
    metrics.histogram("bigfleet_shard_cycle_duration_seconds").observe(0.3)
    assert registry.get_sample_value("bigfleet_shard_actions_total", {"kind": "Delete"}) == 3
    assert registry.get_sample_value("bigfleet_shard_shortfalls") == 7
    assert registry.get_sample_value("bigfleet_shard_cycle_duration_seconds_bucket", {"le": "0.512"}) == 1
    assert registry.get_sample_value("bigfleet_shard_cycle_duration_seconds_bucket", {"le": "0.256"}) == 0


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("bigfleet_shard_acions_total", {"kind": "Delete"}, "is no metric of the shard"),
        ("bigfleet_coordinator_serving", {}, "is no metric of the shard"),
        ("bigfleet_shard_actions_total", {}, "found labels none, allowed are kind"),
        ("bigfleet_shard_actions_total", {"king": "Delete"}, "found labels king, allowed are kind"),
        (
            "bigfleet_shard_actions_total",
            {"kind": "delete"},
            "kind: found 'delete', allowed is one of Bootstrap",
        ),
        ("bigfleet_shard_shortfalls", {}, "is a gauge, not a counter"),
    ],
)
def test_a_name_or_label_outside_the_catalogue_fails_loudly(
    name: str, labels: dict[str, str], message: str
) -> None:
    with pytest.raises(MetricMisuseError, match=message):
        build()[0].counter(name, **labels)


def test_an_on_demand_metric_is_absent_until_it_is_written() -> None:
    metrics, registry = build(COORDINATOR_METRICS)
    name = "bigfleet_coordinator_snapshot_export_last_success_timestamp_seconds"
    assert name not in exported(registry)
    metrics.gauge(name).set(5)
    assert registry.get_sample_value(name) == 5


def test_series_on_demand_are_not_made_in_advance() -> None:
    _, registry = build()
    assert "bigfleet_shard_inventory_machines{" not in text(registry)
    assert "bigfleet_tls_certificate_not_after_timestamp_seconds{" not in text(registry)


def test_series_of_what_is_gone_can_be_dropped() -> None:
    metrics, registry = build(COORDINATOR_METRICS)
    metrics.gauge("bigfleet_coordinator_pending_instructions", shard="shard-0").set(4)
    metrics.forget("bigfleet_coordinator_pending_instructions", shard="shard-0")
    metrics.forget("bigfleet_coordinator_pending_instructions", shard="never-seen")
    assert (
        registry.get_sample_value("bigfleet_coordinator_pending_instructions", {"shard": "shard-0"}) is None
    )


def test_a_gauge_set_as_a_whole_drops_the_series_that_are_gone() -> None:
    metrics, registry = build()
    name, names = (
        "bigfleet_shard_inventory_machines",
        ("state", "capacity_type", "interruption_penalty_bucket"),
    )

    def found(*labels: str) -> float | None:
        return registry.get_sample_value(name, dict(zip(names, labels, strict=True)))

    metrics.replace(name, {("Idle", "Spot", "0"): 9, ("Failed", "Spot", "0"): 1})
    metrics.replace(name, {("Idle", "Spot", "0"): 8, ("Draining", "Spot", "1"): 2})
    assert found("Idle", "Spot", "0") == 8
    assert found("Draining", "Spot", "1") == 2
    assert found("Failed", "Spot", "0") is None


def test_a_dropped_series_can_be_written_again() -> None:
    metrics, registry = build(COORDINATOR_METRICS)
    for value in (4, 5):
        metrics.gauge("bigfleet_coordinator_pending_instructions", shard="a").set(value)
        assert registry.get_sample_value("bigfleet_coordinator_pending_instructions", {"shard": "a"}) == value
        metrics.forget("bigfleet_coordinator_pending_instructions", shard="a")


def test_timed_observes_how_long_the_body_took() -> None:
    metrics, registry = build()
    clock = SteppedClock()

    def slow() -> None:
        with timed(clock, metrics.histogram("bigfleet_shard_cycle_duration_seconds")):
            clock.now_ns += 3 * NANOSECONDS
            raise RuntimeError

    with pytest.raises(RuntimeError):
        slow()
    assert registry.get_sample_value("bigfleet_shard_cycle_duration_seconds_sum") == 3.0


def test_two_processes_in_one_do_not_share_series() -> None:
    shard, first = build()
    _, second = build()
    shard.gauge("bigfleet_shard_shortfalls").set(1)
    assert first.get_sample_value("bigfleet_shard_shortfalls") == 1
    assert second.get_sample_value("bigfleet_shard_shortfalls") == 0


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text; version=1.0.0"])
def test_the_text_has_no_series_that_nobody_asked_for(accept: str) -> None:
    body, content_type = metrics_text(build()[1])(accept)
    assert b"_created" not in body
    assert b"bigfleet_shard_actions_total" in body
    assert ("openmetrics" in content_type) == ("openmetrics" in accept)


@each_process
def test_buckets_are_served_as_the_catalogue_says(catalogue: MetricCatalogue) -> None:
    _, registry = build(catalogue)
    served: dict[str, set[float]] = {}
    for family in text_string_to_metric_families(text(registry)):
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                served.setdefault(family.name, set()).add(float(sample.labels["le"]))
    for metric in metrics_of(catalogue):
        if metric.type is MetricType.HISTOGRAM and metric.name in served:
            assert metric.buckets is not None
            assert served[metric.name] == {*metric.buckets.bounds, float("inf")}


def test_a_series_can_be_read_back_and_counters_added_up() -> None:
    metrics, _ = build()
    metrics.counter("bigfleet_shard_actions_total", kind="Bootstrap").inc(2)
    metrics.counter("bigfleet_shard_actions_total", kind="Reclaim").inc()
    metrics.gauge("bigfleet_shard_rollup_quarantined", cluster="a").set(2)
    assert metrics.value("bigfleet_shard_rollup_quarantined", cluster="a") == 2
    assert metrics.value("bigfleet_shard_rollup_quarantined", cluster="b") == 0
    totals = metrics.totals("bigfleet_shard_")
    assert (totals["actions"], totals["reclaims_capped"]) == (3, 0)
    assert "rollup_quarantined" not in totals
    with pytest.raises(MetricMisuseError):
        metrics.value("bigfleet_shard_rollup_quarantined")
