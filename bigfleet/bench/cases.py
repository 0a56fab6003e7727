"""The benchmarks that decide: each name as something that can be timed.

Why: what a name of the public form means is written down once, as code.
Must never: keep a world longer than a benchmark needs it; two large ones do not fit side by side.
Rules: `engine#bench-unit`, `engine#growth`.
"""

from collections.abc import Callable
from typing import Protocol

from bigfleet.bench.measured_world import NO_CHANGE, MeasuredWorld, WorldChange, changed_cycle, repeated_pass
from bigfleet.bench.meter import BenchCase
from bigfleet.bench.plans import BenchPlan
from bigfleet.model.decision import Decision
from bigfleet.workload.changes import chosen, grown, machine_changes, with_new_needs
from bigfleet.workload.draws import DrawSource
from bigfleet.workload.worlds import host_name_world, own_price_world, unbound_world, without_supply

CHANGED_SHARE = 0.05
GROWTH_PERCENT = 10
SCARCE_GROWTH_PERCENT = 50

Note = Callable[[Decision], object]


class MakeBenchCase(Protocol):
    """How a benchmark is made: the plan, the seed, the settled world, and a callback for the decision."""

    def __call__(
        self, plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
    ) -> BenchCase[Decision]: ...


def index(plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note) -> BenchCase[Decision]:
    """Machines alone."""
    del plan, source
    return repeated_pass("index", settled.index, note)


def full_pass(plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note) -> BenchCase[Decision]:
    """A planner without memory."""
    del plan, source
    return repeated_pass("full_pass", settled.full_pass, note)


def zero_change(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Nothing happened, and the caches of the processor have forgotten everything."""
    del plan, source
    return changed_cycle("zero_change", settled, lambda: NO_CHANGE, note, cold=True)


def churn_local(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """New needs and machine changes in a few clusters."""
    return changed_cycle("churn_local", settled, _local_churn("churn_local", plan, source, settled), note)


def churn_spread(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Machine changes everywhere."""
    draws = source.child("bench/churn_spread").stream("changes")
    world = settled.world

    def next_change() -> WorldChange:
        snapshot = world.inventory.snapshot()
        return WorldChange(
            machines=machine_changes(snapshot, world.needs.clusters, _change_count(plan), draws)
        )

    return changed_cycle("churn_spread", settled, next_change, note)


def burst_new_needs(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Every cluster sends another roll-up."""
    del plan
    draws = source.child("bench/burst_new_needs").stream("changes")
    needs = settled.world.needs

    def next_change() -> WorldChange:
        return WorldChange({name: with_new_needs(needs.of_cluster(name), draws) for name in needs.clusters})

    return changed_cycle("burst_new_needs", settled, next_change, note)


def burst_growth(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Every cluster wants more."""
    del plan, source
    needs = settled.world.needs

    def next_change() -> WorldChange:
        return WorldChange({name: grown(needs.of_cluster(name), GROWTH_PERCENT) for name in needs.clusters})

    return changed_cycle("burst_growth", settled, next_change, note)


def cold_bring_up(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Everything at once, from nothing."""
    del settled
    return repeated_pass("cold_bring_up", MeasuredWorld(unbound_world(plan.profile, source)).full_pass, note)


def preemption(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Some clusters want more while no machine is free."""
    draws = source.child("bench/preemption").stream("changes")
    scarce = MeasuredWorld(without_supply(settled.world))
    needs = scarce.world.needs

    def next_change() -> WorldChange:
        names = chosen(needs.clusters, _share(needs.clusters, plan.preempting_share), draws)
        return WorldChange({name: grown(needs.of_cluster(name), SCARCE_GROWTH_PERCENT) for name in names})

    return changed_cycle("preemption", scarce, next_change, note)


def unique_class_full_pass(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Every machine a class of its own."""
    del settled
    world = host_name_world(plan.profile, source)
    return repeated_pass("unique_class_full_pass", MeasuredWorld(world).full_pass, note)


def unique_price_churn(
    plan: BenchPlan, source: DrawSource, settled: MeasuredWorld, note: Note
) -> BenchCase[Decision]:
    """Every machine at a price of its own."""
    del settled
    name = "unique_price_churn"
    measured = MeasuredWorld(own_price_world(plan.profile, source))
    return changed_cycle(name, measured, _local_churn(name, plan, source, measured), note)


CASES: dict[str, MakeBenchCase] = {
    "index": index,
    "full_pass": full_pass,
    "zero_change": zero_change,
    "churn_local": churn_local,
    "churn_spread": churn_spread,
    "burst_new_needs": burst_new_needs,
    "burst_growth": burst_growth,
    "cold_bring_up": cold_bring_up,
    "preemption": preemption,
    "unique_class_full_pass": unique_class_full_pass,
    "unique_price_churn": unique_price_churn,
}


def _local_churn(
    name: str, plan: BenchPlan, source: DrawSource, measured: MeasuredWorld
) -> Callable[[], WorldChange]:
    draws = source.child(f"bench/{name}").stream("changes")
    world = measured.world

    def next_change() -> WorldChange:
        clusters = world.needs.clusters
        names = chosen(clusters, _share(clusters, CHANGED_SHARE), draws)
        needs = {cluster: with_new_needs(world.needs.of_cluster(cluster), draws) for cluster in names}
        return WorldChange(
            needs, machine_changes(world.inventory.snapshot(), names, _change_count(plan), draws)
        )

    return next_change


def _change_count(plan: BenchPlan) -> int:
    """300 per 50,000 machines of the profile's nominal size."""
    return max(1, plan.profile.machines * 300 // 50_000)


def _share(clusters: tuple[str, ...], share: float) -> int:
    return max(1, round(len(clusters) * share))
