"""The backend protocol that the author of a provider implements, and the values that the kit passes to it.

Must never: show an author a fencing token or a message of the wire.
Rules: `providers#backend`.
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
    """Stable over attempts and restarts: use it as the idempotency token of your cloud."""
    kind: OperationKind
    deadline: datetime
    """When the kit cancels the coroutine and fails the machine, in UTC."""
    attempt: int
    log: FilteringBoundLogger = field(repr=False)
    resumed: bool = False
    """Whether a restart interrupted the operation. A Configure then has no blob, as blobs are not stored."""
    grace: timedelta = timedelta(0)
    """What is left of the grace period of a Drain."""


class BackendError(BigFleetError):
    """An expected failure of the backend; the text becomes `last_error`, on one line."""


class StockOut(BackendError):  # noqa: N818  the kit's words for authors are those of the contract
    """No machine of this kind is available now; the shard takes another slot."""


class Transient(BackendError):  # noqa: N818
    """A failure worth a retry; the kit repeats the step with back-off until the timeout."""


class Permanent(BackendError):  # noqa: N818
    """A failure that no retry helps; the machine is Failed at once."""


class NotOffered(BackendError):  # noqa: N818
    """This machine does not support the operation."""


class CannotResume(BackendError):  # noqa: N818
    """After a restart the backend cannot know what became of an operation; the machine is Failed."""


@dataclass(frozen=True, slots=True)
class ResumeOutcome:
    """The result of an operation that was resumed after a restart; a Create returns its host."""

    host: CreatedHost | None = None


@runtime_checkable
class Backend(Protocol):
    """The code that manages real machines. A step may be repeated with the same `op.id` and must then not act twice."""

    def describe(self) -> AsyncIterator[DescribedMachine]:
        """Yield every slot and host there is; an iteration that raises is ignored as a whole."""
        ...

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        """Obtain the host of a slot."""
        ...

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        """Let the host join a cluster; the blob is opaque and secret, and must not be stored."""
        ...

    async def drain(self, machine: MachineRecord, grace: timedelta, op: Op) -> None:
        """Empty the host within the grace period, by force after it, and reset it; the host stays."""
        ...


@runtime_checkable
class Deletes(Protocol):
    """A backend that can give a host back; without it Delete is UNIMPLEMENTED."""

    async def delete(self, machine: MachineRecord, op: Op) -> None: ...


@runtime_checkable
class KnowsReadiness(Protocol):
    """A backend that can check whether the node is Ready in its cluster; polled until it is (ADR-0056)."""

    async def node_ready(self, machine: MachineRecord, cluster: str, op: Op) -> bool: ...


@runtime_checkable
class Resumes(Protocol):
    """A backend with a way of its own to go on after a restart. Without it the kit repeats the interrupted step."""

    async def resume(self, machine: MachineRecord, op: Op) -> ResumeOutcome:
        """Complete the operation with this `op.id`, or find out what became of it; raise `CannotResume` if that is unknown."""
        ...


@runtime_checkable
class Watches(Protocol):
    """A backend that reports losses and price changes by itself."""

    def events(self) -> AsyncIterator[SubstrateEvent]: ...
