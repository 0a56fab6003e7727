"""The benchmarks that decide: each name as something that can be timed.

Why: what a name of the public form stands for is written down once, as code.
Must never: keep a world longer than a benchmark needs it; two large ones do not fit side by side.
Rules: engine performance 4, rows (a) to (e3) and Phase 2; 5 for the two cliffs.
"""

from collections.abc import Callable
from typing import Protocol

from bigfleet.bench.ground import NO_CHANGE, Change, Ground, changed_cycle, repeated_pass
from bigfleet.bench.meter import Case
from bigfleet.bench.plans import Plan
from bigfleet.model.decision import Decision
from bigfleet.workload.changes import chosen, grown, machine_changes, with_new_needs
from bigfleet.workload.draws import DrawSource
from bigfleet.workload.worlds import host_name_world, own_price_world, unbound_world, without_supply

CHANGED_SHARE = 0.05
GROWTH_PERCENT = 10
SCARCE_GROWTH_PERCENT = 50

Note = Callable[[Decision], object]


class MakeCase(Protocol):
    """How a benchmark is made: the plan, the seed, the settled world, and whom to tell what was decided."""

    def __call__(self, plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]: ...


def index(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Machines alone."""
    del plan, source
    return repeated_pass("index", settled.index, note)


def full_pass(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """A planner without memory."""
    del plan, source
    return repeated_pass("full_pass", settled.full_pass, note)


def zero_change(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Nothing happened, and the caches of the processor have forgotten everything."""
    del plan, source
    return changed_cycle("zero_change", settled, lambda: NO_CHANGE, note, cold=True)


def churn_local(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """New needs and machine changes in a few clusters."""
    return changed_cycle("churn_local", settled, _local_churn("churn_local", plan, source, settled), note)


def churn_spread(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Machine changes everywhere."""
    draws = source.child("bench/churn_spread").stream("changes")
    world = settled.world

    def next_change() -> Change:
        snapshot = world.inventory.snapshot()
        return Change(machines=machine_changes(snapshot, world.needs.clusters, _change_count(plan), draws))

    return changed_cycle("churn_spread", settled, next_change, note)


def burst_new_needs(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Every cluster sends another roll-up."""
    del plan
    draws = source.child("bench/burst_new_needs").stream("changes")
    needs = settled.world.needs

    def next_change() -> Change:
        return Change({name: with_new_needs(needs.of_cluster(name), draws) for name in needs.clusters})

    return changed_cycle("burst_new_needs", settled, next_change, note)


def burst_growth(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Every cluster wants more."""
    del plan, source
    needs = settled.world.needs

    def next_change() -> Change:
        return Change({name: grown(needs.of_cluster(name), GROWTH_PERCENT) for name in needs.clusters})

    return changed_cycle("burst_growth", settled, next_change, note)


def cold_bring_up(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Everything at once, from nothing."""
    del settled
    return repeated_pass("cold_bring_up", Ground(unbound_world(plan.profile, source)).full_pass, note)


def preemption(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Some clusters want more where there is nothing to be had."""
    draws = source.child("bench/preemption").stream("changes")
    scarce = Ground(without_supply(settled.world))
    needs = scarce.world.needs

    def next_change() -> Change:
        names = chosen(needs.clusters, _share(needs.clusters, plan.preempting_share), draws)
        return Change({name: grown(needs.of_cluster(name), SCARCE_GROWTH_PERCENT) for name in names})

    return changed_cycle("preemption", scarce, next_change, note)


def unique_class_full_pass(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Every machine a class of its own."""
    del settled
    world = host_name_world(plan.profile, source)
    return repeated_pass("unique_class_full_pass", Ground(world).full_pass, note)


def unique_price_churn(plan: Plan, source: DrawSource, settled: Ground, note: Note) -> Case[Decision]:
    """Every machine at a price of its own."""
    del settled
    name = "unique_price_churn"
    ground = Ground(own_price_world(plan.profile, source))
    return changed_cycle(name, ground, _local_churn(name, plan, source, ground), note)


CASES: dict[str, MakeCase] = {
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


def _local_churn(name: str, plan: Plan, source: DrawSource, ground: Ground) -> Callable[[], Change]:
    draws = source.child(f"bench/{name}").stream("changes")
    world = ground.world

    def next_change() -> Change:
        clusters = world.needs.clusters
        names = chosen(clusters, _share(clusters, CHANGED_SHARE), draws)
        needs = {cluster: with_new_needs(world.needs.of_cluster(cluster), draws) for cluster in names}
        return Change(needs, machine_changes(world.inventory.snapshot(), names, _change_count(plan), draws))

    return next_change


def _change_count(plan: Plan) -> int:
    """300 per 50,000 machines of the profile's nominal size."""
    return max(1, plan.profile.machines * 300 // 50_000)


def _share(clusters: tuple[str, ...], share: float) -> int:
    return max(1, round(len(clusters) * share))
