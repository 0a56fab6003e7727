"""What a report of a shard sets off: registration, heartbeat, soft state, acks, instructions.

Why: it is the only steady-state call, and the order of its steps is contract.
Must never: attach an instruction without a barrier that began after the report arrived, stamp another term than the one
this process won, or learn a second address of a shard.
Rules: coordinator 3, 4.3, 5 and 6.
"""

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.machine import Machine
from bigfleet.coordinator.core.results import Refusal
from bigfleet.coordinator.core.soft_state import Heard, Moment
from bigfleet.coordinator.core.tables import ShardRow, Tables
from bigfleet.coordinator.desk import Desk
from bigfleet.coordinator.reign import Reign, Throne, pairs_of
from bigfleet.model.instruction import PAYLOAD_KINDS, ReportAnswer
from bigfleet.model.shard_report import ShardReport
from bigfleet.obs.metrics import Metrics

_MISMATCH = "bigfleet_coordinator_shard_address_mismatch"


class Reporting:
    """Handles reports."""

    def __init__(
        self,
        *,
        throne: Throne,
        machine: Machine,
        desk: Desk,
        metrics: Metrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._throne, self._machine, self._desk = throne, machine, desk
        self._metrics, self._log = metrics, log

    async def report(self, report: ShardReport, call: Call, now: Moment) -> ReportAnswer:
        """Take one report in and answer it; `now` is when it arrived."""
        reign = self._throne.require()
        await self._register(report, call, now)
        self._throne.require(reign)
        reign.first_report = reign.first_report or now
        heard = reign.soft.hear(report, now)
        self._tell(report, heard)
        if heard.restarted:
            reign.delivery.restarted(report.shard_id)
        self._acknowledge(reign, report, now)
        self._derive(reign, report.shard_id, now)
        instructions = reign.queue.next_answer(report.shard_id)
        if instructions:
            await self._desk.barrier(call)
            self._throne.require(reign)
        return ReportAnswer(reign.term, acknowledged=True, instructions=instructions)

    def forget(self, reign: Reign, shard: str) -> None:
        """Drop what is known of a removed shard, its series included."""
        reign.forget(shard)
        self._metrics.forget(_MISMATCH, shard=shard)
        self._metrics.forget("bigfleet_coordinator_pending_instructions", shard=shard)

    async def _register(self, report: ShardReport, call: Call, now: Moment) -> None:
        row = self._machine.read(lambda tables: tables.shards.get(report.shard_id))
        if row is not None:
            self._compare_address(row, report)
            return
        command = commands.add_shard(report.shard_id, report.address, now.wall_ns)
        result = await self._desk.propose(command, call)
        if not result["ok"] and result["refusal"] != Refusal.SHARD_EXISTS:
            raise RpcRefusedError(
                Code.UNAVAILABLE, f"shard {report.shard_id} was not registered: {result['detail']}"
            )
        self._log.info("shard_registered", shard=report.shard_id, address=report.address)
        self._metrics.gauge(_MISMATCH, shard=report.shard_id).set(0)

    def _compare_address(self, row: ShardRow, report: ShardReport) -> None:
        differs = bool(report.address) and report.address != row.address
        gauge = self._metrics.gauge(_MISMATCH, shard=report.shard_id)
        reign = self._throne.reign
        state = reign.soft.of(report.shard_id) if reign is not None else None
        if differs and (state is None or state.address != report.address):
            self._log.warning(
                "shard_address_differs",
                shard=report.shard_id,
                registered=row.address,
                reported=report.address,
                remedy="remove the shard; it registers again with its next report",
            )
        gauge.set(int(differs))

    def _tell(self, report: ShardReport, heard: Heard) -> None:
        if heard.truncated:
            self._metrics.counter("bigfleet_coordinator_shortfalls_truncated_total").inc(heard.truncated)
        if heard.lower_epoch:
            self._log.error(
                "incident_lower_shard_epoch",
                shard=report.shard_id,
                epoch=report.shard_epoch,
                what="an older process of this shard, or a second one of the same id, still reports",
            )

    def _acknowledge(self, reign: Reign, report: ShardReport, now: Moment) -> None:
        for ack in report.acks:
            instruction = reign.queue.acknowledge(report.shard_id, ack)
            if instruction is None or instruction.payload is None:
                continue
            reign.delivery.acknowledged(report.shard_id, instruction, ack, now.monotonic_s)
            self._metrics.counter(
                "bigfleet_coordinator_instructions_acked_total",
                kind=PAYLOAD_KINDS[type(instruction.payload)],
                outcome=ack.outcome.name.lower(),
            ).inc()

    def _derive(self, reign: Reign, shard: str, now: Moment) -> None:
        state = reign.soft.of(shard)
        sharing = state is not None and state.summary is not None and bool(state.summary.partition_key)

        def look(tables: Tables) -> tuple[bool, dict[tuple[str, str], None]]:
            return tables.relearn, pairs_of(tables.domains_of_shard.get(shard))

        relearn, desired = self._machine.read(look)
        if relearn or sharing:
            return
        dropped = reign.queue.dropped
        reign.delivery.derive(shard, desired, now.monotonic_s)
        if reign.queue.dropped > dropped:
            self._metrics.counter("bigfleet_coordinator_instructions_dropped_total").inc(
                reign.queue.dropped - dropped
            )
