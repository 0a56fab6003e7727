"""One run of a demo story: a shard, a fake provider and operators on virtual time, and the lines that are printed.

Why: ten minutes of a story take a second, and every claim is checked: a claim that is not true ends the demo with an error.
Must never: change the shard from inside; a story does only what a provider, an operator or a network can do.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bigfleet.aio.clock import NANOSECONDS, timeout
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.demo.virtual_fleet import FAKE_HOST, FAKE_PORT, VirtualFleet
from bigfleet.engine.verdicts import short_places
from bigfleet.explain.amounts import readable
from bigfleet.explain.verdict_line import ProblemLine, status_lines, verdict_line
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.provider.fake.inventory import Pool
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.shard.core.problems import Problem, problems_of
from bigfleet.shard.core.views import CycleView
from bigfleet.shard.read.coverage_reader import CoverageReader
from bigfleet.shard.read.explainer import Explainer, PresentFacts
from bigfleet.shard.read.live_sources import live_sources

PATIENCE_S: Final = 1_800.0

Print = Callable[[str], object]


class StoryError(BigFleetError):
    """Something that the story claims did not happen."""


class StoryRun:
    """One run of a story."""

    def __init__(self, print_line: Print, pools: Sequence[Pool], fake: FakeOptions | None = None) -> None:
        self._print = print_line
        # The rails pace releases over several cycles, and a demo shows the decision itself.
        bare: dict[str, Any] = {"reclaim_cap_fraction": 0.0, "empty_rollup_guard": False}
        self.fleet = VirtualFleet(pools, fake, execute_concurrency=16, **bare)
        self._operators: dict[str, SessionPeer] = {}
        self._start_ns = self.fleet.clock.monotonic_ns()

    def say(self, text: str) -> None:
        """Print a line with the time of the story."""
        passed_s = (self.fleet.clock.monotonic_ns() - self._start_ns) / NANOSECONDS
        self._print(f"{int(passed_s // 60):3}:{int(passed_s % 60):02}  {text}")

    async def asks(self, cluster: str, *needs: Need) -> None:
        """Let a cluster ask for exactly these needs."""
        if cluster not in self._operators:
            self._operators[cluster] = await self.fleet.operator(cluster)
        wanted = "; ".join(
            f"{readable(need.total.texts())} at priority {need.profile.priority:,}" for need in needs
        )
        self.say(f"{cluster} asks for {wanted or 'nothing'}")
        await self._operators[cluster].demand(*needs, at_ns=self.fleet.clock.wall_ns())

    async def vanishes(self, cluster: str) -> None:
        """Disconnect the operator of a cluster."""
        await self._operators.pop(cluster).close()
        self.say(f"the operator of {cluster} is gone")

    async def outage(self) -> None:
        """Kill the provider's process."""
        self.fleet.network.crash(FAKE_HOST)
        await self.fleet.fake.stop(0)
        self.say("the provider's process dies")

    async def outage_ends(self) -> None:
        """Start the provider again; it knows its machines from its disk."""
        await self.fleet.fake.start()
        await self.fleet.fake.listen(f":{FAKE_PORT}")
        self.say("the provider is back")

    async def until(self, text: str, fact: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        """Wait until something is true, then print it; raises `StoryError` when it does not become true."""
        try:
            async with timeout(self.fleet.clock, within_s):
                await self.fleet.until(fact, within_s=within_s + 1)
        except TimeoutError:
            raise StoryError(
                f"the story says that {text}, and it did not happen within {within_s:g} s"
            ) from None
        self.say(text)

    async def passes(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self.fleet.clock.sleep(seconds)

    async def cycles(self, count: int) -> None:
        """Wait for this many further cycles."""
        await self.fleet.cycles(count)

    def holds(self, text: str, fact: bool) -> None:
        """Print something that is true now; raises `StoryError` when it is not."""
        if not fact:
            raise StoryError(f"the story says that {text}, and it is not so")
        self.say(text)

    # Facts

    def machines(self, cluster: str = "", state: MachineState | None = None) -> list[Machine]:
        """The machines in the last cycle, by id."""
        view = self.view()
        return [
            machine
            for machine in (view.every_machine.machines() if view else ())
            if cluster in ("", machine.cluster) and state in (None, machine.state)
        ]

    def serving(self, cluster: str) -> int:
        """How many Configured machines a cluster has."""
        inventory = self.fleet.shard.inventory.snapshot()
        return sum(
            machine.cluster == cluster and machine.state is MachineState.CONFIGURED
            for machine in inventory.machines()
        )

    def obtained(self, cluster: str) -> int:
        """How many machines serve a cluster, join it or are on order for it, by what the provider has accepted."""
        shard = self.fleet.shard
        coming = (MachineState.CONFIGURED, MachineState.CONFIGURING, MachineState.CREATING)
        return sum(
            machine.state in coming
            and cluster in (machine.cluster, machine.assigned.cluster)
            and shard.is_accepted(machine.id)
            for machine in shard.inventory.snapshot().machines()
        )

    def provider_reachable(self) -> bool:
        """Whether the shard regards the provider as reachable."""
        return self.fleet.shard.status().provider.reachable

    def holds_off(self) -> bool:
        """Whether the last cycle held actions off."""
        view = self.view()
        return view is not None and bool(view.held_off)

    def provider_calls(self) -> int:
        """How many calls to the provider the shard has tried."""
        name = "bigfleet_shard_provider_calls_total"
        families = self.fleet.run.registry.collect()
        return round(
            sum(sample.value for family in families for sample in family.samples if sample.name == name)
        )

    def view(self) -> CycleView | None:
        """The last cycle."""
        return self.fleet.shard.last_cycle()

    def reason(self, cluster: str) -> str:
        """Why the first need of a cluster is short in the last cycle; empty when it is not short or has no need."""
        view = self.view()
        verdicts = view.decision.verdicts if view else ()
        for place in range(len(verdicts)):
            verdict = verdicts[place]
            if verdict.need.cluster == cluster:
                return "" if verdict.satisfied else verdict.reason.value
        return ""

    async def status(self) -> tuple[Problem, ...]:
        """Print the first lines of `bigfleet status`; returns the problems."""
        shard, view = self.fleet.shard, self.view()
        if view is None:
            raise StoryError("the shard has not decided yet")
        sources = live_sources(shard)
        coverage = await CoverageReader(shard, sources).now(view)
        found = problems_of(shard.status(), view, coverage, sources)
        lines = [ProblemLine(item.kind.value, item.text, item.for_s) for item in found]
        needs = len(view.decision.verdicts)
        verdict = verdict_line(
            needs=needs,
            covered=needs - len(coverage.uncovered),
            short=len(short_places(view.decision.verdicts)) + len(coverage.held_short),
            problems=lines,
        )
        for line in status_lines(verdict, lines):
            self.say(f"bigfleet status: {line}")
        return found

    async def why(self, cluster: str) -> Mapping[str, Any]:
        """Explain the need of a cluster, and print the sentence."""
        view = self.view()
        if view is None:
            raise StoryError("the shard has not decided yet")
        sources = live_sources(self.fleet.shard)
        coverage = await CoverageReader(self.fleet.shard, sources).now(view)
        now = PresentFacts(coverage, sources.now(view.now))
        explained = await Explainer().need(view, cluster, None, quick=True, now=now)
        explanation: dict[str, Any] = json.loads(explained.document)
        self.say(f"bigfleet explain --need {cluster}: {explanation['sentence']}")
        return explanation
