"""Carries out accepted operations: author code in a bounded pool, with timeouts, retries and readiness.

Why: a call is answered at once and its work follows; the work of authors raises, hangs, answers late or wrongly, and every
one of those must end in a settled machine with one line that says why.
Must never: wait for author code beyond its timeout, keep a blob after the operation, or let a late result count.
Rules: providers 4.1, 1.4 (late results), 1.8 (stock-outs); ADR-0056 (readiness).
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
from bigfleet.provider.contract import STOCKOUT_PREFIX, OperationKind
from bigfleet.provider.errors import StoreUnavailableError
from bigfleet.provider.kit.backend import (
    Backend,
    BackendError,
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
    """One accepted operation; the blob lives here and nowhere else."""

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

    work: AcceptedOperation
    outcome: str
    seconds: float
    error: str = ""


class Workers:
    """The pool of one provider."""

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
        self._places = asyncio.Semaphore(limits.workers)
        self._tasks: dict[asyncio.Task[Any], None] = {}  # Any: of every result; a set in the order of arrival

    @property
    def count(self) -> int:
        """How many tasks there are, late ones included."""
        return len(self._tasks)

    def begin(self, work: AcceptedOperation) -> "asyncio.Task[None]":
        """Start an operation in the background; the task ends once the machine is settled."""
        return self._spawn(self._run(work), f"{work.kind} {work.machine.id}")

    async def stop(self, grace_s: float) -> None:
        """Cancel everything. What was under way stays so in the state, and is settled by the next start.

        Author code that does not mind being cancelled is waited for no longer than the grace.
        """
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=max(grace_s, _LEAST_GRACE_S))

    async def _run(self, work: AcceptedOperation) -> None:
        accepted_s = monotonic_s(self._clock)
        async with self._places:
            host, error = await self._outcome(work)
        outcome = "failed" if error else "done"

        def decide(state: ProviderState = self._writer.state) -> DecidedChanges[bool]:
            entry = state.entry(work.machine.id)
            put: PutMachine | None = None
            if entry is not None and error:
                put = fail(state, entry, work.kind, work.number, error)
            elif entry is not None:
                put = succeed(state, entry, work.kind, work.number, host)
            return put is not None, () if put is None else (put,)

        while True:
            try:
                counted = await self._writer.decide(work.machine.id, decide)
                break
            except StoreUnavailableError as problem:
                # The machine stays on its way until the disk takes the news; it must not be forgotten.
                self._log.error("result_not_stored", machine=work.machine.id, problem=str(problem))
                if not self._writer.can_write:
                    return  # the process has to end; the next one settles the machine
                await self._clock.sleep(_STORE_RETRY_S)
        seconds = monotonic_s(self._clock) - accepted_s
        self._on_ended(OperationResult(work, outcome if counted else "discarded", seconds, error))

    async def _outcome(self, work: AcceptedOperation) -> tuple[CreatedHost | None, str]:
        """Let the author do it, within the time there is; return the host of a Create, or why it failed."""
        timeout_s = self._limits.timeout(work.kind, work.machine.instance_type) + work.grace_s
        deadline_s = monotonic_s(self._clock) + timeout_s
        author = self._spawn(
            self._attempts(work, timeout_s, deadline_s), f"author {work.kind} {work.machine.id}"
        )
        expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(timeout_s, lambda: expired.set_result(None))
        try:
            await asyncio.wait([author, expired], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            author.cancel()  # without effect on one that has ended
        if not author.done():
            author.add_done_callback(lambda late: self._discard(work, late))
            return None, f"{work.kind} timed out after {timeout_s:g} s"
        return self._read(work, author)

    async def _attempts(
        self, work: AcceptedOperation, timeout_s: float, deadline_s: float
    ) -> CreatedHost | None:
        """Do the step, again after each transient failure, then wait for the node."""
        backoff = Backoff(self._jitter, self._limits.retry)
        wall_ns = self._clock.wall_ns() + round(timeout_s * NANOSECONDS)
        deadline = datetime.fromtimestamp(wall_ns / NANOSECONDS, UTC)
        log = self._log.bind(machine=work.machine.id, kind=work.kind.value, operation=work.operation_id)
        attempt = 0
        while True:
            attempt += 1
            op = Op(work.operation_id, work.kind, deadline, attempt, log)
            try:
                host = await self._step(work, op)
                break
            except Transient as problem:
                wait_s = backoff.next_s()
                if monotonic_s(self._clock) + wait_s >= deadline_s:
                    # Told now rather than at the timeout, as nothing will be tried in between.
                    raise Permanent(f"{problem} (gave up after {attempt} attempts)") from problem
                why = one_line(without_secret(str(problem), work.blob))
                log.warning("operation_retried", attempt=attempt, wait_s=round(wait_s, 3), why=why)
                await self._clock.sleep(wait_s)
        if work.kind is OperationKind.CONFIGURE and isinstance(self._backend, KnowsReadiness):
            await self._until_ready(self._backend, work, op)
        return host

    async def _step(self, work: AcceptedOperation, op: Op) -> CreatedHost | None:
        backend, machine = self._backend, work.machine
        if work.resumed and isinstance(backend, Resumes):
            return (await backend.resume(machine, op)).host
        match work.kind:
            case OperationKind.CREATE:
                return await backend.create(machine, op)
            case OperationKind.CONFIGURE:
                await backend.configure(machine, machine.cluster, work.blob, op)
            case OperationKind.DRAIN:
                await backend.drain(machine, timedelta(seconds=work.grace_s), op)
            case OperationKind.DELETE if isinstance(backend, Deletes):
                await backend.delete(machine, op)
            case _:
                raise NotOffered("this backend cannot delete")
        return None

    async def _until_ready(self, backend: KnowsReadiness, work: AcceptedOperation, op: Op) -> None:
        while True:
            try:
                if await backend.node_ready(work.machine, work.machine.cluster, op):
                    return
            except Transient as problem:
                op.log.warning("readiness_unknown", why=one_line(without_secret(str(problem), work.blob)))
            await self._clock.sleep(self._limits.ready_poll)

    def _read(
        self, work: AcceptedOperation, author: "asyncio.Task[CreatedHost | None]"
    ) -> tuple[CreatedHost | None, str]:
        if author.cancelled():
            return None, f"{work.kind} was cancelled by the backend"
        problem = author.exception()
        if problem is not None:
            return None, one_line(without_secret(self._spell(work, problem), work.blob))
        host = author.result()
        if work.kind is not OperationKind.CREATE:
            return None, ""
        if not isinstance(host, CreatedHost) or not host.ref:
            return None, "create failed: the backend returned no host"
        flaw = host_error(with_host(work.machine.shape, host))
        return (host, "") if flaw is None else (None, one_line(f"create failed: {flaw}"))

    def _spell(self, work: AcceptedOperation, problem: BaseException) -> str:
        match problem:
            case StockOut():
                return f"{STOCKOUT_PREFIX} {problem}"
            case NotOffered():
                return f"not offered: {problem}"
            case BackendError():
                return f"{work.kind} failed: {problem}"
            case _:
                self._log.error(
                    "backend_defect",
                    machine=work.machine.id,
                    kind=work.kind.value,
                    problem=one_line(without_secret(f"{type(problem).__name__}: {problem}", work.blob)),
                )
                return f"{work.kind} failed: {type(problem).__name__}: {problem}"

    def _discard(self, work: AcceptedOperation, late: "asyncio.Task[CreatedHost | None]") -> None:
        ended = "cancelled" if late.cancelled() else "failed" if late.exception() else "succeeded"
        self._log.warning("late_result_discarded", machine=work.machine.id, kind=work.kind.value, ended=ended)

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        return task
