"""Carries out accepted operations: author code in a bounded pool, with timeouts, retries and readiness.

After a restart it repeats the interrupted step, or asks the backend what became of it.

Why: a call is answered at once and its operation follows. Author code may raise, hang, or return late or wrong results; each
case must end in a stable state with a one-line reason.
Must never: wait for author code beyond its timeout, keep a blob after the operation, or use a late result.
Rules: `providers#kit`, `providers#restart`, `providers#late-results`, `providers#stockout`; ADR-0056.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.backoff import Backoff
from bigfleet.aio.clock import NANOSECONDS, Clock, monotonic_s
from bigfleet.aio.rng import RandomStream
from bigfleet.provider.contract import INTERRUPTED, STOCKOUT_PREFIX, OperationKind
from bigfleet.provider.errors import StoreUnavailableError
from bigfleet.provider.kit.backend import (
    Backend,
    BackendError,
    CannotResume,
    Deletes,
    KnowsReadiness,
    NotOffered,
    Op,
    Permanent,
    Resumes,
    StockOut,
    Transient,
)
from bigfleet.provider.kit.core.changes import PutMachine
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.texts import one_line, without_secret
from bigfleet.provider.kit.core.transitions import fail, succeed
from bigfleet.provider.kit.core.validation import host_error
from bigfleet.provider.kit.core.values import CreatedHost, MachineRecord, with_host
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.state_writer import DecidedChanges, StateWriter

_STORE_RETRY_S = 1.0
_LEAST_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class AcceptedOperation:
    """One accepted operation; the only place that holds the blob."""

    machine: MachineRecord
    kind: OperationKind
    number: int
    operation_id: str
    blob: bytes = field(default=b"", repr=False)
    grace_s: int = 0
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class OperationResult:
    """How an operation ended, for metrics and log."""

    operation: AcceptedOperation
    outcome: str
    seconds: float
    error: str = ""


class Workers:
    """The worker pool of one provider."""

    def __init__(
        self,
        backend: Backend,
        writer: StateWriter,
        *,
        limits: Limits,
        clock: Clock,
        jitter: RandomStream,
        log: FilteringBoundLogger,
        on_ended: Callable[[OperationResult], None],
    ) -> None:
        self._backend, self._writer, self._limits = backend, writer, limits
        self._clock, self._jitter, self._log, self._on_ended = clock, jitter, log, on_ended
        self._permits = asyncio.Semaphore(limits.workers)
        self._tasks: dict[asyncio.Task[Any], None] = {}  # Any: of every result; a set in the order of arrival

    @property
    def count(self) -> int:
        """How many tasks there are, including backend calls that outlived their timeout."""
        return len(self._tasks)

    def begin(self, operation: AcceptedOperation) -> "asyncio.Task[None]":
        """Start an operation in the background; the task ends when the machine is in a stable state."""
        return self._spawn(self._run(operation), f"{operation.kind} {operation.machine.id}")

    async def stop(self, grace_s: float) -> None:
        """Cancel everything; the next start settles the operations that stay in progress.

        Waits no longer than the grace for author code that ignores cancellation.
        """
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=max(grace_s, _LEAST_GRACE_S))

    async def _run(self, operation: AcceptedOperation) -> None:
        accepted_s = monotonic_s(self._clock)
        async with self._permits:
            host, error = await self._outcome(operation)
        outcome = "failed" if error else "done"

        def decide(state: ProviderState = self._writer.state) -> DecidedChanges[bool]:
            entry = state.entry(operation.machine.id)
            put: PutMachine | None = None
            if entry is not None and error:
                put = fail(state, entry, operation.kind, operation.number, error)
            elif entry is not None:
                put = succeed(state, entry, operation.kind, operation.number, host)
            return put is not None, () if put is None else (put,)

        while True:
            try:
                counted = await self._writer.decide(operation.machine.id, decide)
                break
            except StoreUnavailableError as problem:
                # The machine stays transitional until the result is on disk.
                self._log.error("result_not_stored", machine=operation.machine.id, problem=str(problem))
                if not self._writer.can_write:
                    return  # the process has to end; the next one settles the machine
                await self._clock.sleep(_STORE_RETRY_S)
        seconds = monotonic_s(self._clock) - accepted_s
        self._on_ended(OperationResult(operation, outcome if counted else "discarded", seconds, error))

    async def _outcome(self, operation: AcceptedOperation) -> tuple[CreatedHost | None, str]:
        """Run author code within the timeout; return the host of a Create, or why it failed."""
        timeout_s = self._limits.timeout(operation.kind, operation.machine.instance_type) + operation.grace_s
        deadline_s = monotonic_s(self._clock) + timeout_s
        author = self._spawn(
            self._attempts(operation, timeout_s, deadline_s),
            f"author {operation.kind} {operation.machine.id}",
        )
        expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(timeout_s, lambda: expired.set_result(None))
        try:
            await asyncio.wait([author, expired], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            author.cancel()  # without effect on one that has ended
        if not author.done():
            author.add_done_callback(lambda late: self._discard(operation, late))
            return None, f"{operation.kind} timed out after {timeout_s:g} s"
        return self._read(operation, author)

    async def _attempts(
        self, operation: AcceptedOperation, timeout_s: float, deadline_s: float
    ) -> CreatedHost | None:
        """Run the step, again after each transient failure, then wait until the node is Ready."""
        backoff = Backoff(self._jitter, self._limits.retry)
        wall_ns = self._clock.wall_ns() + round(timeout_s * NANOSECONDS)
        deadline = datetime.fromtimestamp(wall_ns / NANOSECONDS, UTC)
        log = self._log.bind(
            machine=operation.machine.id, kind=operation.kind.value, operation=operation.operation_id
        )
        attempt = 0
        while True:
            attempt += 1
            op = Op(
                operation.operation_id,
                operation.kind,
                deadline,
                attempt,
                log,
                operation.resumed,
                timedelta(seconds=operation.grace_s),
            )
            try:
                host = await self._step(operation, op)
                break
            except Transient as problem:
                wait_s = backoff.next_s()
                if monotonic_s(self._clock) + wait_s >= deadline_s:
                    # Fail now and not at the timeout, as there is no further attempt before it.
                    raise Permanent(f"{problem} (gave up after {attempt} attempts)") from problem
                why = one_line(without_secret(str(problem), operation.blob))
                log.warning("operation_retried", attempt=attempt, wait_s=round(wait_s, 3), why=why)
                await self._clock.sleep(wait_s)
        if operation.kind is OperationKind.CONFIGURE and isinstance(self._backend, KnowsReadiness):
            await self._until_ready(self._backend, operation, op)
        return host

    async def _step(self, operation: AcceptedOperation, op: Op) -> CreatedHost | None:
        backend, machine = self._backend, operation.machine
        if operation.resumed and isinstance(backend, Resumes):
            return (await backend.resume(machine, op)).host
        if operation.resumed and operation.kind is OperationKind.CONFIGURE:
            # The blob is gone: a node that has joined is left alone, and success must be visible in the cluster.
            if not isinstance(backend, KnowsReadiness):
                raise CannotResume(
                    "the blob is not stored, and the backend has neither resume nor node_ready"
                )
            if await backend.node_ready(machine, machine.cluster, op):
                return None
        match operation.kind:
            case OperationKind.CREATE:
                return await backend.create(machine, op)
            case OperationKind.CONFIGURE:
                await backend.configure(machine, machine.cluster, operation.blob, op)
            case OperationKind.DRAIN:
                await backend.drain(machine, timedelta(seconds=operation.grace_s), op)
            case OperationKind.DELETE if isinstance(backend, Deletes):
                await backend.delete(machine, op)
            case _:
                raise NotOffered("this backend cannot delete")
        return None

    async def _until_ready(self, backend: KnowsReadiness, operation: AcceptedOperation, op: Op) -> None:
        while True:
            try:
                if await backend.node_ready(operation.machine, operation.machine.cluster, op):
                    return
            except Transient as problem:
                op.log.warning(
                    "readiness_unknown", why=one_line(without_secret(str(problem), operation.blob))
                )
            await self._clock.sleep(self._limits.ready_poll)

    def _read(
        self, operation: AcceptedOperation, author: "asyncio.Task[CreatedHost | None]"
    ) -> tuple[CreatedHost | None, str]:
        if author.cancelled():
            return None, f"{operation.kind} was cancelled by the backend"
        problem = author.exception()
        if problem is not None:
            return None, one_line(without_secret(self._spell(operation, problem), operation.blob))
        host = author.result()
        if operation.kind is not OperationKind.CREATE:
            return None, ""
        if not isinstance(host, CreatedHost) or not host.ref:
            return None, "create failed: the backend returned no host"
        flaw = host_error(with_host(operation.machine.shape, host))
        return (host, "") if flaw is None else (None, one_line(f"create failed: {flaw}"))

    def _spell(self, operation: AcceptedOperation, problem: BaseException) -> str:
        match problem:
            case StockOut():
                return f"{STOCKOUT_PREFIX} {problem}"
            case CannotResume():
                return f"{INTERRUPTED}: {problem}"
            case NotOffered():
                return f"not offered: {problem}"
            case BackendError():
                return f"{operation.kind} failed: {problem}"
            case _:
                self._log.error(
                    "backend_defect",
                    machine=operation.machine.id,
                    kind=operation.kind.value,
                    problem=one_line(without_secret(f"{type(problem).__name__}: {problem}", operation.blob)),
                )
                return f"{operation.kind} failed: {type(problem).__name__}: {problem}"

    def _discard(self, operation: AcceptedOperation, late: "asyncio.Task[CreatedHost | None]") -> None:
        ended = "cancelled" if late.cancelled() else "failed" if late.exception() else "succeeded"
        self._log.warning(
            "late_result_discarded", machine=operation.machine.id, kind=operation.kind.value, ended=ended
        )

    def _spawn(self, operation: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(operation, name=name)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        return task
