"""Handles a shard's report: registration, heartbeat, soft state, acks, instructions, in this order.

Must never: attach an instruction without a barrier that began after the report arrived, stamp another term than the one
this process won, or record a second address of a shard.
Rules: `coordinator#soft-state`, `coordinator#calls`, `coordinator#instructions`, `coordinator#self-registration`.
"""

from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import Command
from bigfleet.coordinator.core.results import RefusalCode
from bigfleet.coordinator.core.soft_state import ClockReading, ReportReceipt
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.core.tables import ShardRow, Tables
from bigfleet.coordinator.leader_check import Leadership
from bigfleet.coordinator.leader_state import LeaderState
from bigfleet.coordinator.proposer import Proposer
from bigfleet.model.instruction import PAYLOAD_KINDS, Ack, Instruction, ReportAnswer
from bigfleet.model.shard_report import ShardReport
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.address import check_advertised

_MISMATCH = "bigfleet_coordinator_shard_address_mismatch"


class ReportHandler:
    """Handles reports on the leader."""

    def __init__(
        self,
        *,
        leadership: Leadership,
        state_machine: CoordinatorStateMachine,
        proposer: Proposer,
        metrics: Metrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._leadership, self._state_machine, self._proposer = leadership, state_machine, proposer
        self._metrics, self._log = metrics, log

    async def report(self, report: ShardReport, call: Call, now: ClockReading) -> ReportAnswer:
        """Handle one report, which arrived at `now`, and return its answer."""
        leader = self._leadership.require()
        await self._register(report, call, now)
        self._leadership.require(leader)
        leader.first_report = leader.first_report or now
        receipt = leader.soft.record(report, now)
        self._log_receipt(report, receipt)
        if receipt.restarted:
            leader.delivery.restarted(report.shard_id)
            leader.partition.restarted(report.shard_id)
            leader.moves.restarted(report.shard_id)
        # Committed before anything is derived, so that what follows from an ack goes out with this very answer.
        await self._commit(leader, self._acknowledge(leader, report, now), call)
        await self._commit(leader, self._derive(leader, report.shard_id, now), call)
        instructions = leader.queue.next_answer(report.shard_id)
        if instructions:
            await self._proposer.barrier(call)
            self._leadership.require(leader)
        return ReportAnswer(leader.term, acknowledged=True, instructions=instructions)

    def forget(self, leader: LeaderState, shard: str) -> None:
        """Drop what is known of a removed shard, and its series."""
        leader.forget(shard)
        self._metrics.forget(_MISMATCH, shard=shard)
        self._metrics.forget("bigfleet_coordinator_pending_instructions", shard=shard)

    async def _register(self, report: ShardReport, call: Call, now: ClockReading) -> None:
        row = self._state_machine.read(lambda tables: tables.shards.get(report.shard_id))
        if row is not None:
            self._compare_address(row, report)
            return
        # Everything that lists shards dials this; later addresses are compared and never recorded.
        check_advertised(report.address, "shard_address")
        command = commands.add_shard(report.shard_id, report.address, now.wall_ns)
        result = await self._proposer.propose(command, call)
        if not result["ok"] and result["refusal"] != RefusalCode.SHARD_EXISTS:
            raise RpcRefusedError(
                Code.UNAVAILABLE, f"shard {report.shard_id} was not registered: {result['detail']}"
            )
        self._log.info("shard_registered", shard=report.shard_id, address=report.address)
        self._metrics.gauge(_MISMATCH, shard=report.shard_id).set(0)

    def _compare_address(self, row: ShardRow, report: ShardReport) -> None:
        differs = bool(report.address) and report.address != row.address
        gauge = self._metrics.gauge(_MISMATCH, shard=report.shard_id)
        leader = self._leadership.current
        state = leader.soft.of(report.shard_id) if leader is not None else None
        if differs and (state is None or state.address != report.address):
            self._log.warning(
                "shard_address_differs",
                shard=report.shard_id,
                registered=row.address,
                reported=report.address,
                remedy="remove the shard; it registers again with its next report",
            )
        gauge.set(int(differs))

    def _log_receipt(self, report: ShardReport, receipt: ReportReceipt) -> None:
        if receipt.truncated:
            self._metrics.counter("bigfleet_coordinator_shortfalls_truncated_total").inc(receipt.truncated)
        if receipt.lower_epoch:
            self._log.error(
                "incident_lower_shard_epoch",
                shard=report.shard_id,
                epoch=report.shard_epoch,
                what="an older process of this shard, or a second one of the same id, still reports",
            )

    async def _commit(self, leader: LeaderState, steps: Sequence[Command], call: Call) -> None:
        """Commit steps of moves; one that is refused is out of date, and derived again from what is there now."""
        for command in steps:
            result = await self._proposer.propose(command, call)
            self._leadership.require(leader)
            if not result["ok"]:
                self._log.info("move_step_refused", kind=command["kind"], detail=result["detail"])

    def _acknowledge(self, leader: LeaderState, report: ShardReport, now: ClockReading) -> list[Command]:
        found: list[Command] = []
        for ack in report.acks:
            instruction = leader.queue.acknowledge(report.shard_id, ack)
            if instruction is None or instruction.payload is None:
                continue
            handled = leader.partition if leader.soft.shares_provider(report.shard_id) else leader.delivery
            handled.acknowledged(report.shard_id, instruction, ack, now.monotonic_s)
            found += self._after(leader, report.shard_id, instruction, ack, now)
            self._metrics.counter(
                "bigfleet_coordinator_instructions_acked_total",
                kind=PAYLOAD_KINDS[type(instruction.payload)],
                outcome=ack.outcome.name.lower(),
            ).inc()
        gone = report.vanished_machine_ids
        return found + self._state_machine.read(
            lambda tables: leader.moves.vanished(report.shard_id, gone, tables)
        )

    def _after(
        self, leader: LeaderState, shard: str, instruction: Instruction, ack: Ack, now: ClockReading
    ) -> list[Command]:
        """The commands that follow from one ack."""
        return self._state_machine.read(
            lambda tables: leader.moves.acknowledged(shard, instruction, ack, tables, now.monotonic_s)
        )

    def _derive_unshared(self, leader: LeaderState, shard: str, now: ClockReading) -> None:
        def look(tables: Tables) -> tuple[bool, dict[tuple[str, str], None]]:
            return tables.relearn, dict(tables.domains_of_shard.get(shard, {}))

        relearn, desired = self._state_machine.read(look)
        if not relearn:
            leader.delivery.derive(shard, desired, now.monotonic_s)

    def _derive(self, leader: LeaderState, shard: str, now: ClockReading) -> list[Command]:
        dropped, found = leader.queue.dropped, list[Command]()
        if leader.soft.shares_provider(shard):
            self._state_machine.read(lambda tables: leader.partition.derive(shard, tables, now.monotonic_s))
            found = self._state_machine.read(
                lambda tables: leader.moves.derive(shard, tables, now.monotonic_s)
            )
        else:
            self._derive_unshared(leader, shard, now)
        if leader.queue.dropped > dropped:
            self._metrics.counter("bigfleet_coordinator_instructions_dropped_total").inc(
                leader.queue.dropped - dropped
            )
        return found
