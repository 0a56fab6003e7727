"""What can be measured: the benchmarks by name, and the worlds to run them on.

Why: names are public; reports, bars and scripts refer to them for years.
Must never: give a name a new meaning; a benchmark that measures something else gets another name.
Rules: `engine#bench-unit`, `engine#bars`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bigfleet.model.errors import InvalidFieldError
from bigfleet.workload.profiles import PROFILES, ScaleProfile, profile_named

BENCHMARKS: Mapping[str, str] = {
    "index": "a fresh planner, machines alone: what a full pass costs before its first need",
    "full_pass": "a fresh planner on the settled world: nothing kept but columns and decoded needs",
    "zero_change": "one cold cycle in which nothing changed",
    "churn_local": "one cycle: new needs in 5 % of the clusters, and 300 machine changes per 50,000 machines in them",
    "churn_spread": "one cycle: as many machine changes, spread over all clusters",
    "burst_new_needs": "one cycle: every cluster sends new needs that its machines still serve",
    "burst_growth": "one cycle: the demand of every cluster has grown by 10 %",
    "cold_bring_up": "a fresh planner on the whole demand while nothing is bound yet",
    "preemption": "one cycle without free machines: the demand of 5 % of the clusters has grown by 50 %",
    "unique_class_full_pass": "a full pass where every machine has a host name and demand looks at it",
    "unique_price_churn": "churn_local where every machine has a price of its own",
    "ingest_unchanged": "reading a listing of the whole fleet in which nothing changed",
    "ingest_first": "reading a listing of the whole fleet into an empty inventory",
    "ingest_delta": "reading and applying a listing of at most 1,000 changes, half of them news",
}
"""Every benchmark in the order in which they run."""

_ALL = tuple(BENCHMARKS)


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """A world to measure on, and what is worth measuring there."""

    name: str
    profile: ScaleProfile
    names: tuple[str, ...] = _ALL
    preempting_share: float = 0.05
    """The part of the clusters whose growth has to be met by taking machines away."""


_5K = profile_named("5k")
SPECIAL_PLANS: Mapping[str, BenchPlan] = {
    plan.name: plan
    for plan in (
        BenchPlan("burst", _5K, ("full_pass", "burst_new_needs", "burst_growth", "cold_bring_up")),
        BenchPlan("preemption-heavy", _5K, ("full_pass", "preemption"), preempting_share=0.5),
        BenchPlan(
            "unique-label", _5K, ("full_pass", "churn_local", "unique_class_full_pass", "unique_price_churn")
        ),
    )
}


def plan_named(name: str) -> BenchPlan:
    """The plan of that name: a special one, or everything on a profile of scale tests."""
    special = SPECIAL_PLANS.get(name)
    if special is not None:
        return special
    known = [profile for profile in PROFILES.values() if name in (profile.name, profile.label) and name]
    if not known:
        allowed = ", ".join((*PROFILES, *SPECIAL_PLANS))
        raise InvalidFieldError("profile", name, f"one of {allowed}")
    return BenchPlan(known[0].name, known[0])


def names_of(plan: BenchPlan, only: Sequence[str]) -> tuple[str, ...]:
    """The benchmarks to run, each once and in their order: those asked for, else all of the plan."""
    unknown = next((name for name in only if name not in BENCHMARKS), None)
    if unknown is not None:
        raise InvalidFieldError("only", unknown, f"one of {', '.join(BENCHMARKS)}")
    wanted = only or plan.names
    return tuple(name for name in BENCHMARKS if name in wanted)
