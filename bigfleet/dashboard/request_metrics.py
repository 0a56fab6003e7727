"""The dashboard's own metrics, and the text of its `/metrics`.

Must never: count by the name of a shard, a page's parameter or a reader; the number of such series has no bound.
Rules: `dashboard#api`, `packaging#process-metrics`.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.dashboard.core.series import SeriesStore
from bigfleet.dashboard.history import HistoryTrouble
from bigfleet.dashboard.history_store import HistoryProblem
from bigfleet.dashboard.metrics import DASHBOARD_METRICS
from bigfleet.dashboard.sources import SourceProblem
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.metrics import Metrics
from bigfleet.version import __version__

_PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_OWN: Final = "/api/v1/x/"


def own_metrics(commit: str) -> Metrics:
    """Return the metrics of a dashboard, at 0."""
    return Metrics(DASHBOARD_METRICS, CollectorRegistry(), version=__version__, commit=commit)


class RequestMetrics:
    """Counts requests, reads of sources, and failures."""

    def __init__(self, metrics: Metrics, clock: Clock, store: SeriesStore) -> None:
        self._metrics, self._clock, self._store = metrics, clock, store
        self._write = metrics_text(metrics.registry)
        self._refused = 0
        self.streams = metrics.gauge("bigfleet_dashboard_streams")

    def measured(self, base: str) -> Middleware:
        """Return the middleware that counts what a server under this base answers."""

        @web.middleware
        async def measure(request: web.Request, handler: Handler) -> web.StreamResponse:
            kind, begin_s = kind_of(request.path.removeprefix(base.rstrip("/"))), monotonic_s(self._clock)
            response = await handler(request)
            code = f"{response.status // 100}xx"
            self._metrics.counter("bigfleet_dashboard_requests_total", kind=kind, code=code).inc()
            if kind != "stream":
                took_s = monotonic_s(self._clock) - begin_s
                self._metrics.histogram("bigfleet_dashboard_request_duration_seconds", kind=kind).observe(
                    took_s
                )
            return response

        return measure

    def looked(self, source: str, answered: bool) -> None:
        """Count a read of a shard or the coordinator."""
        outcome = "answered" if answered else "silent"
        self._metrics.counter("bigfleet_dashboard_looks_total", source=source, outcome=outcome).inc()

    def failed(self, trouble: SourceProblem) -> None:
        """Count a request that a source could not answer."""
        self._metrics.counter("bigfleet_dashboard_source_errors_total", trouble=trouble.name.lower()).inc()

    def refused(self, reason: str) -> None:
        """Count a request or connection that is refused or given up."""
        self._metrics.counter("bigfleet_dashboard_requests_refused_total", reason=reason).inc()

    def read_refused(self, reason: str, times: int = 1) -> None:
        """Count what is not read from the fleet: an address, an answer, a line of it."""
        self._metrics.counter("bigfleet_dashboard_reads_refused_total", reason=reason).inc(times)

    def sampled(self, kept: bool) -> None:
        """Count a sample of the history."""
        outcome = "kept" if kept else "lost"
        self._metrics.counter("bigfleet_dashboard_history_samples_total", outcome=outcome).inc()

    def history_trouble(self, trouble: HistoryTrouble | None) -> None:
        """Note what is wrong with the file of the history."""
        for problem in HistoryProblem:
            here = trouble is not None and trouble.problem is problem
            self._metrics.gauge("bigfleet_dashboard_history_problem", problem=problem.value).set(here)

    def exported(self, accept: str) -> tuple[bytes, str]:
        """Return what a scrape gets: body and content type."""
        self._metrics.gauge("bigfleet_dashboard_series").set(len(self._store))
        refused, self._refused = self._store.refused - self._refused, self._store.refused
        self._metrics.counter("bigfleet_dashboard_series_refused_total").inc(refused)
        return self._write(accept)


def kind_of(path: str) -> str:
    """Return the kind of request that a path is, as the metrics label it."""
    if path in _PROBES:
        return "probe"
    if path.startswith("/static/"):
        return "asset"
    if path == f"{_OWN}stream":
        return "stream"
    if path == f"{_OWN}whatif":
        return "whatif"
    if path.startswith(f"{_OWN}export/") or path == f"{_OWN}snapshot":
        return "export"
    return "api" if path.startswith("/api/") or path == "/api" else "page"
