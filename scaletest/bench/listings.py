"""Provider listings for the inventory benchmarks: the size and variety of a real fleet, the same for every run.

What it imitates (engine benchmarks, 225,000 machines): 15-byte ids, a 19-byte host reference on a third of the machines,
four labels, 37 types in six zones and 30 racks, a third bound to one of 200 clusters and stamped for one of their needs.
"""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import Assignment, CapacityType, HostRef, Machine, MachineState, Shape
from bigfleet.model.profile import INSTANCE_TYPE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.machines import machine_to_proto
from bigfleet.wire.metadata import assignment_to_metadata
from bigfleet.wire.record_scan import fields_of

MACHINES = 225_000


@contextmanager
def written(machines: int, unique_label: bool) -> Iterator[tuple[Path, Path, Path]]:
    """A full listing, a delta, and the full listing with its maps in another order, as files for a while."""
    with tempfile.TemporaryDirectory() as directory:
        full, changes, other = (Path(directory, name) for name in ("full", "delta", "other"))
        everything = listing(machines, unique_label)
        full.write_bytes(everything.SerializeToString())
        other.write_bytes(in_other_order(everything, seed=1))
        changes.write_bytes(delta(min(1000, machines // 200), 500, unique_label).SerializeToString())
        yield full, changes, other


def listing(count: int = MACHINES, unique_label: bool = False) -> pb.MachineList:
    """A full listing; with `unique_label` every machine carries a host name of its own."""
    return pb.MachineList(machines=[record(number, unique_label) for number in range(count)], revision=b"1")


def in_other_order(message: pb.MachineList, seed: int) -> bytes:
    """The same listing from an encoder that begins each map at a random entry, as some languages' do."""
    rng = random.Random(seed)
    listing_fields = []
    for machine in message.machines:
        fields = fields_of(machine.SerializeToString()) or []
        for at, field in enumerate(fields):
            if field[0] in _NESTED_MAPS:
                fields[at] = field[:2] + b"".join(_rotated(fields_of(field[2:]) or [], rng))
        for tag in _MAPS:
            places = [at for at, field in enumerate(fields) if field[0] == tag]
            for at, field in zip(places, _rotated([fields[at] for at in places], rng), strict=True):
                fields[at] = field
        record_bytes = b"".join(fields)
        size = len(record_bytes)
        length = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
        listing_fields.append(b"\x0a" + length + record_bytes)
    return b"".join(listing_fields)


_NESTED_MAPS, _MAPS = (0x4A, 0x6A), (0x52, 0x7A)  # tags: resources and allocatable; labels and metadata


def _rotated(entries: list[bytes], rng: random.Random) -> list[bytes]:
    start = rng.randrange(max(1, len(entries)))
    return entries[start:] + entries[:start]


def delta(count: int, changed: int, unique_label: bool = False) -> pb.MachineList:
    """The answer to "what changed": `count` machines, of which `changed` have moved on to their next state."""
    records = [record(number * 200, unique_label) for number in range(count)]
    for message in records[:changed]:
        message.state = _NEXT[message.state]
    return pb.MachineList(machines=records, revision=b"2")


_NEXT = {
    pb.MACHINE_STATE_SPECULATIVE: pb.MACHINE_STATE_CREATING,
    pb.MACHINE_STATE_IDLE: pb.MACHINE_STATE_DELETING,
    pb.MACHINE_STATE_CONFIGURED: pb.MACHINE_STATE_DRAINING,
}


def record(number: int, unique_label: bool = False) -> pb.Machine:
    """One machine of the fleet, by its number."""
    type_number = number % 37
    bound, idle = number % 3 == 0, number % 50 == 1
    state = MachineState.CONFIGURED if bound else MachineState.IDLE if idle else MachineState.SPECULATIVE
    labels = {
        "topology.bigfleet/rack": f"rack-{number % 30}",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "us-east-1",
        "bigfleet/generation": str(type_number % 5),
    }
    if unique_label:
        labels["kubernetes.io/hostname"] = f"ip-10-{number >> 16}-{number >> 8 & 255}-{number & 255}.internal"
    machine = Machine(
        id=f"mach-{number:010d}",
        state=state,
        shape=Shape(
            instance_type=f"m{type_number}.large",
            zone=f"us-east-1{'abcdef'[number % 6]}",
            capacity_type=CapacityType.ON_DEMAND,
            price_per_hour=0.1 * type_number,
            interruption_probability=0.05,
            resources=FrozenMap({"cpu": str(4 + type_number), "memory": f"{16 + type_number}Gi"}),
            allocatable=FrozenMap(
                {"cpu": f"{3900 + 1000 * type_number}m", "memory": f"{15 + type_number}Gi"}
            ),
            labels=FrozenMap(labels),
        ),
        host=HostRef("bench", f"i-{number:017x}") if bound or idle else HostRef(),
        cluster=f"cluster-{number % 200:03d}" if bound else "",
        metadata=FrozenMap(assignment_to_metadata(_assignment(number), "shard-0") if bound else {}),
    )
    return machine_to_proto(machine)


def _assignment(number: int) -> Assignment:
    kind = number % 37
    profile = Profile(
        requirements=(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, (f"m{kind}.large",)),),
        priority=1000 * (number % 7),
        interruption_bucket=PenaltyBucket(13),
        reclamation_bucket=PenaltyBucket(3),
    )
    return Assignment(profile.priority, 1024.0, 1.0, profile.fingerprint)
