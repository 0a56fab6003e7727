"""Proposes commands and barriers for a call: deadline, metrics, and the status of each error.

Must never: answer that nothing happened where something may have: a timeout is an unknown outcome.
Rules: `coordinator#write-outcomes`, `coordinator#serving`, `coordinator#series`.
"""

from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.coordinator.core.commands import Command
from bigfleet.coordinator.core.results import RefusalCode
from bigfleet.coordinator.log import (
    PROPOSE_TIMEOUT_S,
    CommandOutcomeUnknownError,
    LogError,
    NotLeaderError,
    ReplicatedLog,
    Result,
    TooLargeError,
    UnavailableError,
    UnknownPeerError,
)
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.metrics import Metrics

STATUSES: Final[dict[type[BigFleetError], Code]] = {
    NotLeaderError: Code.FAILED_PRECONDITION,
    UnavailableError: Code.UNAVAILABLE,
    CommandOutcomeUnknownError: Code.UNAVAILABLE,
    TooLargeError: Code.INVALID_ARGUMENT,
    UnknownPeerError: Code.INVALID_ARGUMENT,
    LogError: Code.UNAVAILABLE,
}
"""The gRPC status of each error of the log."""


class Proposer:
    """Proposes within the caller's deadline, and counts the outcomes."""

    def __init__(self, log: ReplicatedLog, clock: Clock, metrics: Metrics) -> None:
        self._log, self._clock, self._metrics = log, clock, metrics
        # Looked up once, for speed.
        self._applied = {
            outcome: metrics.counter("bigfleet_coordinator_apply_total", outcome=outcome)
            for outcome in ("success", "error", "fsm_error")
        }

    async def propose(self, command: Command, call: Call | None = None) -> Result:
        """Commit one command and return its result, which may be a refusal by the tables; other failures raise."""
        try:
            result = await self._log.propose(command, timeout_s=_time_left_s(call))
        except CommandOutcomeUnknownError as error:
            self._applied["error"].inc()
            detail = f"outcome unknown, {command['kind']} may still take effect; ask, or repeat it ({error})"
            raise RpcRefusedError(Code.UNAVAILABLE, detail) from error
        except LogError:
            self._applied["error"].inc()
            raise
        self._applied["success" if result["ok"] else "fsm_error"].inc()
        if result.get("refusal") == RefusalCode.STALE_EPOCH:
            # Another leader took over before the commit, so the command had no effect.
            raise NotLeaderError(self._log.status().leader)
        return result

    async def barrier(self, call: Call | None = None) -> None:
        """Return once a majority has confirmed this leader after the call began."""
        began_s = monotonic_s(self._clock)
        try:
            await self._log.barrier(timeout_s=_time_left_s(call))
        except LogError as error:
            self._passed("not_leader" if isinstance(error, NotLeaderError) else "timeout", began_s)
            raise
        self._passed("success", began_s)

    def _passed(self, outcome: str, began_s: float) -> None:
        self._metrics.counter("bigfleet_coordinator_barrier_total", outcome=outcome).inc()
        self._metrics.histogram("bigfleet_coordinator_barrier_seconds").observe(
            monotonic_s(self._clock) - began_s
        )


def _time_left_s(call: Call | None) -> float:
    remaining_s = None if call is None else call.time_remaining_s()
    return PROPOSE_TIMEOUT_S if remaining_s is None else min(PROPOSE_TIMEOUT_S, remaining_s)
