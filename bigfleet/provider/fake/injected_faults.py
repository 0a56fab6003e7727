"""The faults that are injected at present: latencies, failures, holds, stock-outs, refusals.

Flags set them at start, verbs change them later.
Must never: touch a record, or let one setting change the random numbers of another: each has its own stream.
Rules: `providers#fake-flags`, `providers#fake-control`, `providers#fault-injection`.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.aio.net import Code
from bigfleet.aio.rng import Rng
from bigfleet.provider.fake.latency import NO_WAIT, Latency
from bigfleet.provider.fake.specs import ANY, LATENCY_KINDS, FailureRate, StockoutWindow
from bigfleet.provider.kit.core.values import MachineRecord

LATE_S: Final = 1.0
"""How long after its timeout an operation in `FailureMode.LATE` succeeds."""


class FailureMode(StrEnum):
    """How an accepted operation fails."""

    FAIL = "fail"
    STOCKOUT = "stockout"
    TRANSIENT = "transient"
    HANG = "hang"
    LATE = "late"


class CallFaultKind(StrEnum):
    """How a call fails on the wire."""

    REFUSE = "refuse"
    LOSE_ANSWER = "lose-answer"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class OperationFault:
    """The fault of one operation."""

    how: FailureMode
    message: str


@dataclass(slots=True)
class PlannedFault:
    """A fault for the next operations, of one machine or kind or of any."""

    fault: OperationFault
    machine_id: str = ""
    kind: str = ""
    times: int = 1

    def hits(self, kind: str, machine_id: str) -> bool:
        return self.machine_id in ("", machine_id) and self.kind in ("", kind)


@dataclass(slots=True)
class CallFault:
    """A fault of calls: how likely, how many more times, in which window."""

    what: CallFaultKind
    rpc: str = ANY
    probability: float = 1.0
    times: int | None = None
    from_s: float = 0.0
    to_s: float | None = None
    code: Code = Code.INTERNAL
    message: str = "injected refusal"

    def over(self, now_s: float) -> bool:
        return self.times == 0 or (self.to_s is not None and now_s >= self.to_s)


class InjectedFaults:
    """All faults that are injected at present."""

    def __init__(
        self,
        rng: Rng,
        now_s: Callable[[], float],
        *,
        latencies: Mapping[str, Latency],
        failures: Mapping[str, FailureRate],
        stockouts: tuple[StockoutWindow, ...],
        time_scale: float,
    ) -> None:
        self._rng, self.now_s, self._time_scale = rng, now_s, time_scale
        self._at_start = (dict(latencies), dict(failures), tuple(stockouts))
        self._held: dict[tuple[str, str], None] = {}  # a set in the order of arrival: (machine id, kind)
        self._waiting: list[asyncio.Future[None]] = []
        self.clear()

    def clear(self) -> None:
        """Go back to the faults of the flags."""
        latencies, failures, stockouts = self._at_start
        self.latencies = dict(latencies)
        self.failures = dict(failures)
        self.stockouts = list(stockouts)
        self.next: list[PlannedFault] = []
        self.disturbances: list[CallFault] = []
        self._pauses: dict[str, float] = {}
        self.release()

    # Operations.

    def wait_s(self, kind: str) -> float:
        """Draw how long a step or call takes."""
        latency = self.latencies.get(kind, NO_WAIT)
        return latency.draw(self._rng.stream(f"latency/{kind}")) / self._time_scale

    def take_operation_fault(self, kind: str, machine: MachineRecord) -> OperationFault | None:
        """Return the fault of an operation that begins now and use it up; None lets the operation succeed."""
        for planned in self.next:
            if planned.hits(kind, machine.id):
                planned.times -= 1
                self.next = [left for left in self.next if left.times > 0]
                return planned.fault
        if kind == "create" and self._out_of_stock(machine):
            offering = f"{machine.capacity_type.label} {machine.instance_type} in {machine.zone}"
            return OperationFault(FailureMode.STOCKOUT, f"no {offering}")
        failure = self.failures.get(kind)
        if failure is not None and self._rng.stream(f"fail/{kind}").random() < failure.probability:
            return OperationFault(FailureMode.FAIL, failure.message)
        return None

    def _out_of_stock(self, machine: MachineRecord) -> bool:
        now_s = self.now_s()
        capacity_type = machine.capacity_type.label
        return any(
            row.hits(machine.instance_type, machine.zone, now_s, capacity_type) for row in self.stockouts
        )

    # Holds.

    def hold(self, machine_id: str = "", kind: str = "") -> None:
        """Block operations of a machine, of a kind, or of both, before they end."""
        self._held[machine_id, kind] = None

    def release(self, machine_id: str = "", kind: str = "") -> int:
        """Remove the holds of this machine and kind, all of them without arguments; return how many."""
        freed = [
            (held_id, held_kind)
            for held_id, held_kind in self._held
            if machine_id in ("", held_id) and kind in ("", held_kind)
        ]
        for hold in freed:
            del self._held[hold]
        waiting, self._waiting = self._waiting, []
        for future in waiting:  # an operation with another hold waits again
            if not future.done():
                future.set_result(None)
        return len(freed)

    async def until_released(self, kind: str, machine_id: str) -> None:
        """Wait while a hold blocks this operation."""
        while any(key in self._held for key in ((machine_id, ""), ("", kind), (machine_id, kind))):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    # Calls.

    def pause(self, rpc: str, seconds: float) -> None:
        self._pauses[rpc] = self.now_s() + seconds

    def paused_s(self, rpc: str) -> float:
        """Return how long a call that arrives now must wait."""
        until_s = max(self._pauses.get(rpc, 0.0), self._pauses.get(ANY, 0.0))
        return max(until_s - self.now_s(), 0.0)

    def add_call_fault(self, fault: CallFault) -> None:
        self.disturbances.append(fault)

    def take_call_fault(self, what: CallFaultKind, rpc: str) -> CallFault | None:
        """Return the fault of a call that arrives now and use it up once; None for no fault."""
        now_s = self.now_s()
        self.disturbances = [left for left in self.disturbances if not left.over(now_s)]
        for found in self.disturbances:
            if found.what is not what or found.rpc not in (ANY, rpc) or now_s < found.from_s:
                continue
            if self._rng.stream(f"call/{what.value}").random() < found.probability:
                if found.times is not None:
                    found.times -= 1
                return found
        return None

    def as_dict(self) -> dict[str, object]:
        return {
            "latencies": {
                kind: str(self.latencies[kind]) for kind in LATENCY_KINDS if kind in self.latencies
            },
            "failures": {kind: [row.probability, row.message] for kind, row in sorted(self.failures.items())},
            "stockouts": [
                [row.instance_type, row.zone, row.capacity_type, row.from_s, row.to_s]
                for row in self.stockouts
            ],
            "holds": [{"id": machine_id, "kind": kind} for machine_id, kind in self._held],
            "next": [
                {"id": row.machine_id, "kind": row.kind, "times": row.times, "how": row.fault.how.value}
                for row in self.next
            ],
            "disturbances": [
                {
                    "what": row.what.value,
                    "rpc": row.rpc,
                    "probability": row.probability,
                    "times": row.times,
                    "code": row.code.name,
                    "to_s": row.to_s,
                }
                for row in self.disturbances
                if not row.over(self.now_s())
            ],
        }
