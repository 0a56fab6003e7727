"""What a process does about its connections: its limits from flags, its descriptors, its metrics and log lines about both.

Why: every program that listens does the same.
Must never: log a refusal per connection; a stranger decides how many there are.
Rules: `packaging#connection-limits`.
"""

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.aio.seldom import Seldom
from bigfleet.cli.framework.settings import ConnectionFlags
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.connections import ConnectionReport, GrpcLimits, Listener, RefusedFor
from bigfleet.transport.descriptors import DescriptorShares, raise_descriptor_limit

_TIGHT = 1024
"""With fewer descriptors a warning says so at start."""


def grpc_limits(flags: ConnectionFlags) -> GrpcLimits:
    """Return the limits that the flags describe."""
    return GrpcLimits(flags.max_connections, flags.max_unproven_per_address, flags.handshake_timeout)


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


def use_descriptors(wanted: int, log: FilteringBoundLogger) -> None:
    """Raise the limit of descriptors to what the system allows; a warning if that is less than the flags want."""
    limit = raise_descriptor_limit()
    share = DescriptorShares.of(limit).grpc
    if share < wanted and limit <= _TIGHT:
        log.warning("few_descriptors", limit=limit, grpc_connections=share, wanted=wanted)
