"""The public names of the provider kit, for authors of providers.

Why: authors import one module; where a thing lives inside may change, these names do not.

    class Metal:
        async def describe(self): ...                            # yield Slot.of("r12u07", instance_type=..., ...)
        async def create(self, machine, op): ...                 # return Host(ref)
        async def configure(self, machine, cluster, blob, op): ...
        async def drain(self, machine, grace, op): ...

    kit = ProviderKit(Metal(), store=Journal("state/"), name="metal", limits=Limits(create=minutes(10)))
    await kit.serve("127.0.0.1:9000", tls=TlsFiles.from_flags(cert, key, ca), admin_socket="state/admin.sock")

Optional abilities are methods with the names of `Deletes`, `KnowsReadiness`, `Resumes` and `Watches`. Rules: providers 4.
"""

from bigfleet.aio.clock import SystemClock
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.provider.contract import Kind
from bigfleet.provider.kit.admin import AdminSocket
from bigfleet.provider.kit.audit import AuditFile
from bigfleet.provider.kit.backend import (
    Backend,
    BackendError,
    Deletes,
    KnowsReadiness,
    NotOffered,
    Op,
    Outcome,
    Permanent,
    Resumes,
    StockOut,
    Transient,
    Watches,
)
from bigfleet.provider.kit.core.transitions import Lost, Priced
from bigfleet.provider.kit.core.values import Host, Machine, Slot
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.limits import Limits, Timeouts, minutes
from bigfleet.provider.kit.refresh import InvalidInventoryError, Refreshed
from bigfleet.provider.kit.store import Store, Volatile
from bigfleet.providerkit.logs import json_logs
from bigfleet.transport.tls import TlsFiles

__all__ = [
    "AdminSocket",
    "AuditFile",
    "Backend",
    "BackendError",
    "CapacityType",
    "Deletes",
    "Host",
    "InvalidInventoryError",
    "Journal",
    "Kind",
    "KnowsReadiness",
    "Limits",
    "Lost",
    "Machine",
    "MachineState",
    "NotOffered",
    "Op",
    "Outcome",
    "Permanent",
    "Priced",
    "ProviderKit",
    "Refreshed",
    "Resumes",
    "Shape",
    "Slot",
    "StockOut",
    "Store",
    "SystemClock",
    "Timeouts",
    "TlsFiles",
    "Transient",
    "Volatile",
    "Watches",
    "json_logs",
    "minutes",
]
