"""The catalogues, as data: realistic, its small relative for development, and those of special profiles.

Why: figures of two runs compare only if both drew from the same numbers; these are the published ones.
Must never: gain a label axis that no real workload has (ADR-0037). A weight is not a taste: it is solved from the share
of machines (ADR-0050), so a change to one changes the shares that the tests check.
Rules: `testing#realistic-catalogue`, `testing#other-catalogues`.
"""

from dataclasses import replace

from bigfleet.model.profile import ZONE_KEY
from bigfleet.model.resources import Resources
from bigfleet.workload.archetype import GPU, Archetype, Catalogue, GangRule, Size, SpreadRule


def _size(cpu: str, memory: str, gpu: int = 0, share: int = 100) -> Size:
    amounts = {"cpu": cpu, "memory": memory} | ({GPU: str(gpu)} if gpu else {})
    return Size(Resources.parse(amounts), share)


_TINY = Archetype(
    name="tiny-stateless",
    weight=16_073,
    instance_types=("m6i.large", "m6i.xlarge"),
    sizes=(_size("400m", "500Mi", share=60), _size("300m", "384Mi", share=40)),
    priority=100,
    interruption_penalty=32,
    reclamation_penalty=64,
    spread=SpreadRule(0.45, max_skew=2, strict=False),
)
_SERVICE = Archetype(
    name="cpu-service",
    weight=2_755,
    instance_types=("m6i.xlarge", "m6i.2xlarge"),
    sizes=(_size("2200m", "8500Mi", share=70), _size("4200m", "16500Mi", share=30)),
    priority=1000,
    interruption_penalty=1024,
    reclamation_penalty=8192,
    spread=SpreadRule(0.75, max_skew=1, strict=True),
)
_BATCH = Archetype(
    name="cpu-batch",
    weight=1_378,
    instance_types=("c6i.4xlarge", "c6i.8xlarge", "n2-standard-32"),
    sizes=(_size("4", "8Gi", share=60), _size("8", "16Gi", share=40)),
    priority=100,
    interruption_penalty=64,
    reclamation_penalty=256,
    spread=SpreadRule(0.15, max_skew=2, strict=False),
    mean_life_s=600,
)
_CACHE = Archetype(
    name="memory-cache",
    weight=2_000,
    instance_types=("r6i.xlarge", "r6i.2xlarge"),
    sizes=(_size("2", "16Gi"),),
    priority=1000,
    interruption_penalty=4096,
    reclamation_penalty=16_384,
    gang=GangRule(3, 5),
    stateful=True,
)
_DATABASE = Archetype(
    name="stateful-db",
    weight=2_000,
    instance_types=("r6i.2xlarge", "r6i.4xlarge"),
    sizes=(_size("8", "32Gi"),),
    priority=1000,
    interruption_penalty=8192,
    reclamation_penalty=32_768,
    gang=GangRule(3, 5),
    stateful=True,
)
_INFERENCE = Archetype(
    name="gpu-inference",
    weight=100,
    instance_types=("a3-highgpu-8g", "a2-highgpu-8g"),
    sizes=(_size("8", "32Gi", gpu=1),),
    priority=1000,
    interruption_penalty=4096,
    reclamation_penalty=8192,
    spread=SpreadRule(0.5, max_skew=2, strict=False),
    pods_per_node=8,
)
_TRAINING_SMALL = Archetype(
    name="gpu-training-small",
    weight=32,
    instance_types=("a3-highgpu-8g",),
    sizes=(_size("64", "256Gi", gpu=8),),
    priority=1000,
    interruption_penalty=16_384,
    reclamation_penalty=32_768,
    gang=GangRule(2, 8),
    pods_per_node=1,
)
_TRAINING_MEDIUM = Archetype(
    name="gpu-training-medium",
    weight=18,
    instance_types=("a3-highgpu-8g",),
    sizes=(_size("64", "256Gi", gpu=8),),
    priority=1000,
    interruption_penalty=32_768,
    reclamation_penalty=65_536,
    gang=GangRule(8, 16),
    pods_per_node=1,
)
_TRAINING_LARGE = Archetype(
    name="gpu-training-large",
    weight=1,
    instance_types=("a3-highgpu-8g",),
    sizes=(_size("128", "512Gi", gpu=8),),
    priority=1000,
    interruption_penalty=65_536,
    reclamation_penalty=131_072,
    gang=GangRule(64, 256, topology_key=ZONE_KEY),
    pods_per_node=1,
    burst_only=True,
)
_CRITICAL = Archetype(
    name="critical-realtime",
    weight=230,
    instance_types=("c6i.4xlarge", "m6i.2xlarge"),
    sizes=(_size("4", "8Gi"),),
    priority=1_000_000,
    interruption_penalty=65_536,
    reclamation_penalty=65_536,
    spread=SpreadRule(1.0, max_skew=1, strict=True),
)

REALISTIC = Catalogue(
    "realistic",
    (
        _TINY,
        _SERVICE,
        _BATCH,
        _CACHE,
        _DATABASE,
        _INFERENCE,
        _TRAINING_SMALL,
        _TRAINING_MEDIUM,
        _TRAINING_LARGE,
        _CRITICAL,
    ),
)

REALISTIC_DEV = Catalogue(
    "realistic-dev",
    (
        replace(_TINY, weight=40),
        replace(_SERVICE, weight=15),
        replace(_BATCH, weight=10),
        replace(_CACHE, weight=8),
        replace(_DATABASE, weight=8),
        # The published table says "1-GPU types" without naming any; these two are such.
        replace(_INFERENCE, weight=5, instance_types=("a2-highgpu-1g", "g2-standard-8"), pods_per_node=1),
        replace(_TRAINING_SMALL, weight=8, gang=GangRule(2, 4)),
        replace(_TRAINING_MEDIUM, weight=6, gang=GangRule(4, 8, topology_key=ZONE_KEY)),
        replace(_CRITICAL, weight=3),
    ),
)


def _routed(name: str, interruption_penalty: float) -> Archetype:
    return Archetype(
        name=name,
        weight=100,
        instance_types=("c6i.4xlarge", "m6i.2xlarge"),
        sizes=(_size("4", "8Gi"),),
        priority=100,
        interruption_penalty=interruption_penalty,
        reclamation_penalty=0,
        pods_per_node=100,
    )


COST_ROUTING = Catalogue("cost-routing", (_routed("tolerant", 0), _routed("sensitive", 8)))
"""One side of the price at which spot and on-demand break even, $2.80, and the other."""

SPREAD = Catalogue(
    "spread",
    tuple(
        replace(archetype, spread=SpreadRule(1.0, max_skew=1, strict=True))
        if archetype is _SERVICE
        else archetype
        for archetype in REALISTIC.archetypes
    ),
)
"""Realistic, but every service is spread strictly."""

# Factor for which the machines of gangs are half of all: (1 - g) / g, where g = 10.36 % is their realistic share.
_GANG_WEIGHTS = {
    "memory-cache": 17_296,
    "stateful-db": 17_296,
    "gpu-training-small": 277,
    "gpu-training-medium": 156,
}
GANG_HEAVY = Catalogue(
    "gang-heavy",
    tuple(
        replace(archetype, weight=_GANG_WEIGHTS.get(archetype.name, archetype.weight))
        for archetype in REALISTIC.archetypes
    ),
)
"""Realistic, but half of the machines serve gangs."""

CATALOGUES = (REALISTIC, REALISTIC_DEV, COST_ROUTING, SPREAD, GANG_HEAVY)
