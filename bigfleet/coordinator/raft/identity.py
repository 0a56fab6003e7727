"""Who a data directory belongs to, and what that replica is allowed to be.

Why: a directory that was copied, rolled back or emptied looks like any other; without a name on it a replica could vote twice or
mint a second cluster.
Must never: be written before what it vouches for is durable: it is the last step of minting, promoting and restoring.
Rules: coordinator 9.2 to 9.5 and 10.4. A learner's directory bears the name of its cluster too, so that what it learned from one
cluster is never taken for the log of another.
"""

import enum
from dataclasses import dataclass, fields

from bigfleet.aio.disk import Disk, atomic_write
from bigfleet.coordinator.log import DamagedDirectoryError
from bigfleet.coordinator.raft.metadata import sealed, unsealed


class ReplicaMode(enum.StrEnum):
    """What a replica may be with this directory."""

    LEARNER = "learner"
    SOLO = "solo"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """The content of `identity.json`."""

    node_id: str
    cluster_id: str
    incarnation: int
    mode: ReplicaMode
    voters: tuple[str, ...]


def read_identity(disk: Disk, path: str) -> ReplicaIdentity | None:
    """Return the identity, None where there is none; raises DamagedDirectoryError."""
    if not disk.exists(path):
        return None
    body = unsealed(path, disk.read(path))
    if set(body) != {field.name for field in fields(ReplicaIdentity)}:
        raise DamagedDirectoryError(path, f"found the fields {sorted(body)}")
    try:
        return ReplicaIdentity(
            node_id=str(body["node_id"]),
            cluster_id=str(body["cluster_id"]),
            incarnation=int(body["incarnation"]),
            mode=ReplicaMode(body["mode"]),
            voters=tuple(str(voter) for voter in body["voters"]),
        )
    except (ValueError, TypeError) as error:
        raise DamagedDirectoryError(path, f"found {body}, which no replica writes") from error


def write_identity(disk: Disk, path: str, identity: ReplicaIdentity) -> None:
    """Replace the identity, durably."""
    body = {
        "node_id": identity.node_id,
        "cluster_id": identity.cluster_id,
        "incarnation": identity.incarnation,
        "mode": identity.mode.value,
        "voters": list(identity.voters),
    }
    atomic_write(disk, path, sealed(body))
