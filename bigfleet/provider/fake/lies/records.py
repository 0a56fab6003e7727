"""Lies about single records: invalid prices, bindings, states and hosts.

Rules: `providers#lies`.
"""

import math
from typing import Final

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import BOUND_STATES
from bigfleet.provider.fake.lies.lie import InterceptedCall, Lie
from bigfleet.v1alpha1 import provider_pb2 as pb

ALIEN: Final = 42
SHARED_HOST: Final = "host-shared-by-all"
LEAK_LABEL: Final = "fake.bigfleet/blob"


class NanPriceLie(Lie):
    """Prices are NaN."""

    name, on_records = "nan-price", True

    def record(self, machine: pb.Machine, /) -> None:
        machine.price_per_hour = math.nan


class BadProbabilityLie(Lie):
    """Interruption probabilities are above one."""

    name, on_records = "bad-probability", True

    def record(self, machine: pb.Machine, /) -> None:
        machine.interruption_probability = 1.5


class BoundWithoutClusterLie(Lie):
    """Bound machines have no cluster."""

    name, on_records = "bound-without-cluster", True

    def record(self, machine: pb.Machine, /) -> None:
        if int(machine.state) in BOUND_STATES:
            machine.cluster = ""


class ForgetMetadataLie(Lie):
    """The shard metadata is missing."""

    name, on_records = "forget-metadata", True

    def record(self, machine: pb.Machine, /) -> None:
        machine.shard_metadata.clear()


class MangleMetadataLie(Lie):
    """The values of the shard metadata are changed."""

    name, on_records = "mangle-metadata", True

    def record(self, machine: pb.Machine, /) -> None:
        for key in sorted(machine.shard_metadata):
            machine.shard_metadata[key] = f"{machine.shard_metadata[key][::-1]}?"


class AlienStateLie(Lie):
    """Machines are in a state that does not exist."""

    name, on_records = "alien-state", True

    def record(self, machine: pb.Machine, /) -> None:
        machine.state = pb.MachineState.ValueType(ALIEN)


class TwoHostsLie(Lie):
    """All machines have the same host."""

    name, on_records = "two-hosts", True

    def record(self, machine: pb.Machine, /) -> None:
        if machine.HasField("host"):
            machine.host.ref = SHARED_HOST


class HostEarlyLie(Lie):
    """A Creating machine has a host."""

    name, on_records = "host-early", True

    def record(self, machine: pb.Machine, /) -> None:
        if int(machine.state) == S.CREATING:
            machine.host.provider, machine.host.ref = "fake", f"host-{machine.id}-too-early"


class LateClusterLie(Lie):
    """The binding is shown only when Configured, not while Configuring."""

    name, on_records = "late-cluster", True

    def record(self, machine: pb.Machine, /) -> None:
        if int(machine.state) == S.CONFIGURING:
            machine.cluster = ""
            machine.shard_metadata.clear()


class LeakBlobLie(Lie):
    """The bootstrap blob is shown as a label."""

    name, on_records = "leak-blob", True

    def start(self) -> None:
        self._blobs: dict[str, str] = {}

    def before(self, intercepted: InterceptedCall, /) -> None:
        if intercepted.rpc == "Configure":
            self._blobs[intercepted.machine_id] = intercepted.request.bootstrap_blob.decode(
                "utf-8", "replace"
            )

    def record(self, machine: pb.Machine, /) -> None:
        if machine.id in self._blobs:
            machine.labels[LEAK_LABEL] = self._blobs[machine.id]


RECORD_LIES: Final[tuple[type[Lie], ...]] = (
    NanPriceLie,
    BadProbabilityLie,
    BoundWithoutClusterLie,
    ForgetMetadataLie,
    MangleMetadataLie,
    AlienStateLie,
    TwoHostsLie,
    HostEarlyLie,
    LateClusterLie,
    LeakBlobLie,
)
