"""The loop from a shard to its coordinator: report, handle the instructions of the answer, acknowledge with the next report.

Why: a shard must be able to run without a coordinator for ever, so nothing waits for this loop.
Must never: end, except by cancellation: after a defect of its own it starts again (`shard#part-ends`).
Must never have two calls under way, process an answer past its deadline, or use a term before it is durable.
Rules: `shard#coordinator-client`, `coordinator#shard-client`, `coordinator#self-registration`, `shard#part-ends`,
`coordinator#static-stability`.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, NoReturn

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.disk import Disk
from bigfleet.aio.net import Net
from bigfleet.coordlink.core.acks import AckQueue
from bigfleet.coordlink.core.domains import AssignedDomains
from bigfleet.coordlink.core.instruction_handling import HandledInstruction, InstructionHandler
from bigfleet.coordlink.core.obedience import SharedProvider, SharingShard, UnsharedProvider
from bigfleet.coordlink.core.reporting import report_of
from bigfleet.coordlink.core.view_schedule import ViewSchedule
from bigfleet.coordlink.term_file import TermFile
from bigfleet.model.errors import BigFleetError
from bigfleet.model.instruction import Ack, Outcome, ReportAnswer
from bigfleet.model.shard_report import OwnershipView
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.views import ShardViews, TermMark
from bigfleet.transport.coordinator import REPORT_SHARD
from bigfleet.transport.leader import LeaderClient, Resolve
from bigfleet.v1alpha1 import coordinator_pb2
from bigfleet.wire.shard_reports import answer_from_proto, report_to_proto

CALL_DEADLINE_S: Final = 5.0
REPORT_INTERVAL_S: Final = 10.0


class LateAnswerError(BigFleetError):
    """An answer came after its deadline, for example because the process was stopped for a while."""

    def __init__(self, took_s: float) -> None:
        super().__init__(f"the answer came after {took_s:.1f} s, allowed is {CALL_DEADLINE_S:.0f} s")
        self.took_s = took_s


class NotAcknowledgedError(BigFleetError):
    """The coordinator answered that it did not accept the report."""

    def __init__(self) -> None:
        super().__init__("the coordinator did not acknowledge the report")


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The state of the link to the coordinator."""

    address: str
    last_answer_ns: int = 0
    failures: int = 0
    """Reports in a row that failed."""
    last_error: str = ""
    reports: int = 0
    restarts: int = 0


class CoordinatorLink:
    """A shard's client of the coordinator; `run` is its task."""

    def __init__(
        self,
        views: ShardViews,
        mark: TermMark,
        address: str,
        *,
        data_dir: PurePath,
        net: Net,
        resolve: Resolve,
        clock: Clock,
        disk: Disk,
        metrics: Metrics,
        log: FilteringBoundLogger,
        interval_s: float = REPORT_INTERVAL_S,
        shared: SharedProvider | None = None,
    ) -> None:
        """Read the term that an earlier process stored; raises on an unreadable file.

        `shared` is given if the shard shares its provider with others.
        """
        self._views, self._mark, self._interval_s = views, mark, interval_s
        self._address, self._net, self._resolve = address, net, resolve
        self._clock, self._metrics, self._log = clock, metrics, log
        self._term_file = TermFile(disk, data_dir)
        self._domains = AssignedDomains()
        self._shared, self._views_sent = shared, ViewSchedule()
        self._instructions = InstructionHandler(
            UnsharedProvider(self._domains) if shared is None else SharingShard(shared)
        )
        self._acks = AckQueue()
        self._status = LinkStatus(address)
        self._answered_s: float | None = None
        self._raise_mark(self._term_file.load())

    @property
    def status(self) -> LinkStatus:
        return self._status

    @property
    def last_answer_age_s(self) -> float:
        """How long ago a report was last answered, by the monotonic clock; 0 if none ever was."""
        return 0.0 if self._answered_s is None else monotonic_s(self._clock) - self._answered_s

    @property
    def domains(self) -> AssignedDomains:
        return self._domains

    async def run(self) -> NoReturn:
        """Report at once and then at every interval, until cancelled."""
        while True:
            try:
                await self._report_forever()
            except Exception as error:  # any defect: only this loop starts again
                self._status = replace(self._status, restarts=self._status.restarts + 1)
                self._metrics.counter("bigfleet_shard_coordinator_client_restarts_total").inc()
                self._log.error("coordinator_client_died", exc_info=error, restarts=self._status.restarts)
            await self._clock.sleep(self._interval_s)

    async def _report_forever(self) -> NoReturn:
        async with LeaderClient(self._net, _addresses(self._address), resolve=self._resolve) as leader:
            due_s = monotonic_s(self._clock)
            while True:
                await self._attempt(leader)
                # Measured from start to start; after a longer attempt the next one follows at once.
                due_s = max(due_s + self._interval_s, monotonic_s(self._clock))
                await self._clock.sleep(due_s - monotonic_s(self._clock))

    async def _attempt(self, leader: LeaderClient) -> None:
        acks = self._acks.take()
        try:
            revision, view = self._view_due()
            answer = await self._report(leader, acks, view)
            if self._shared is not None:
                self._views_sent.answered(revision, answer.term, monotonic_s(self._clock))
                await self._shared.available()
            self._handle_answer(answer, None if view is None else revision)
        except BigFleetError as error:
            self._acks.put_back(acks)
            self._record_failure(error)
        except BaseException:
            self._acks.put_back(acks)
            raise

    def _view_due(self) -> tuple[int | None, OwnershipView | None]:
        """The revision and the view that the next report carries."""
        if self._shared is None:
            return None, None
        revision = self._shared.revision
        due = not self._shared.settled or self._views_sent.due(revision, monotonic_s(self._clock))
        return (revision, self._shared.view()) if due else (None, None)

    async def _report(
        self, leader: LeaderClient, acks: tuple[Ack, ...], ownership: OwnershipView | None
    ) -> ReportAnswer:
        self._status = replace(self._status, reports=self._status.reports + 1)
        message = await asyncio.to_thread(self._build_report, self._status.reports, acks, ownership)
        self._show_left_out(message)
        began_s = monotonic_s(self._clock)
        reply = await leader.unary(REPORT_SHARD, message, timeout_s=CALL_DEADLINE_S)
        took_s = monotonic_s(self._clock) - began_s
        if took_s > CALL_DEADLINE_S:
            raise LateAnswerError(took_s)
        answer = answer_from_proto(reply.message)
        if not answer.acknowledged:
            raise NotAcknowledgedError
        return answer

    def _build_report(
        self, number: int, acks: tuple[Ack, ...], ownership: OwnershipView | None
    ) -> coordinator_pb2.ShardReport:
        status, view, now_ns = self._views.status(), self._views.last_cycle(), self._clock.wall_ns()
        return report_to_proto(
            report_of(status, view, number=number, now_ns=now_ns, acks=acks, ownership=ownership)
        )

    def _show_left_out(self, message: coordinator_pb2.ShardReport) -> None:
        for kind, count in (
            ("shortfalls", message.shortfalls_left_out),
            ("instance_types", message.summary.instance_types_left_out),
            ("zones", message.summary.zones_left_out),
        ):
            self._metrics.gauge("bigfleet_shard_report_entries_left_out", kind=kind).set(count)

    def _handle_answer(self, answer: ReportAnswer, carried: int | None) -> None:
        """Handle an answer; the acks of its report are delivered, whatever the instructions do.

        `carried` is the revision of the ownership view that the report had.
        """
        term = self._instructions.term_after(answer, self._mark.value)
        if term is None:
            self._log.warning("coordinator_term_stale", term=answer.term, highest=self._mark.value)
            self._record_answer("stale")
            return
        try:
            self._raise_mark(term)
        except BigFleetError as error:
            # If a crash forgot the term, an older leader could get in; the leader sends all of it again.
            self._log.error("coordinator_term_not_stored", term=term, error=str(error))
            self._record_answer("answered")
            return
        for handled in self._instructions.handle(answer, term):
            self._acks.add(handled.ack)
            self._record_instruction(handled)
        if (
            self._shared is not None
            and not answer.instructions
            and carried is not None
            and carried == self._shared.revision
        ):
            self._shared.synchronised()
        self._record_answer("answered")

    def _raise_mark(self, term: int) -> None:
        if term > self._mark.value:
            if term > self._term_file.load():
                self._term_file.store(term)
            self._mark.raise_to(term)
            self._log.info("coordinator_term", term=term)
        self._metrics.gauge("bigfleet_shard_coordinator_term").set(self._mark.value)

    def _record_answer(self, outcome: str) -> None:
        now_ns, self._answered_s = self._clock.wall_ns(), monotonic_s(self._clock)
        if self._status.failures:
            self._log.info("coordinator_back", failures=self._status.failures)
        self._status = replace(self._status, last_answer_ns=now_ns, failures=0, last_error="")
        self._metrics.counter("bigfleet_shard_coordinator_reports_total", outcome=outcome).inc()
        self._metrics.gauge("bigfleet_shard_coordinator_last_answer_timestamp_seconds").set(now_ns / 1e9)

    def _record_failure(self, error: BigFleetError) -> None:
        failures = self._status.failures + 1
        self._status = replace(self._status, failures=failures, last_error=str(error))
        self._metrics.counter("bigfleet_shard_coordinator_reports_total", outcome="failed").inc()
        self._log.warning(
            "coordinator_report_failed", error=str(error), failures=failures, acks_waiting=len(self._acks)
        )

    def _record_instruction(self, handled: HandledInstruction) -> None:
        ack = handled.ack
        outcome = "repeated" if handled.repeated else ack.outcome.name.lower()
        self._metrics.counter(
            "bigfleet_shard_coordinator_instructions_total", kind=handled.kind, outcome=outcome
        ).inc()
        if ack.outcome is Outcome.ACCEPTED:
            self._log.info("instruction_obeyed", kind=handled.kind, id=ack.instruction_id, outcome=outcome)
        else:
            self._log.warning(
                "instruction_refused",
                kind=handled.kind,
                id=ack.instruction_id,
                outcome=outcome,
                reason=ack.reason,
            )


def _addresses(text: str) -> tuple[str, ...]:
    """Split one or more addresses at commas."""
    return tuple(part for part in text.split(",") if part)
