"""The identity file: which replica and cluster a data directory belongs to, and the mode of the replica.

Why: without it a replica on a copied, rolled back or emptied directory could vote twice or form a second cluster.
Must never: be written before the log is durable: it is the last step of forming, promoting and restoring.
Rules: `coordinator#identity-file`, `coordinator#startup-decision`, `coordinator#learner`, `coordinator#expand`,
`coordinator#restore`, `coordinator#relearn`. A learner's directory names its cluster too.
"""

import enum
from dataclasses import dataclass, fields

from bigfleet.aio.disk import Disk, atomic_write
from bigfleet.aio.ids import Ids
from bigfleet.coordinator.log import DamagedDirectoryError
from bigfleet.coordinator.raft.metadata import sealed, unsealed


class ReplicaMode(enum.StrEnum):
    """The role that a directory allows its replica."""

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


def new_cluster_id(ids: Ids) -> str:
    """Return a random UUID."""
    one, two = ids.operation(), ids.operation()
    return f"{one[:8]}-{one[8:12]}-4{one[13:]}-8{two[1:4]}-{two[4:]}"


def read_identity(disk: Disk, path: str) -> ReplicaIdentity | None:
    """Return the identity, None if there is none; raises DamagedDirectoryError."""
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
        raise DamagedDirectoryError(path, f"found {body}, not the values of a replica") from error


def write_identity(disk: Disk, path: str, identity: ReplicaIdentity) -> None:
    """Replace the identity durably."""
    body = {
        "node_id": identity.node_id,
        "cluster_id": identity.cluster_id,
        "incarnation": identity.incarnation,
        "mode": identity.mode.value,
        "voters": list(identity.voters),
    }
    atomic_write(disk, path, sealed(body))
