"""What `bigfleet all-in-one` prints: the addresses, what happens, and what to try next.

Must never: print more than a person can follow; machines that join or leave within a second share a line.
Rules: `packaging#all-in-one`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NoReturn

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.cli.framework.console import Console
from bigfleet.clustersim.session import SimulatedCluster
from bigfleet.provider.fake.provider import FakeProvider

_PRINT_EVERY_S: Final = 1.0
_SUMMARY_EVERY_S: Final = 15.0


class EventPrinter:
    """Collects the events of the simulated clusters and prints them in few lines."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock = console, clock
        self._start_s = monotonic_s(clock)
        self._waiting: list[tuple[str, str]] = []

    def record(self, kind: str, text: str) -> None:
        """Keep an event for the next print."""
        self._waiting.append((kind, text))

    async def run(
        self,
        clusters: Sequence[SimulatedCluster],
        fake: FakeProvider,
        *,
        dashboard: str,
        shard: str,
        coordinator: str,
        program: str,
    ) -> NoReturn:
        """Print the addresses once, then events and summaries until cancelled."""
        line = self._console.print_now
        line(f"dashboard    {dashboard or 'off'}")
        line(f"shard        {shard}")
        line(f"coordinator  {coordinator}")
        line("stop         Ctrl-C")
        line("")
        if dashboard:
            line("Try next, in another terminal:")
            line(
                f"  {program} needs --shard {shard}                 the needs of each cluster and their status"
            )
            line(f"  {program} explain --shard {shard} --need train  why a gang gets machines, or does not")
            line(f"  {program} watch --shard {shard}                 the fleet after every decision")
            line("")
        summed_s = monotonic_s(self._clock)
        while True:
            self._print_waiting()
            if monotonic_s(self._clock) - summed_s >= _SUMMARY_EVERY_S:
                summed_s = monotonic_s(self._clock)
                self._print(self._summary(clusters, fake))
            await self._clock.sleep(_PRINT_EVERY_S)

    def _print_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        joined: Counter[str] = Counter()
        left: Counter[str] = Counter()
        for kind, text in sorted(waiting, key=lambda event: event[0] != "session"):
            if kind == "node" and " has joined " in text:
                joined[text.rpartition(" ")[2]] += 1
            elif kind == "node" and " has left " in text:
                left[text.rpartition(" ")[2]] += 1
            elif kind != "reclaim":  # a reclaimed machine is printed when it has left
                self._print(text)
        for cluster, number in sorted(joined.items()):
            self._print(f"{_machines(number)} joined {cluster}")
        for cluster, number in sorted(left.items()):
            self._print(f"{_machines(number)} left {cluster}")

    def _summary(self, clusters: Sequence[SimulatedCluster], fake: FakeProvider) -> str:
        ready = ", ".join(f"{cluster.cluster} {cluster.state.ready}" for cluster in clusters)
        return f"machines at work: {ready}; {len(fake.calls())} calls to the provider so far"

    def _print(self, text: str) -> None:
        self._console.print_now(f"{monotonic_s(self._clock) - self._start_s:6.0f} s  {text}")


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"
