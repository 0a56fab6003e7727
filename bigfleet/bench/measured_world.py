"""The world that a planner is measured on, what changes in it, and the way back.

Why: every repetition must start from the same rest, and every answer must be the one a planner without memory gives.
Must never: let a repetition see what an earlier one left behind, in the world or in the planner.
Rules: `engine#bench-equality`, `engine#incremental-equals-full`, `engine#bars`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bigfleet.bench.meter import BenchCase
from bigfleet.engine.planner import Planner
from bigfleet.model.decision import Decision
from bigfleet.model.demand import Demand
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.situation import IdleHolds
from bigfleet.workload.worlds import START, World

NO_DEMAND = Demand({})


class WrongAnswerError(BigFleetError):
    """A planner that remembers decided otherwise than one that does not; its speed does not matter."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: the decision differs from that of a fresh planner on the same input")
        self.name = name


@dataclass(frozen=True, slots=True)
class WorldChange:
    """What a cycle finds different: whole roll-ups by cluster, and machines as they are now."""

    needs: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)
    machines: Sequence[Machine] = ()


NO_CHANGE = WorldChange()


class MeasuredWorld:
    """A world at rest and one planner that has seen it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._planner = Planner()
        self._way_back = NO_CHANGE

    def cycle(self) -> Decision:
        """Decide with the planner that remembers; snapshot and demand are taken again, as a shard does."""
        return self._decide(self._planner, self.world.needs.demand())

    def full_pass(self) -> Decision:
        """Decide with a planner that knows nothing, on a demand of which nothing but the rows is known.

        Verdicts are made on first use, so a full pass reads every one.
        """
        decision = self._decide(Planner(), replace(self.world.needs.demand()))
        for _ in decision.verdicts:
            pass
        return decision

    def index(self) -> Decision:
        """Decide about nothing: no demand, and no cluster whose machines could be too many."""
        return self._decide(Planner(), NO_DEMAND, reported_clusters=frozenset())

    def change(self, change: WorldChange) -> None:
        """Apply a change, and remember the way back."""
        inventory, needs = self.world.inventory, self.world.needs
        rows = {cluster: needs.of_cluster(cluster) for cluster in change.needs}
        self._way_back = WorldChange(rows, [inventory.get(machine.id) for machine in change.machines])
        self._apply(change)

    def restore(self) -> None:
        """Undo the last change."""
        self._apply(self._way_back)
        self._way_back = NO_CHANGE

    def _apply(self, change: WorldChange) -> None:
        for cluster, rows in change.needs.items():
            self.world.needs.replace(cluster, rows)
        if change.machines:
            self.world.inventory.adopt_many([(machine, 0) for machine in change.machines], START)

    def _decide(
        self, planner: Planner, demand: Demand, reported_clusters: frozenset[str] | None = None
    ) -> Decision:
        return planner.decide(
            self.world.inventory.snapshot(),
            demand,
            parked=frozenset(),
            reported_clusters=reported_clusters,
            holds=IdleHolds(),
            now=START,
        )


def repeated_pass(
    name: str, work: Callable[[], Decision], note: Callable[[Decision], object]
) -> BenchCase[Decision]:
    """A case that starts from nothing each time; all its answers must be one."""
    first: list[Decision] = []

    def check(decision: Decision) -> None:
        if not first:
            first.append(decision)
            note(decision)
        elif decision != first[0]:
            raise WrongAnswerError(name)

    return BenchCase(work, check=check)


def changed_cycle(
    name: str,
    measured: MeasuredWorld,
    next_change: Callable[[], WorldChange],
    note: Callable[[Decision], object],
    *,
    cold: bool = False,
) -> BenchCase[Decision]:
    """A case of one cycle after a change, each time another one, from a planner that has seen the world at rest."""
    noted: list[bool] = []

    def prepare() -> None:
        measured.restore()
        measured.cycle()
        measured.change(next_change())

    def check(decision: Decision) -> None:
        if decision != measured.full_pass():
            raise WrongAnswerError(name)
        if not noted:
            noted.append(True)
            note(decision)

    return BenchCase(measured.cycle, prepare, check, cold)
