"""What `bigfleet all-in-one` prints: where things are, what happens, and what to try next.

Must never: print more than a person can follow; machines that join and leave within one look share a line.
Rules: packaging 1.6 (four lines within 3 s).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NoReturn

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.cli.framework.console import Console
from bigfleet.clustersim.session import SimulatedCluster
from bigfleet.provider.fake.provider import FakeProvider

_LOOK_S: Final = 1.0
_SUM_EVERY_S: Final = 15.0


class Storyteller:
    """Collects what clusters tell, and says it in few lines."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console, self._clock = console, clock
        self._start_s = monotonic_s(clock)
        self._waiting: list[tuple[str, str]] = []

    def tell(self, kind: str, words: str) -> None:
        """Take note of something that happened."""
        self._waiting.append((kind, words))

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
        """Say where things are, then what happens, for ever."""
        say = self._console.say
        say(f"dashboard    {dashboard or 'off'}")
        say(f"shard        {shard}")
        say(f"coordinator  {coordinator}")
        say("stop         Ctrl-C")
        say("")
        if dashboard:
            say("Try next, in another terminal:")
            say(f"  {program} needs --shard {shard}                 who asks for what, and how it fares")
            say(
                f"  {program} explain --shard {shard} --need train  why a gang gets its machines, or does not"
            )
            say(f"  {program} watch --shard {shard}                 the fleet after every decision")
            say("")
        summed_s = monotonic_s(self._clock)
        while True:
            self._say_waiting()
            if monotonic_s(self._clock) - summed_s >= _SUM_EVERY_S:
                summed_s = monotonic_s(self._clock)
                self._say(self._sum(clusters, fake))
            await self._clock.sleep(_LOOK_S)

    def _say_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        joined: Counter[str] = Counter()
        left: Counter[str] = Counter()
        for kind, words in sorted(waiting, key=lambda told: told[0] != "session"):
            if kind == "node" and " has joined " in words:
                joined[words.rpartition(" ")[2]] += 1
            elif kind == "node" and " has left " in words:
                left[words.rpartition(" ")[2]] += 1
            elif kind != "reclaim":  # what is asked back is told again when it has left
                self._say(words)
        for cluster, number in sorted(joined.items()):
            self._say(f"{_machines(number)} joined {cluster}")
        for cluster, number in sorted(left.items()):
            self._say(f"{_machines(number)} left {cluster}")

    def _sum(self, clusters: Sequence[SimulatedCluster], fake: FakeProvider) -> str:
        told = ", ".join(f"{cluster.cluster} {cluster.state.ready}" for cluster in clusters)
        return f"machines at work: {told}; {len(fake.calls())} calls to the provider so far"

    def _say(self, words: str) -> None:
        self._console.say(f"{monotonic_s(self._clock) - self._start_s:6.0f} s  {words}")


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"
