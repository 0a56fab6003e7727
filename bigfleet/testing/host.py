"""The processor of a virtual host: modelled work takes virtual time, one piece after another.

Why: slow cycles, late ticks and missed deadlines must occur in virtual time too, chosen by a seed.
Must never: measure real time, which would make two runs of one seed differ.
Rules: `testing#virtual-clock`.
"""

from collections.abc import Mapping

from bigfleet.aio.clock import nanoseconds
from bigfleet.testing.loop import VirtualTimeLoop, virtual_loop, wake


class VirtualHost:
    """One processor; `costs_s` gives the seconds per unit of each kind of work, other kinds are free."""

    def __init__(
        self, loop: VirtualTimeLoop | None = None, *, costs_s: Mapping[str, float] | None = None
    ) -> None:
        self._loop = loop or virtual_loop()
        self._costs_ns = {work: nanoseconds(cost) for work, cost in (costs_s or {}).items()}
        self._busy_until_ns = self._loop.now_ns
        self._charged_ns: dict[str, int] = {}

    @property
    def busy_until_ns(self) -> int:
        """The loop time until which the processor is busy."""
        return self._busy_until_ns

    @property
    def charged_ns(self) -> Mapping[str, int]:
        """The time that each kind of work has taken."""
        return dict(self._charged_ns)

    async def charge(self, work: str, units: int = 1) -> None:
        """Take the modelled time, after earlier work; free work does not wait."""
        cost_ns = self._costs_ns.get(work, 0) * units
        if cost_ns == 0:
            return
        self._charged_ns[work] = self._charged_ns.get(work, 0) + cost_ns
        self._occupy(cost_ns)
        done = self._loop.create_future()
        timer = self._loop.call_at_ns(self._busy_until_ns, wake, done)
        try:
            await done
        finally:
            timer.cancel()

    def stall(self, seconds: float) -> None:
        """Occupy the processor, as a pause or a blocking sync does; the host's timers fire late."""
        self._occupy(nanoseconds(seconds))

    def _occupy(self, cost_ns: int) -> None:
        self._busy_until_ns = max(self._busy_until_ns, self._loop.now_ns) + cost_ns
