"""What the author of a provider writes, and what the kit hands to it.

Why: an author says how to get, prepare, empty and give back a machine; order, fencing, state and disk are the kit's.
Must never: show an author a fencing token or a message of the wire.
Rules: providers 4.2.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias, runtime_checkable

from structlog.typing import FilteringBoundLogger

from bigfleet.model.errors import BigFleetError
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.core.transitions import Lost, Priced
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord

SubstrateEvent: TypeAlias = Lost | Priced


@dataclass(frozen=True, slots=True)
class Op:
    """One attempt at one operation."""

    id: str
    """Stable over attempts and restarts: use it as the idempotency token of the substrate."""
    kind: OperationKind
    deadline: datetime
    """When the kit gives up, in UTC; the coroutine is cancelled then and the machine is Failed."""
    attempt: int
    log: FilteringBoundLogger = field(repr=False)


class BackendError(BigFleetError):
    """Something an author foresaw; the text becomes `last_error`, on one line."""


class StockOut(BackendError):  # noqa: N818  the kit's words for authors are those of the contract
    """There is none of this kind to be had now; the shard takes another slot."""


class Transient(BackendError):  # noqa: N818
    """Worth another attempt; the kit repeats the step with growing waits until the timeout."""


class Permanent(BackendError):  # noqa: N818
    """No attempt will do better; the machine is Failed at once."""


class NotOffered(BackendError):  # noqa: N818
    """This machine cannot do that, now or ever."""


@dataclass(frozen=True, slots=True)
class ResumeOutcome:
    """How an operation ended well that was under way before a restart; a Create brings its host."""

    host: CreatedHost | None = None


@runtime_checkable
class Backend(Protocol):
    """The substrate. Each step may be repeated with the same `op.id`, and must then do no more than once."""

    def describe(self) -> AsyncIterator[DescribedMachine]:
        """Yield every slot and host there is; an answer that breaks off with an error counts as none."""
        ...

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        """Obtain the host of a slot."""
        ...

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        """Let the host join a cluster; the blob is opaque, secret, and to be kept nowhere."""
        ...

    async def drain(self, machine: MachineRecord, grace: timedelta, op: Op) -> None:
        """Empty the host within the grace, by force after it, and reset it; the host stays."""
        ...


@runtime_checkable
class Deletes(Protocol):
    """A backend that can give a host back; without it Delete is UNIMPLEMENTED."""

    async def delete(self, machine: MachineRecord, op: Op) -> None: ...


@runtime_checkable
class KnowsReadiness(Protocol):
    """A backend that can see whether the node is Ready in its cluster; asked until it is (ADR-0056)."""

    async def node_ready(self, machine: MachineRecord, cluster: str, op: Op) -> bool: ...


@runtime_checkable
class Resumes(Protocol):
    """A backend that can go on, after a restart, with an operation that it knows by `op.id`."""

    async def resume(self, machine: MachineRecord, op: Op) -> ResumeOutcome: ...


@runtime_checkable
class Watches(Protocol):
    """A backend that hears of losses and prices by itself."""

    def events(self) -> AsyncIterator[SubstrateEvent]: ...
