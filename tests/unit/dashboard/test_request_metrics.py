"""The dashboard's own metrics (`dashboard#api`, `packaging#process-metrics`)."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.aio.clock import SystemClock
from bigfleet.dashboard.core.series import MetricSample, SeriesStore
from bigfleet.dashboard.metrics import DASHBOARD_METRICS
from bigfleet.dashboard.request_metrics import RequestMetrics, kind_of, own_metrics
from bigfleet.dashboard.sources import SourceProblem


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "page"),
        ("/needs", "page"),
        ("/apiary", "page"),
        ("/api/v1/needs", "api"),
        ("/api/health", "api"),
        ("/api/v1/x/whatif", "whatif"),
        ("/api/v1/x/export/needs.csv", "export"),
        ("/api/v1/x/snapshot", "export"),
        ("/api/v1/x/stream", "stream"),
        ("/static/abc/app.css", "asset"),
        ("/metrics", "probe"),
    ],
)
def test_a_path_is_counted_by_what_it_asks_for(path: str, kind: str) -> None:
    assert kind_of(path) == kind


def test_every_problem_and_both_sources_have_a_series() -> None:
    store = SeriesStore(max_series=1)
    meter = RequestMetrics(own_metrics("c"), SystemClock(), store)
    for trouble in SourceProblem:
        meter.failed(trouble)
    for source in ("shard", "coordinator"):
        meter.looked(source, answered=False)
    store.record(
        "s", 1.0, [MetricSample("a", {}, 1.0), MetricSample("b", {}, 1.0), MetricSample("c", {}, 1.0)]
    )
    meter.exported("")
    store.record("s", 2.0, [MetricSample("b", {}, 1.0)])
    body, kind = meter.exported("")
    assert kind.startswith("text/plain")
    reply = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    assert all(
        reply["bigfleet_dashboard_source_errors_total", trouble.name.lower()] == 1
        for trouble in SourceProblem
    )
    assert reply["bigfleet_dashboard_looks_total", "shard", "silent"] == 1
    assert reply["bigfleet_dashboard_series",] == 1
    assert reply["bigfleet_dashboard_series_refused_total",] == 3
    own = {metric.name for metric in DASHBOARD_METRICS.metrics}
    bases = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name, *_ in reply}
    assert own <= bases
