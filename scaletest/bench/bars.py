"""The bars: what must be met, what is aimed at, and how a result is judged.

Numbers are those of the performance page: ratios inside one process, or bytes. A bar without a value is missed, and an
aim is no promise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # what a child process printed, as JSON has it


@dataclass(frozen=True, slots=True)
class Bar:
    """A bound on a ratio or a size: an upper one, or a lower one for what should be large."""

    number: int
    name: str
    unit: str
    must: float
    aim: float | None = None
    at_least: bool = False

    def met(self, value: float | None) -> bool:
        """Whether a value is good enough."""
        return value is not None and self._reaches(value, self.must)

    def aimed(self, value: float | None) -> bool | None:
        """Whether a value is as good as it should become; None where nothing more is aimed at."""
        if self.aim is None:
            return None
        return value is not None and self._reaches(value, self.aim)

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound


INVENTORY_BARS = (
    Bar(6, "memory per machine", "bytes", must=130, aim=100),
    Bar(6, "memory per machine, unique label", "bytes", must=165),
    Bar(7, "ingest of an unchanged listing", "plain parses", must=0.5),
    Bar(7, "ingest of a first listing", "plain parses", must=3.8),
    Bar(7, "ingest of a delta of 1,000", "plain parses", must=0.04),
)
ENGINE_BARS = (
    Bar(1, "full pass at 50k", "units", must=1.6, aim=0.8),
    Bar(3, "zero-change cycle at 50k", "full passes", must=0.001, aim=0.001),
    Bar(4, "5 % of clusters changed", "full passes", must=0.25, aim=0.15),
    Bar(5, "all clusters, new needs", "full passes", must=2.3),
    Bar(5, "all clusters, 10 % more demand", "full passes", must=3.5),
    Bar(6, "memory per machine with a planner", "bytes", must=130, aim=100),
    Bar(8, "full pass, every machine its own class", "full passes", must=5.5, aim=3),
    Bar(9, "machine changes spread thinly", "full passes", must=1.1, aim=0.4),
    Bar(10, "5 % changed, every price its own", "full passes", must=4.5, aim=1),
)
GROWTH_BARS = (
    Bar(2, "full pass, 5k to 50k", "times", must=13, aim=10),
    Bar(2, "full pass, 50k to 500k", "times", must=13, aim=10),
    Bar(3, "zero-change cycle, 50k to 500k", "times", must=2, aim=2),
)
SHARD_BARS = (
    Bar(13, "loop lag p99, nothing changes", "ms", must=50, aim=20),
    Bar(13, "loop lag p99, five changes a second", "ms", must=50, aim=20),
    Bar(14, "bootstraps a second, 256 workers", "machines", must=100, aim=500, at_least=True),
)
COORDINATOR_BARS = (Bar(12, "pause while a snapshot of 100,000 domains is taken", "milliseconds", must=200),)
COORDINATOR_LOAD_BARS = (
    Bar(15, "commands committed with 64 clients", "a second", must=1500, at_least=True),
    Bar(15, "a lone write, median", "milliseconds", must=10),
)
DASHBOARD_BARS = (
    Bar(16, "dashboard: slowest answer, 500k machines", "CPU ms", must=300),
    Bar(16, "dashboard: largest answer, 500k machines", "bytes", must=1_000_000),
    Bar(16, "dashboard: slowest explanation, 500k machines", "CPU ms", must=2_000, aim=300),
)
REACTION_BARS = (
    Bar(17, "pod to Create call, median", "s", must=0.4),
    Bar(17, "pod to Create call, p99", "s", must=1.0),
    Bar(17, "last Create call after 1,000 pods", "s", must=6),
    Bar(18, "pod to Create call, 50,000 requests, p99", "s", must=1.5),
    Bar(18, "operator, 50,000 requests, 10 changes/s", "% of a core", must=30),
    Bar(18, "roll-up, 50,000 requests, p99", "s", must=1.0),
)
ON_ORDER_BARS = (
    Bar(22, "Idle to Configure call, 500 on order, p99", "s", must=1.5),
    Bar(22, "List calls in any second, 500 on order", "calls", must=3),
)
COLLECTOR_BARS = (
    Bar(23, "full pass as in a shard, p99", "times with no collector", must=1.1),
    Bar(23, "cold bring-up as in a shard, p99", "times with no collector", must=1.1),
)
RECOVERY_BARS = (
    Bar(19, "shard killed, median", "s", must=3),
    Bar(19, "shard killed, longest", "s", must=6),
    Bar(19, "provider killed, median", "s", must=3),
    Bar(19, "provider killed, longest", "s", must=5),
    Bar(19, "cut for 10 s, median", "s", must=3),
    Bar(19, "cut for 10 s, longest", "s", must=5),
    Bar(19, "cut for 150 s, median", "s", must=3),
    Bar(19, "cut for 150 s, longest", "s", must=5),
    Bar(19, "answer to List lost, longest", "s", must=12),
)
SIEGE_BARS = (
    Bar(20, "siege: acknowledgements, p99", "s", must=2),
    Bar(20, "siege: cycle, median", "times normal", must=2),
    Bar(20, "siege: cycle, p99", "times normal", must=2),
    Bar(20, "siege: peak of memory above normal", "MB", must=300),
    Bar(20, "siege: memory left above normal", "MB", must=50),
    Bar(20, "siege: log a minute", "bytes", must=1_000_000),
)
OPEN_DEMAND_BARS = (
    Bar(21, "Phase1_Realistic_50K, pods", "units", must=1.5, aim=0.6),
    Bar(21, "Phase1_Realistic_50K, machines", "units", must=1.5, aim=0.6),
    Bar(21, "Phase1_AllSame_50K", "units", must=1.5),
    Bar(21, "Phase1_Uber5K_LateRun", "units", must=0.03),
    Bar(21, "Phase3_HighDemand", "units", must=2),
    Bar(21, "Phase3_M29Shape", "units", must=0.4),
    Bar(21, "ShardCycle_Steady_50K", "units", must=1.5),
    Bar(21, "ShardCycle_Steady_100K", "units", must=1.5),
    Bar(21, "ShardCycle_Steady_500K", "units", must=1.5),
    Bar(21, "one of 50 clusters changed, pods", "full passes", must=0.2),
    Bar(21, "one of 50 clusters changed, machines", "full passes", must=0.2),
    Bar(21, "ZoneLoss_225K", "units", must=3),
)
KARPENTER_BARS = (
    Bar(24, "10,000 diverse pods, list to actions", "units", must=13.5),
    *(Bar(24, f"{count:,} diverse pods, without a node", "pods", must=0) for count in (1_000, 5_000, 10_000)),
    Bar(24, "1,000 diverse pods, price", "times the bound", must=1.15),
)
REFERENCE_BARS = (Bar(11, "speed against the plain model", "times", must=1000, at_least=True),)


@dataclass(frozen=True, slots=True)
class Judged:
    """A bar and what was measured for it."""

    bar: Bar
    value: float | None

    @property
    def line(self) -> str:
        """The verdict for people."""
        bar, value = self.bar, self.value
        sign = "≥" if bar.at_least else "≤"
        shown = "not measured" if value is None else f"{value:.3g} {bar.unit}"
        aim = (
            "" if bar.aim is None else f"aim {sign} {bar.aim:g}, {'reached' if bar.aimed(value) else 'open'}"
        )
        verdict = "met   " if bar.met(value) else "MISSED"
        return f"{verdict}  {bar.number:>2}  {bar.name:<39} {shown:<20} must {sign} {bar.must:<6g} {aim}".rstrip()

    def document(self) -> dict[str, object]:
        """The verdict for programs."""
        bar = self.bar
        return {
            "bar": bar.number,
            "name": bar.name,
            "value": self.value,
            "unit": bar.unit,
            "bound": "at least" if bar.at_least else "at most",
            "must": bar.must,
            "aim": bar.aim,
            "met": bar.met(self.value),
            "aim_reached": bar.aimed(self.value),
        }


def judge(bars: Sequence[Bar], values: Mapping[str, float]) -> list[Judged]:
    """Every bar with its value."""
    return [Judged(bar, values.get(bar.name)) for bar in bars]


def reaction_values(measured: Mapping[str, Any]) -> dict[str, float]:
    """What the bars on the reaction look at; nothing where there is no test control plane."""
    if "not_measured" in measured:
        return {}
    single, many = measured["single"]["total_s"], measured["many"]
    return {
        "pod to Create call, median": single["p50"],
        "pod to Create call, p99": single["p99"],
        "last Create call after 1,000 pods": measured["burst"]["last_create_after_last_pod_s"],
        "pod to Create call, 50,000 requests, p99": many["total_s"]["p99"],
        "operator, 50,000 requests, 10 changes/s": many["operator_cpu_percent"],
        "roll-up, 50,000 requests, p99": many["rollup_s"]["p99"],
    }


def on_order_values(measured: Mapping[str, Any]) -> dict[str, float]:
    """What the bars on machines on order look at."""
    figures = (measured["waited_s"]["p99"], measured["lists_in_a_second"])
    return {bar.name: figure for bar, figure in zip(ON_ORDER_BARS, figures, strict=True)}


def collector_values(measured: Mapping[str, Any]) -> dict[str, float]:
    """What the bars on the garbage collector look at."""
    return {f"{name} as in a shard, p99": ways["p99_times"] for name, ways in measured["decisions"].items()}


def recovery_values(measured: Mapping[str, Any]) -> dict[str, float]:
    """What the bars on recovery look at."""
    cases = {name: case["total"] for name, case in measured.items() if isinstance(case, dict)}
    return {
        f"{name}, {word}": total[key]
        for name, total in cases.items()
        for word, key in (("median", "p50_s"), ("longest", "max_s"))
    }


def siege_values(measured: Mapping[str, Any]) -> dict[str, float]:
    """What the bars on the siege look at: of every figure that of the worst attack."""
    keys = (
        "ack_p99_s",
        "cycle_p50_times",
        "cycle_p99_times",
        "peak_above_normal_mb",
        "left_above_normal_mb",
        "log_bytes_per_minute",
    )
    attacks = measured["attacks"].values()
    return {
        bar.name: max(attack[key] for attack in attacks) for bar, key in zip(SIEGE_BARS, keys, strict=True)
    }


def open_demand_values(shapes: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What the bars on open demand look at: full passes in units, and what a change of one cluster costs beside one."""
    units = {
        (shape["shape"], result["name"]): result["units"] for shape in shapes for result in shape["results"]
    }
    values = {shape: figure for (shape, name), figure in units.items() if name == "full_pass"}
    for form in ("pods", "machines"):
        shape = f"Phase1_Realistic_50K, {form}"
        changed, full = units.get((shape, "one_changed")), units.get((shape, "full_pass"))
        if changed is not None and full:
            values[f"one of 50 clusters changed, {form}"] = changed / full
    if ("ZoneLoss_225K", "one_changed") in units:
        values["ZoneLoss_225K"] = units["ZoneLoss_225K", "one_changed"]
    return values


def karpenter_values(measured: Mapping[str, Any]) -> dict[str, float]:
    """What the bars on pods of diverse shapes look at."""
    worlds = {world["pods"]: world for world in measured["worlds"]}
    return {
        "10,000 diverse pods, list to actions": worlds[10_000]["units"],
        **{
            f"{count:,} diverse pods, without a node": world["at_rest"]["without_node"]
            for count, world in worlds.items()
        },
        "1,000 diverse pods, price": worlds[1_000]["at_rest"]["times_bound"],
    }


def engine_values(units: Mapping[str, float], bytes_per_machine: float) -> dict[str, float]:
    """What the bars on one profile look at, from the units of its benchmarks."""
    one = units["full_pass"]
    return {
        "full pass at 50k": one,
        "zero-change cycle at 50k": units["zero_change"] / one,
        "5 % of clusters changed": units["churn_local"] / one,
        "all clusters, new needs": units["burst_new_needs"] / one,
        "all clusters, 10 % more demand": units["burst_growth"] / one,
        "memory per machine with a planner": bytes_per_machine,
        "full pass, every machine its own class": units["unique_class_full_pass"] / one,
        "machine changes spread thinly": units["churn_spread"] / one,
        "5 % changed, every price its own": units["unique_price_churn"] / one,
    }


def growth_values(
    small: Mapping[str, float], middle: Mapping[str, float], large: Mapping[str, float]
) -> dict[str, float]:
    """What the bars on growth look at, from the units at 5k, 50k and 500k."""
    return {
        "full pass, 5k to 50k": middle["full_pass"] / small["full_pass"],
        "full pass, 50k to 500k": large["full_pass"] / middle["full_pass"],
        "zero-change cycle, 50k to 500k": large["zero_change"] / middle["zero_change"],
    }
