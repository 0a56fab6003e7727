"""The catalogue of the dashboard's own metrics.

Must never: have the name of a shard, page parameter or reader as a label.
Rules: `dashboard#api`, `packaging#process-metrics`.
"""

from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import Label, catalogue, counter, gauge, histogram

_KINDS = ("page", "api", "whatif", "export", "stream", "asset", "probe")
_CODES = ("2xx", "3xx", "4xx", "5xx")
_TROUBLES = ("not_wired", "no_leader", "failed", "not_found", "busy", "not_offered", "refused")
_REFUSED = (
    "host",
    "method",
    "origin",
    "unauthenticated",
    "malformed",
    "too_large",
    "slow",
    "aborted",
    "connections",
    "streams",
)
_READS_REFUSED = ("address", "not_allowed", "redirect", "encoded", "too_large", "long_line", "too_many")

DASHBOARD_METRICS = catalogue(
    "dashboard",
    stable=(
        counter(
            "bigfleet_dashboard_requests_total",
            "Requests answered, by what was asked for and class of the status.",
            labels=(Label("kind", _KINDS), Label("code", _CODES)),
        ),
        histogram(
            "bigfleet_dashboard_request_duration_seconds",
            "From a request to its answer, waiting for sources included; streams are not in it.",
            labels=(Label("kind", tuple(kind for kind in _KINDS if kind != "stream")),),
            buckets=Buckets.A,
        ),
        counter(
            "bigfleet_dashboard_source_errors_total",
            "Requests that a source could not answer, by what was wrong with it.",
            labels=(Label("trouble", _TROUBLES),),
        ),
        counter(
            "bigfleet_dashboard_requests_refused_total",
            "Requests and connections refused or given up, by reason: the host that they name, the method, the origin, "
            "a reader who is not admitted, a head that cannot be read, size, time, a peer that went, too many at once.",
            labels=(Label("reason", _REFUSED),),
        ),
        counter(
            "bigfleet_dashboard_reads_refused_total",
            "Addresses of shards not used and answers to scrapes not read, by reason: no host:port, a host that is not "
            "allowed, a redirect, a compressed answer, too many bytes, a line that is too long, too many lines.",
            labels=(Label("reason", _READS_REFUSED),),
        ),
        counter(
            "bigfleet_dashboard_looks_total",
            "Times a shard or the coordinator was looked at on the timer or after a cycle, by whether it answered.",
            labels=(Label("source", ("shard", "coordinator")), Label("outcome", ("answered", "silent"))),
        ),
        gauge("bigfleet_dashboard_streams", "Open pages that are told of news right now."),
        gauge(
            "bigfleet_dashboard_series",
            "Series that the built-in scraper keeps an hour of.",
        ),
        counter(
            "bigfleet_dashboard_series_refused_total",
            "Samples left out because the built-in scraper keeps as many series as it may.",
        ),
        counter(
            "bigfleet_dashboard_history_samples_total",
            "Samples of the history, by whether they were written where --data-dir says, or were lost.",
            labels=(Label("outcome", ("kept", "lost")),),
        ),
        gauge(
            "bigfleet_dashboard_history_problem",
            "1 for what is wrong with the file of the history: damaged and begun anew, full, locked by another process, "
            "or not usable.",
            labels=(Label("problem", ("damaged", "full", "locked", "unusable")),),
        ),
    ),
)
