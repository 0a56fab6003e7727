"""Metrics and log lines about the connections of a process's listeners.

Why: every program that listens does the same, also one that is built on the provider kit.
Must never: log a refusal per connection; a stranger decides how many there are.
Rules: `packaging#connection-limits`.
"""

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.aio.connection_report import ConnectionReport, Listener, RefusedFor
from bigfleet.aio.seldom import Seldom
from bigfleet.obs.metrics import Metrics


def connection_report(metrics: Metrics, log: FilteringBoundLogger, clock: Clock) -> ConnectionReport:
    """Return the callbacks of listeners: everything is counted, a kind of trouble is logged once a minute."""
    seldom = Seldom(clock)

    def refused(listener: Listener, reason: RefusedFor, address: str) -> None:
        metrics.counter("bigfleet_connections_refused_total", listener=listener, reason=reason).inc()
        if (unsaid := seldom.due((listener, reason))) is not None:
            log.warning(
                "connection_refused", listener=listener, reason=reason, address=address, unsaid=unsaid
            )

    def shortage(listener: Listener, error: OSError) -> None:
        metrics.counter("bigfleet_descriptor_shortages_total", listener=listener).inc()
        if (unsaid := seldom.due(listener)) is not None:
            log.error("descriptors_short", listener=listener, problem=str(error), unsaid=unsaid)

    def opened(listener: Listener, count: int, limit: int) -> None:
        metrics.gauge("bigfleet_connections_open", listener=listener).set(count)
        metrics.gauge("bigfleet_connections_limit", listener=listener).set(limit)

    return ConnectionReport(refused, shortage, opened)
