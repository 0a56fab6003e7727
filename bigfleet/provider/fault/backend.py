"""A backend that fails on command: the cluster name of a Configure selects the fault.

Why: a provider in any language that offers these triggers can be certified for the fault profile.
Must never: fail without a trigger, or let a trigger affect another machine.
Rules: `providers#fault-convention`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import CapacityType, Shape
from bigfleet.provider.contract import MAX_EPOCH_STEP
from bigfleet.provider.kit.backend import CannotResume, Op, Permanent, ResumeOutcome
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord
from bigfleet.provider.kit.limits import Limits

CREATE_LABEL: Final = "conformance.fault/create"
CREATE_ERROR: Final = "error"
SLOTS_THAT_FAIL: Final = 8

ERROR: Final = "fault-error"
TIMEOUT: Final = "fault-timeout"
SLOW_OK: Final = "fault-slow-ok"
DRAIN_ERROR: Final = "fault-drain-error"
NEVER_READY: Final = "fault-readiness-block"

LATE_S: Final = 1.0
READY_POLL_S: Final = 0.1
MOST_SLOTS: Final = 1_000_000

_SIZE: Final = FrozenMap({"cpu": "4", "memory": "16Gi"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """The settings of one fault provider."""

    provider: str = "fault"
    seed_count: int = 64
    transition_timeout_s: float = 2.0
    max_epoch_step: int = MAX_EPOCH_STEP

    def __post_init__(self) -> None:
        if not 0 <= self.seed_count <= MOST_SLOTS:
            raise InvalidFieldError("seed_count", self.seed_count, f"0 to {MOST_SLOTS}")
        if not self.transition_timeout_s > 0:
            raise InvalidFieldError("transition_timeout", self.transition_timeout_s, "a duration above 0")

    def limits(self) -> Limits:
        """Return the kit's limits: one timeout for every operation, and a fixed inventory."""
        seconds = self.transition_timeout_s
        return Limits(
            create=seconds,
            configure=seconds,
            drain=seconds,
            delete=seconds,
            ready_poll=min(READY_POLL_S, seconds),
            refresh=0.0,
            max_epoch_step=self.max_epoch_step,
        )


class FaultBackend:
    """Succeeds at once without a trigger."""

    def __init__(self, options: FaultOptions, clock: Clock) -> None:
        self._options, self._clock = options, clock

    async def describe(self) -> AsyncIterator[DescribedMachine]:
        for slot in self._slots():
            yield slot

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        if machine.labels.get(CREATE_LABEL) == CREATE_ERROR:
            raise Permanent(f"the slot is labelled {CREATE_LABEL}={CREATE_ERROR}")
        return CreatedHost(f"host-{op.id}")

    async def configure(self, _machine: MachineRecord, cluster: str, _blob: bytes, _op: Op) -> None:
        match cluster:
            case "fault-error":
                raise Permanent(f"cluster {ERROR} was asked for")
            case "fault-timeout":
                await asyncio.get_running_loop().create_future()
            case "fault-slow-ok":
                await self._until_too_late()

    async def node_ready(self, _machine: MachineRecord, cluster: str, _op: Op) -> bool:
        return cluster != NEVER_READY

    async def drain(self, machine: MachineRecord, _grace: timedelta, _op: Op) -> None:
        if machine.cluster == DRAIN_ERROR:
            raise Permanent(f"the machine is bound to cluster {DRAIN_ERROR}")

    async def delete(self, machine: MachineRecord, op: Op) -> None:
        """Give the host back; no trigger makes this fail."""

    async def resume(self, _machine: MachineRecord, _op: Op) -> ResumeOutcome:
        """Refuse, as B1006 demands of a provider that follows the fault convention."""
        raise CannotResume("the fault provider does not resume")

    async def _until_too_late(self) -> None:
        """Wait for the kit's cancellation, ignore it, and succeed a second later."""
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await self._clock.sleep(LATE_S)

    def _slots(self) -> Iterator[DescribedMachine]:
        spot, on_demand = _shape(CapacityType.SPOT), _shape(CapacityType.ON_DEMAND)
        for number in range(self._options.seed_count):
            yield DescribedMachine(
                f"{self._options.provider}-{number:03d}", on_demand if (number + 1) % 3 else spot
            )
        failing = on_demand.with_labels(FrozenMap({CREATE_LABEL: CREATE_ERROR}))
        for number in range(SLOTS_THAT_FAIL):
            yield DescribedMachine(f"{self._options.provider}-create-error-{number}", failing)


def _shape(capacity_type: CapacityType) -> Shape:
    is_spot = capacity_type is CapacityType.SPOT
    return Shape(
        instance_type="fault-standard-4",
        zone="fault-zone-a",
        capacity_type=capacity_type,
        price_per_hour=0.12 if is_spot else 0.40,
        interruption_probability=0.05 if is_spot else 0.0,
        resources=_SIZE,
        allocatable=_SIZE,
    )
