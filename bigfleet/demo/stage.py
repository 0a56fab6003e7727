"""The stage of a demo: a shard, a fake provider and operators on virtual time, and somebody who tells what happens.

Why: a story of ten minutes is told in a second, is the same each time, and every sentence of it is checked: what the
narrator claims is awaited as a fact, and a fact that does not come ends the demo with an error.
Must never: make something happen inside the shard; the stage does what a provider, an operator or a network can do.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bigfleet.aio.clock import NANOSECONDS, timeout
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.demo.virtual_fleet import FAKE_HOST, SHARD_HOST, VirtualFleet
from bigfleet.explain.amounts import readable
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.provider.fake.inventory import Pool
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.shard.core.views import CycleView
from bigfleet.shard.read.explainer import Explainer

PATIENCE_S: Final = 1_800.0

Say = Callable[[str], object]


class StoryError(BigFleetError):
    """Something that the story tells did not happen."""


class Stage:
    """Where a story is played."""

    def __init__(self, say: Say, pools: Sequence[Pool], fake: FakeOptions | None = None) -> None:
        self._say = say
        # The rails pace releases over several cycles, and a demo shows the decision itself.
        bare: dict[str, Any] = {"reclaim_cap_fraction": 0.0, "empty_rollup_guard": False}
        self.world = VirtualFleet(pools, fake, execute_concurrency=16, **bare)
        self._operators: dict[str, SessionPeer] = {}
        self._start_ns = self.world.clock.monotonic_ns()

    def tell(self, words: str) -> None:
        """Say what happens, with the time of the story."""
        passed_s = (self.world.clock.monotonic_ns() - self._start_ns) / NANOSECONDS
        self._say(f"{int(passed_s // 60):3}:{int(passed_s % 60):02}  {words}")

    async def asks(self, cluster: str, *needs: Need) -> None:
        """Let a cluster ask for all this and nothing else."""
        if cluster not in self._operators:
            self._operators[cluster] = await self.world.operator(cluster)
        wanted = "; ".join(
            f"{readable(need.total.texts())} at priority {need.profile.priority:,}" for need in needs
        )
        self.tell(f"{cluster} asks for {wanted or 'nothing'}")
        await self._operators[cluster].demand(*needs, at_ns=self.world.clock.wall_ns())

    async def vanishes(self, cluster: str) -> None:
        """Let the operator of a cluster go."""
        await self._operators.pop(cluster).close()
        self.tell(f"the operator of {cluster} is gone")

    async def outage(self) -> None:
        """Cut the provider off."""
        self.world.network.partition([SHARD_HOST], [FAKE_HOST])
        self.tell("the provider cannot be reached any more")

    def outage_ends(self) -> None:
        """Let the provider be reached again."""
        self.world.network.heal()
        self.tell("the provider is back")

    async def until(self, words: str, fact: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        """Wait until something is true, then say it; the story ends here if it does not become true."""
        try:
            async with timeout(self.world.clock, within_s):
                await self.world.until(fact, within_s=within_s + 1)
        except TimeoutError:
            raise StoryError(
                f"the story says that {words}, and it did not happen within {within_s:g} s"
            ) from None
        self.tell(words)

    async def cycles(self, count: int) -> None:
        """Let the shard decide so many times more."""
        await self.world.cycles(count)

    def holds(self, words: str, fact: bool) -> None:
        """Say something that is true now; the story ends here if it is not."""
        if not fact:
            raise StoryError(f"the story says that {words}, and it is not so")
        self.tell(words)

    # What is known

    def machines(self, cluster: str = "", state: MachineState | None = None) -> list[Machine]:
        """The machines as the shard knows them, by id."""
        view = self.view()
        return [
            machine
            for machine in (view.snapshot.machines() if view else ())
            if cluster in ("", machine.cluster) and state in (None, machine.state)
        ]

    def serving(self, cluster: str) -> int:
        """How many machines work for a cluster."""
        inventory = self.world.shard.inventory.snapshot()
        return sum(
            machine.cluster == cluster and machine.state is MachineState.CONFIGURED
            for machine in inventory.machines()
        )

    def view(self) -> CycleView | None:
        """The last cycle."""
        return self.world.shard.last_cycle()

    def reason(self, cluster: str) -> str:
        """Why the first need of a cluster is short in the last cycle; empty when it is not, or not there."""
        view = self.view()
        verdicts = view.decision.verdicts if view else ()
        for place in range(len(verdicts)):
            verdict = verdicts[place]
            if verdict.need.cluster == cluster:
                return "" if verdict.satisfied else verdict.reason.value
        return ""

    async def why(self, cluster: str) -> Mapping[str, Any]:
        """Explain the need of a cluster, and say the sentence."""
        view = self.view()
        if view is None:
            raise StoryError("the shard has not decided yet")
        told: dict[str, Any] = json.loads((await Explainer().need(view, cluster, None, quick=True)).document)
        self.tell(f"bigfleet explain --need {cluster}: {told['sentence']}")
        return told
