"""Which machines the shard does not act on for now, and when it tries again.

Rules: `shard#offering-cool-off`, `shard#machine-back-off`.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.model.machine import Machine, MachineState
from bigfleet.shard.core.views import CycleView

STOCKED_OUT: Final = "stocked-out"
BACKED_OFF: Final = "machine-back-off"


@dataclass(frozen=True, slots=True)
class MachineHoldOff:
    """Why a machine is left alone."""

    reason: str
    error: str
    left_s: float
    """Until the next attempt; 0 when one is due."""


class MachineHoldOffs:
    """The hold-offs of the machines of one cycle."""

    def __init__(self, view: CycleView, now_s: float) -> None:
        """`now_s` is on the clock of `CycleView.now`."""
        self._now_s, self._backoffs = now_s, view.machine_backoffs
        self._cool_offs = {
            (item.instance_type, item.zone, item.capacity_type): item for item in view.cool_offs
        }

    def of(self, machine: Machine) -> MachineHoldOff | None:
        """The hold-off of a machine; None when it has none."""
        backoff = self._backoffs.get(machine.id)
        if backoff is not None:
            return MachineHoldOff(BACKED_OFF, backoff.error, self._left_s(backoff.until_s))
        if machine.state is not MachineState.SPECULATIVE or not self._cool_offs:
            return None
        shape = machine.shape
        cool_off = self._cool_offs.get((shape.instance_type, shape.zone, shape.capacity_type))
        if cool_off is None:
            return None
        return MachineHoldOff(STOCKED_OUT, cool_off.error, self._left_s(cool_off.until_s))

    def _left_s(self, until_s: float) -> float:
        return max(0.0, until_s - self._now_s)
