"""What a process does about its connections: its limits from flags, and its descriptors.

Why: every program that listens does the same; `bigfleet.obs.connections` reports on them.
Must never: start with fewer descriptors than the system allows, or with few and not say so.
Rules: `packaging#connection-limits`.
"""

from structlog.typing import FilteringBoundLogger

from bigfleet.cli.framework.settings import ConnectionFlags
from bigfleet.transport.connections import GrpcLimits
from bigfleet.transport.descriptors import DescriptorShares, raise_descriptor_limit

_TIGHT = 1024
"""With fewer descriptors a warning says so at start."""


def grpc_limits(flags: ConnectionFlags) -> GrpcLimits:
    """Return the limits that the flags describe."""
    return GrpcLimits(flags.max_connections, flags.max_unproven_per_address, flags.handshake_timeout)


def use_descriptors(wanted: int, log: FilteringBoundLogger) -> None:
    """Raise the limit of descriptors to what the system allows; a warning if that is less than the flags want."""
    limit = raise_descriptor_limit()
    share = DescriptorShares.of(limit).grpc
    if share < wanted and limit <= _TIGHT:
        log.warning("few_descriptors", limit=limit, grpc_connections=share, wanted=wanted)
