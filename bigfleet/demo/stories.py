"""The stories themselves. Each is one screen long, and every claim in it is checked while it is told.

Must never: wait for time to pass where a fact can be waited for.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bigfleet.demo.stage import Stage
from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.model.need import Need
from bigfleet.model.profile import ZONE_KEY, Operator, Profile, Requirement, Spread, WhenUnsatisfiable
from bigfleet.model.resources import Resources
from bigfleet.provider.fake.inventory import Pool
from bigfleet.provider.fake.selector import Selector
from bigfleet.workload.archetype import RACK_KEY

GPU: Final = "nvidia.com/gpu"
CONFIGURED: Final = MachineState.CONFIGURED


@dataclass(frozen=True, slots=True)
class Story:
    """A story: what it shows, the machines on stage, and how it goes."""

    about: str
    pools: tuple[Pool, ...]
    play: Callable[[Stage], Awaitable[None]]


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


async def _priority_inversion(stage: Stage) -> None:
    await stage.asks("batch", _gpu_need("batch", 4, 100))
    await stage.until("batch works on all four GPU machines", lambda: stage.serving("batch") == 4)
    await stage.asks("train", _gpu_need("train", 2, 1_000_000))
    await stage.until("two machines leave batch for train", lambda: stage.serving("batch") == 2)
    await stage.until("train has its two machines", lambda: stage.serving("train") == 2)
    await stage.until(
        "batch is short, as higher precedence holds the rest", lambda: stage.reason("batch") != ""
    )
    told = await stage.why("batch")
    stage.holds("nobody above batch was touched", told["satisfied"] is False and stage.serving("train") == 2)
    await stage.asks("train")
    await stage.until("train is done; batch has all four again", lambda: stage.serving("batch") == 4)


async def _zone_loss(stage: Stage) -> None:
    await stage.asks("web", _cpu_need("web", 6, 5_000, 8, spread=True))
    await stage.until("web runs on six machines, two in each zone", lambda: stage.serving("web") == 6)
    lost = await stage.world.fake.fail(Selector(zone="za", states=(CONFIGURED,)), "zone za is gone")
    stage.world.fake.stockout(zone="za")
    stage.tell(f"zone za is lost with {len(lost)} machines, and nothing can be had there")
    await stage.until("the shard has seen it", lambda: stage.serving("web") < 6)
    await stage.until(
        "what was ordered in za failed; web has six machines again", lambda: stage.serving("web") == 6
    )
    await stage.cycles(1)
    zones = sorted(machine.shape.zone for machine in stage.machines("web", CONFIGURED))
    stage.holds("three in each of the zones that are left", zones == ["zb"] * 3 + ["zc"] * 3)
    await stage.why("web")


async def _spot_storm(stage: Stage) -> None:
    await stage.asks("pay", _cpu_need("pay", 2, 1_000_000, 27))
    await stage.until("pay works on two machines", lambda: stage.serving("pay") == 2)
    await stage.asks("batch", _cpu_need("batch", 6, 200, 1))
    await stage.until("batch works on six", lambda: stage.serving("batch") == 6)
    kinds = {machine.shape.capacity_type for machine in stage.machines("pay", CONFIGURED)}
    stage.holds(
        "pay must not be interrupted, so none of its machines is spot", CapacityType.SPOT not in kinds
    )
    lost = await stage.world.fake.fail(
        Selector(capacity_type=CapacityType.SPOT, states=(CONFIGURED,)), "reclaimed by the market"
    )
    stage.holds(f"the market takes {len(lost)} spot machines back at once", len(lost) > 0)
    await stage.until("the shard has seen it", lambda: stage.serving("batch") < 6)
    stage.holds("pay has not noticed", stage.serving("pay") == 2)
    await stage.until("batch has found six machines again", lambda: stage.serving("batch") == 6)
    await stage.cycles(1)
    await stage.why("batch")


async def _unsatisfiable_gang(stage: Stage) -> None:
    together = Requirement(RACK_KEY, Operator.SAME)
    await stage.asks("train", _gpu_need("train", 5, 1_000_000, together, group="llm-7"))
    await stage.until(
        "no rack has five machines, so the gang is short",
        lambda: stage.reason("train") == "TOPOLOGY_UNSATISFIABLE",
    )
    told = await stage.why("train")
    stage.holds(f"it gathers what there is in one rack: {told['domain']}", bool(told["domain"]))
    await stage.cycles(3)
    await stage.world.fake.add([replace(_gpus(5, "rack-9"), name="new")])
    stage.tell("five machines arrive in rack-9")
    await stage.until(
        "the gang is whole", lambda: stage.serving("train") >= 5 and stage.reason("train") == ""
    )
    racks = {machine.shape.labels[RACK_KEY] for machine in stage.machines("train", CONFIGURED)}
    await stage.until(
        "all of it stands in one rack",
        lambda: len({m.shape.labels[RACK_KEY] for m in stage.machines("train", CONFIGURED)}) == 1,
    )
    stage.holds("which is the one that can hold it", "rack-9" in racks)


async def _provider_outage(stage: Stage) -> None:
    await stage.asks("web", _cpu_need("web", 2, 5_000, 8))
    await stage.until("web works on two machines", lambda: stage.serving("web") == 2)
    await stage.outage()
    await stage.cycles(4)
    stage.holds("web works on, nothing was drained", stage.serving("web") == 2)
    await stage.asks("web", _cpu_need("web", 4, 5_000, 8))
    await stage.cycles(3)
    stage.holds("the shard goes on deciding, and cannot buy", stage.serving("web") == 2)
    await stage.why("web")
    stage.outage_ends()
    await stage.until("web has its four machines", lambda: stage.serving("web") == 4)


async def _operator_vanishes(stage: Stage) -> None:
    await stage.asks("web", _cpu_need("web", 12, 5_000, 8))
    await stage.until("web works on twelve machines", lambda: stage.serving("web") == 12)
    await stage.vanishes("web")
    await stage.cycles(6)
    stage.holds("its machines stay: silence is not a wish", stage.serving("web") == 12)
    await stage.world.restart()
    stage.tell("the shard is killed and started again")
    await stage.until("it knows the machines of web from their marks", lambda: stage.serving("web") == 12)
    await stage.cycles(6)
    stage.holds("it has not heard web yet, so it takes nothing away", stage.serving("web") == 12)
    await stage.asks("web", _cpu_need("web", 11, 5_000, 8))
    await stage.until("web is back and needs one less: one machine goes", lambda: stage.serving("web") == 11)
    await stage.cycles(1)
    await stage.why("web")


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
        "a gang that has to stand in one rack does not fit into any, until one arrives",
        (_gpus(6, "rack-1", "rack-2"),),
        _unsatisfiable_gang,
    ),
    "provider-outage": Story(
        "the provider cannot be reached; what runs goes on, what is new waits",
        (_cpus("vm", 8, "za", kind=CapacityType.ON_DEMAND, price=0.4),),
        _provider_outage,
    ),
    "operator-vanishes": Story(
        "a cluster falls silent, the shard restarts, and nothing is taken away by mistake",
        (_cpus("vm", 16, "za", kind=CapacityType.ON_DEMAND, price=0.4),),
        _operator_vanishes,
    ),
}
