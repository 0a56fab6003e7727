"""Metrics of a provider, and one log line per transition.

Must never: log a blob or a token, or label a series with a machine's id.
Rules: `providers#kit-observability`, `providers#empty-token`.
"""

from collections.abc import Sequence

from prometheus_client import Gauge
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.net import Code
from bigfleet.model.machine import MachineState
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.contract import STATES
from bigfleet.provider.kit.core.changes import PutMachine, StateChange
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.validation import RecordFault
from bigfleet.provider.kit.workers import OperationResult


class ProviderObserver:
    """The metrics and log lines of one provider."""

    def __init__(self, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._metrics, self._log = metrics, log
        # Looked up once: they are set on every change.
        self._machines: dict[MachineState, Gauge] = {
            state: metrics.gauge("bigfleet_provider_machines", state=state.label) for state in STATES
        }

    def call_ended(self, rpc: str, code: Code, seconds: float) -> None:
        self._metrics.histogram("bigfleet_provider_rpc_seconds", rpc=rpc, code=code.name).observe(seconds)

    def fenced(self) -> None:
        self._metrics.counter("bigfleet_provider_fenced_total").inc()

    def unfenced(self) -> None:
        self._metrics.counter("bigfleet_provider_unfenced_total").inc()

    def refused(self, reason: str) -> None:
        self._metrics.counter("bigfleet_provider_refused_total", reason=reason).inc()

    def synced(self, seconds: float) -> None:
        self._metrics.histogram("bigfleet_provider_store_fsync_seconds").observe(seconds)

    def invalid(self, faults: Sequence[RecordFault]) -> None:
        for fault in faults:
            self._metrics.counter("bigfleet_provider_records_invalid_total", reason=fault.reason).inc()
            self._log.warning("record_invalid", machine=fault.machine_id, reason=fault.reason, why=fault.text)

    def applied(
        self, state: ProviderState, changes: Sequence[StateChange], before: Sequence[MachineState | None]
    ) -> None:
        """Log each machine whose state changed, and update the gauge."""
        for change, was in zip(changes, before, strict=True):
            if isinstance(change, PutMachine) and change.state is not was:
                row = state.table.row(change.id)
                failed = row is not None and change.state is MachineState.FAILED
                self._log.info(
                    "transition",
                    machine=change.id,
                    before=was.label if was else "",
                    state=change.state.label,
                    revision=change.revision,
                    error=state.table.machine(row).last_error if failed and row is not None else "",
                )
        self.counted(state)

    def counted(self, state: ProviderState) -> None:
        for machine_state, count in state.table.counts.items():
            self._machines[machine_state].set(count)

    def operation_ended(self, result: OperationResult) -> None:
        kind = result.operation.kind.value
        series = self._metrics.histogram(
            "bigfleet_provider_transition_seconds", kind=kind, outcome=result.outcome
        )
        series.observe(result.seconds)
        self._log.debug(
            "operation_ended",
            machine=result.operation.machine.id,
            kind=kind,
            operation=result.operation.operation_id,
            outcome=result.outcome,
            seconds=round(result.seconds, 6),
            error=result.error,
        )
