"""The demo stories. Each is one screen long, and every claim in it is checked.

Must never: wait for a fixed time where it can wait for a fact.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bigfleet.demo.story_run import StoryRun
from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.model.need import Need
from bigfleet.model.profile import (
    ZONE_KEY,
    Profile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.model.resources import Resources
from bigfleet.provider.fake.inventory import Pool
from bigfleet.provider.fake.selector import Selector
from bigfleet.workload.archetype import RACK_KEY

GPU: Final = "nvidia.com/gpu"
CONFIGURED: Final = MachineState.CONFIGURED
_OUTAGE_CALLS: Final = 15
"""How many calls a shard tries at most while its provider is away for two minutes."""


@dataclass(frozen=True, slots=True)
class Story:
    """A story: what it shows, its machines, and its steps."""

    about: str
    pools: tuple[Pool, ...]
    play: Callable[[StoryRun], Awaitable[None]]


def _gpus(count: int, *racks: str) -> Pool:
    return Pool(
        name="gpu",
        count=count,
        state=MachineState.IDLE,
        instance_type="g8",
        zones=("za",),
        racks=racks,
        capacity_type=CapacityType.BARE_METAL,
        resources={GPU: "8", "cpu": "96"},
    )


def _cpus(name: str, count: int, *zones: str, kind: CapacityType, price: float, risk: float = 0.0) -> Pool:
    return Pool(
        name=name,
        count=count,
        instance_type="m8",
        zones=zones,
        capacity_type=kind,
        price_per_hour=price,
        interruption_probability=risk,
        resources={"cpu": "8"},
    )


def _eight(resource: str, machines: int = 1) -> Resources:
    return Resources.parse({resource: str(8 * machines)})


def _gpu_need(
    cluster: str, machines: int, priority: int, *requirements: Requirement, group: str = ""
) -> Need:
    profile = Profile(requirements, priority=priority)
    return Need(cluster, profile, _eight(GPU, machines), _eight(GPU), group=group)


def _cpu_need(cluster: str, machines: int, priority: int, penalty: int, spread: bool = False) -> Need:
    spreads = (Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE),) if spread else ()
    profile = Profile((), spreads, priority, interruption_bucket=PenaltyBucket(penalty))
    return Need(cluster, profile, _eight("cpu", machines), _eight("cpu"))


async def _priority_inversion(run: StoryRun) -> None:
    await run.asks("batch", _gpu_need("batch", 4, 100))
    await run.until("batch works on all four GPU machines", lambda: run.serving("batch") == 4)
    await run.asks("train", _gpu_need("train", 2, 1_000_000))
    await run.until("two machines leave batch for train", lambda: run.serving("batch") == 2)
    await run.until("train has its two machines", lambda: run.serving("train") == 2)
    await run.until("batch is short, as higher precedence holds the rest", lambda: run.reason("batch") != "")
    explanation = await run.why("batch")
    run.holds(
        "no machine of train was taken", explanation["satisfied"] is False and run.serving("train") == 2
    )
    await run.asks("train")
    await run.until("train is done; batch has all four again", lambda: run.serving("batch") == 4)


async def _zone_loss(run: StoryRun) -> None:
    await run.asks("web", _cpu_need("web", 6, 5_000, 8, spread=True))
    await run.until("web runs on six machines, two in each zone", lambda: run.serving("web") == 6)
    lost = await run.fleet.fake.fail(Selector(zone="za", states=(CONFIGURED,)), "zone za is gone")
    run.fleet.fake.stockout(zone="za")
    run.say(f"zone za is lost with {len(lost)} machines, and has no more machines")
    await run.until("the shard has seen it", lambda: run.serving("web") < 6)
    await run.until(
        "what was ordered in za failed; web has six machines again", lambda: run.serving("web") == 6
    )
    await run.cycles(1)
    zones = sorted(machine.shape.zone for machine in run.machines("web", CONFIGURED))
    run.holds("three in each of the zones that are left", zones == ["zb"] * 3 + ["zc"] * 3)
    await run.why("web")


async def _spot_storm(run: StoryRun) -> None:
    await run.asks("pay", _cpu_need("pay", 2, 1_000_000, 27))
    await run.until("pay works on two machines", lambda: run.serving("pay") == 2)
    await run.asks("batch", _cpu_need("batch", 6, 200, 1))
    await run.until("batch works on six", lambda: run.serving("batch") == 6)
    kinds = {machine.shape.capacity_type for machine in run.machines("pay", CONFIGURED)}
    run.holds("pay must not be interrupted, so none of its machines is spot", CapacityType.SPOT not in kinds)
    lost = await run.fleet.fake.fail(
        Selector(capacity_type=CapacityType.SPOT, states=(CONFIGURED,)), "reclaimed by the market"
    )
    run.holds(f"the market takes {len(lost)} spot machines back at once", len(lost) > 0)
    await run.until("the shard has seen it", lambda: run.serving("batch") < 6)
    run.holds("pay has not noticed", run.serving("pay") == 2)
    await run.until("batch has found six machines again", lambda: run.serving("batch") == 6)
    await run.cycles(1)
    await run.why("batch")


async def _unsatisfiable_gang(run: StoryRun) -> None:
    together = Requirement(RACK_KEY, RequirementOperator.SAME)
    await run.asks("train", _gpu_need("train", 5, 1_000_000, together, group="llm-7"))
    await run.until(
        "no rack has five machines, so the gang is short",
        lambda: run.reason("train") == "TOPOLOGY_UNSATISFIABLE",
    )
    explanation = await run.why("train")
    run.holds(f"it gathers what there is in one rack: {explanation['domain']}", bool(explanation["domain"]))
    await run.cycles(3)
    await run.fleet.fake.add([replace(_gpus(5, "rack-9"), name="new")])
    run.say("five machines arrive in rack-9")
    await run.until("the gang is whole", lambda: run.serving("train") >= 5 and run.reason("train") == "")
    racks = {machine.shape.labels[RACK_KEY] for machine in run.machines("train", CONFIGURED)}
    await run.until(
        "all of it is in one rack",
        lambda: len({m.shape.labels[RACK_KEY] for m in run.machines("train", CONFIGURED)}) == 1,
    )
    run.holds("rack-9, the only one large enough", "rack-9" in racks)


async def _provider_outage(run: StoryRun) -> None:
    await run.asks("web", _cpu_need("web", 2, 5_000, 8))
    await run.until("web works on two machines", lambda: run.serving("web") == 2)
    await run.status()
    before = run.provider_calls()
    await run.outage()
    await run.asks("web", _cpu_need("web", 4, 5_000, 8))
    await run.until(
        "the shard holds its orders off, since the provider is unreachable",
        lambda: not run.provider_reachable() and run.holds_off(),
        within_s=5,
    )
    await run.status()
    await run.why("web")
    await run.passes(120)
    await run.status()
    run.holds("web works on, nothing was drained", run.serving("web") == 2)
    tried = run.provider_calls() - before
    run.holds(f"the shard has tried {tried} calls in two minutes, at most 15", tried <= _OUTAGE_CALLS)
    await run.outage_ends()
    await run.until("it has accepted the orders of web", lambda: run.obtained("web") == 4, within_s=5)
    await run.status()
    await run.until("web has its four machines", lambda: run.serving("web") == 4, within_s=60)


async def _operator_vanishes(run: StoryRun) -> None:
    await run.asks("web", _cpu_need("web", 12, 5_000, 8))
    await run.until("web works on twelve machines", lambda: run.serving("web") == 12)
    await run.vanishes("web")
    await run.cycles(6)
    run.holds("its machines stay: silence is not a request", run.serving("web") == 12)
    await run.fleet.restart()
    run.say("the shard is killed and started again")
    await run.until("it knows the machines of web from their metadata", lambda: run.serving("web") == 12)
    await run.cycles(6)
    run.holds("web has not reported yet, so it takes nothing away", run.serving("web") == 12)
    await run.asks("web", _cpu_need("web", 11, 5_000, 8))
    await run.until("web is back and needs one less: one machine goes", lambda: run.serving("web") == 11)
    await run.cycles(1)
    await run.why("web")


STORIES: Final[Mapping[str, Story]] = {
    "priority-inversion": Story(
        "a training run of high priority takes machines from batch work, and gives them back",
        (_gpus(4),),
        _priority_inversion,
    ),
    "zone-loss": Story(
        "a zone fails under a service that is spread over three",
        (_cpus("vm", 24, "za", "zb", "zc", kind=CapacityType.ON_DEMAND, price=0.4),),
        _zone_loss,
    ),
    "spot-storm": Story(
        "the market takes all spot machines back at once",
        (
            _cpus("spot", 8, "za", "zb", kind=CapacityType.SPOT, price=0.1, risk=0.05),
            _cpus("vm", 12, "za", "zb", kind=CapacityType.ON_DEMAND, price=0.4),
        ),
        _spot_storm,
    ),
    "unsatisfiable-gang": Story(
        "a gang that needs a single rack fits into none, until a larger one arrives",
        (_gpus(6, "rack-1", "rack-2"),),
        _unsatisfiable_gang,
    ),
    "provider-outage": Story(
        "the provider is unreachable for two minutes: running machines stay, new demand waits, and the shard says so",
        (_cpus("vm", 8, "za", kind=CapacityType.ON_DEMAND, price=0.4),),
        _provider_outage,
    ),
    "operator-vanishes": Story(
        "a cluster falls silent, the shard restarts, and nothing is taken away by mistake",
        (_cpus("vm", 16, "za", kind=CapacityType.ON_DEMAND, price=0.4),),
        _operator_vanishes,
    ),
}
