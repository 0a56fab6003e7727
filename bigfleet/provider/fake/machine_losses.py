"""Takes machines away without being asked, as spot markets and dead hardware do.

Why: a shard must cope with Configured machines that fail by themselves, at a rate that a run can be graded against.
Must never: take a machine that is not Configured, or cost more than a glance per tick at a million machines.
Rules: providers 5.1 (`--loss-per-hour`, `--use-declared-loss`); scaletest 4.2 (Poisson, mean rate times Configured).
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


class Losses:
    """A Poisson process over the Configured machines of one book.

    Time is measured in expected losses: each tick adds rate times machines, and whenever the sum passes the next point of
    a process of rate one, somebody is lost. With declared rates the bound is used, and a candidate is spared by the share
    that its own rate falls short of it.
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
        """Take machines away until cancelled."""
        while True:
            await self._clock.sleep(TICK_S)
            await self.tick(TICK_S)

    async def tick(self, seconds: float) -> None:
        """Take away whoever is due after so much more time."""
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
