"""The public names of the provider kit, for authors of providers.

Why: authors import one module, whose names are stable.

    class Metal:
        async def describe(self): ...                            # yield DescribedMachine.of("r12u07", ...)
        async def create(self, machine, op): ...                 # return CreatedHost(ref)
        async def configure(self, machine, cluster, blob, op): ...
        async def drain(self, machine, grace, op): ...

    kit = ProviderKit(Metal(), store=Journal("state/"), name="metal", limits=Limits(create=minutes(10)))
    await kit.serve("127.0.0.1:9000", tls=TlsFiles.from_flags(cert, key, ca), admin_socket="state/admin.sock")

Optional abilities are methods with the names of `Deletes`, `KnowsReadiness`, `Resumes` and `Watches`. Rules: `providers#kit`.
"""

from bigfleet.aio.clock import SystemClock
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.admin import AdminSocket
from bigfleet.provider.kit.audit import RepairAuditFile
from bigfleet.provider.kit.backend import (
    Backend,
    BackendError,
    CannotResume,
    Deletes,
    KnowsReadiness,
    NotOffered,
    Op,
    Permanent,
    ResumeOutcome,
    Resumes,
    StockOut,
    Transient,
    Watches,
)
from bigfleet.provider.kit.core.transitions import Lost, Priced
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.limits import Limits, Timeouts, minutes
from bigfleet.provider.kit.refresh import InvalidInventoryError, Refreshed
from bigfleet.provider.kit.store import StateStore, Volatile
from bigfleet.providerkit.logs import json_logs
from bigfleet.transport.tls import TlsFiles

__all__ = [
    "AdminSocket",
    "Backend",
    "BackendError",
    "CannotResume",
    "CapacityType",
    "CreatedHost",
    "Deletes",
    "DescribedMachine",
    "InvalidInventoryError",
    "Journal",
    "KnowsReadiness",
    "Limits",
    "Lost",
    "MachineRecord",
    "MachineState",
    "NotOffered",
    "Op",
    "OperationKind",
    "Permanent",
    "Priced",
    "ProviderKit",
    "Refreshed",
    "RepairAuditFile",
    "ResumeOutcome",
    "Resumes",
    "Shape",
    "StateStore",
    "StockOut",
    "SystemClock",
    "Timeouts",
    "TlsFiles",
    "Transient",
    "Volatile",
    "Watches",
    "json_logs",
    "minutes",
]
