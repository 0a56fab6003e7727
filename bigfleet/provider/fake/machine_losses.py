"""Fails Configured machines at a random rate, as spot markets and hardware defects do.

Must never: fail a machine that is not Configured, or scan the fleet on a tick without a loss.
Rules: `providers#fake-flags`, `testing#seeded-machines`.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import RandomStream
from bigfleet.model.machine import MachineState
from bigfleet.provider.kit.core.state import ProviderState

TICK_S: Final = 1.0
LOST: Final = "interrupted: the substrate took the machine back"
_HOUR_S: Final = 3600.0
_DECLARED_BOUND: Final = 1.0


class MachineLosses:
    """A Poisson process over the Configured machines of one provider.

    Time is measured in expected losses: each tick adds rate times machines, and whenever the sum passes the next point of
    a process of rate 1, one machine is lost. With declared rates the process runs at the highest possible rate, and a
    candidate is spared with the probability by which its own rate is lower.
    """

    def __init__(
        self,
        state: ProviderState,
        lose: Callable[[str], Awaitable[object]],
        *,
        clock: Clock,
        stream: RandomStream,
        per_hour: float,
        declared: bool,
    ) -> None:
        self._state, self._lose, self._clock, self._stream = state, lose, clock, stream
        self._declared = declared
        self._rate = (_DECLARED_BOUND if declared else per_hour) / _HOUR_S
        self._expected = 0.0
        self._next = stream.expovariate(1.0)

    async def run(self) -> None:
        """Fail machines until cancelled."""
        while True:
            await self._clock.sleep(TICK_S)
            await self.tick(TICK_S)

    async def tick(self, seconds: float) -> None:
        """Fail the machines that are due after so many more seconds."""
        table = self._state.table
        self._expected += self._rate * table.counts[MachineState.CONFIGURED] * seconds
        while self._next <= self._expected:
            self._next += self._stream.expovariate(1.0)
            rows = table.rows((MachineState.CONFIGURED,))
            if not rows.size:
                return
            row = int(rows[self._stream.randrange(rows.size)])
            spared = self._declared and (
                self._stream.random() * _DECLARED_BOUND >= table.shape(row).interruption_probability
            )
            if not spared:
                await self._lose(table.id(row))
