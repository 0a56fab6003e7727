"""Metrics of the dashboard itself.

Rules: dashboard 4 (`/metrics`), packaging 4.3. No metric carries the name of a shard, page parameter or reader.
"""

from functools import partial

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.metric import Component, Label, Metric, Type

_metric = partial(Metric, Component.DASHBOARD)

KINDS = ("page", "api", "whatif", "export", "stream", "asset", "probe")
CODES = ("2xx", "3xx", "4xx", "5xx")
TROUBLES = ("not_wired", "no_leader", "failed", "not_found", "busy", "not_offered", "refused")

DASHBOARD = (
    _metric(
        "bigfleet_dashboard_requests_total",
        Type.COUNTER,
        "Requests answered, by what was asked for and class of the status.",
        labels=(Label("kind", KINDS), Label("code", CODES)),
    ),
    _metric(
        "bigfleet_dashboard_request_duration_seconds",
        Type.HISTOGRAM,
        "From a request to its answer, waiting for sources included; streams are not in it.",
        labels=(Label("kind", tuple(kind for kind in KINDS if kind != "stream")),),
        buckets=Buckets.A,
    ),
    _metric(
        "bigfleet_dashboard_source_errors_total",
        Type.COUNTER,
        "Requests that a source could not answer, by what was wrong with it.",
        labels=(Label("trouble", TROUBLES),),
    ),
    _metric(
        "bigfleet_dashboard_looks_total",
        Type.COUNTER,
        "Times a shard or the coordinator was looked at on the timer or after a cycle, by whether it answered.",
        labels=(Label("source", ("shard", "coordinator")), Label("outcome", ("answered", "silent"))),
    ),
    _metric("bigfleet_dashboard_streams", Type.GAUGE, "Open pages that are told of news right now."),
    _metric(
        "bigfleet_dashboard_series",
        Type.GAUGE,
        "Series that the built-in scraper keeps an hour of.",
    ),
    _metric(
        "bigfleet_dashboard_series_refused_total",
        Type.COUNTER,
        "Samples left out because the built-in scraper keeps as many series as it may.",
    ),
)
