"""What the siege is about: 50 honest clusters with demand that their machines serve, and some machines that are free.

Why: a cycle that has nothing to decide shows nothing. Every honest row is bound to machines of its own, and every honest cluster
changes its demand once a second, a few of them so that a machine more is needed or one fewer.
"""

import json
from typing import Final

from bigfleet.model.need import Need, assignment_of
from bigfleet.model.profile import INSTANCE_TYPE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.model.resources import Resources
from bigfleet.v1alpha1 import shard_pb2
from bigfleet.wire.metadata import assignment_to_metadata
from bigfleet.wire.rollups import Rollup, rollup_to_proto

HONEST: Final = 50
ROWS: Final = 10
PER_ROW: Final = 8
"""Machines that serve one row of one cluster: 4,000 in all."""
FREE: Final = 500
"""Idle machines, and as many slots."""
CPU: Final = 16
SHARD: Final = "shard-0"
TENANT: Final = "prod"
"""The hostile cluster, named as the frames of the attack tests name theirs."""
PRIORITY: Final = 1_000_000
"""Above all that the tenant asks for: whose demand goes first is the matter of priorities, not of this measurement."""


def honest_name(number: int) -> str:
    return f"honest-{number:02d}"


def _profile(row: int) -> Profile:
    requirement = Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, (f"type-{row}",))
    return Profile(requirements=(requirement,), priority=PRIORITY + row)


_PROFILES: Final = tuple(_profile(row) for row in range(ROWS))


def honest_rollup(number: int, *, less: bool = False, more: bool = False) -> bytes:
    """A cluster's whole demand as a frame; `less` by half a machine, which releases none, `more` by a whole one."""
    name = honest_name(number)
    changed = number % ROWS

    def cpus(row: int) -> int:
        if row != changed:
            return CPU * PER_ROW
        return CPU * (PER_ROW + more) - (CPU // 2 if less else 0)

    needs = tuple(
        Need(name, profile, Resources.parse({"cpu": str(cpus(row))})) for row, profile in enumerate(_PROFILES)
    )
    return shard_pb2.OperatorMessage(rollup=rollup_to_proto(Rollup(name, 1, needs))).SerializeToString()


def pools() -> str:
    """The provider's inventory: the machines of every row, and those that are free."""
    found: list[dict[str, object]] = []
    for row, profile in enumerate(_PROFILES):
        kind = {
            "instance_type": f"type-{row}",
            "zones": ["za"],
            "resources": {"cpu": str(CPU), "memory": "64Gi"},
            "price_per_hour": 1.0,
        }
        metadata = assignment_to_metadata(assignment_of(Need("", profile)), SHARD)
        for number in range(HONEST):
            bound = {"state": "Configured", "cluster": honest_name(number), "shard_metadata": metadata}
            found.append({"name": f"h{number}-{row}", "count": PER_ROW, **bound, **kind})
        found.append({"name": f"idle-{row}", "count": FREE // ROWS, "state": "Idle", **kind})
        found.append({"name": f"slot-{row}", "count": FREE // ROWS, **kind})
    return json.dumps({"pools": found})  # JSON is YAML
