"""The settings of the log in etcd.

Rules: `coordinator#etcd-leader`, `coordinator#etcd-snapshots`.
"""

from dataclasses import dataclass
from typing import Final

LEASE_S: Final = 3


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When the leader writes a snapshot, and how many entries stay behind for followers that are a little late."""

    entries: int = 4096
    bytes: int = 16 * 1024 * 1024
    keep: int = 256


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """The settings of the log."""

    node_id: str
    grpc_address: str
    """Where clients and other replicas reach this one."""
    bootstrap: bool = False
    lease_s: int = LEASE_S
    snapshots: SnapshotPolicy = SnapshotPolicy()
