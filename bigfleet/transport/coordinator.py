"""The nine calls of the coordinator and the trailing metadata of its answers, as client and server name them.

Why: the coordinator serves them, shards, `bigfleetctl`, dashboards and peers call them; all from one description.
Must never: be required of a peer: metadata is a convenience, and a client must work without (`wire#additions`).
Rules: `wire#nine-calls`, `wire#additions`, `coordinator#serving`.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.aio.net import Metadata
from bigfleet.aio.service import ServiceSpec
from bigfleet.v1alpha1 import coordinator_pb2 as pb

COORDINATOR: Final = ServiceSpec(pb.DESCRIPTOR.services_by_name["Coordinator"])

REPORT_SHARD: Final = COORDINATOR.unary("ReportShard", pb.ShardReport, pb.ReportAck)
ASSIGN_DOMAIN: Final = COORDINATOR.unary("AssignDomain", pb.AssignDomainRequest, pb.AssignDomainResponse)
UNASSIGN_DOMAIN: Final = COORDINATOR.unary(
    "UnassignDomain", pb.UnassignDomainRequest, pb.UnassignDomainResponse
)
REMOVE_SHARD: Final = COORDINATOR.unary("RemoveShard", pb.RemoveShardRequest, pb.RemoveShardResponse)
LIST_SHARDS: Final = COORDINATOR.unary("ListShards", pb.ListShardsRequest, pb.ListShardsResponse)
LIST_DOMAIN_ASSIGNMENTS: Final = COORDINATOR.unary(
    "ListDomainAssignments", pb.ListDomainAssignmentsRequest, pb.ListDomainAssignmentsResponse
)
LIST_SHARD_REPORTS: Final = COORDINATOR.unary(
    "ListShardReports", pb.ListShardReportsRequest, pb.ListShardReportsResponse
)
JOIN_RAFT_CLUSTER: Final = COORDINATOR.unary(
    "JoinRaftCluster", pb.JoinRaftClusterRequest, pb.JoinRaftClusterResponse
)
SNAPSHOT_SAVE: Final = COORDINATOR.server_stream("SnapshotSave", pb.SnapshotSaveRequest, pb.SnapshotSaveChunk)

LEADER: Final = "bigfleet-leader"
RAFT_STATE: Final = "bigfleet-raft-state"
CLUSTER_ID: Final = "bigfleet-cluster-id"
MEMBERSHIP: Final = "bigfleet-membership"
LAST_TERM: Final = "bigfleet-last-term"
LAST_INDEX: Final = "bigfleet-last-index"
BLOCKED_BY: Final = "bigfleet-blocked-by"
COMMAND_LEVEL: Final = "bigfleet-command-level"
"""Highest level of commands the replica knows (`coordinator#command-levels`); read by the leader before it raises the level."""
RAISED_LEVEL: Final = "bigfleet-raised-level"
"""Highest level of commands that may be proposed, as far as the replica has applied the log; below `COMMAND_LEVEL` while an
upgrade is on its way."""
NODE: Final = "bigfleet-node"
"""Id of the replica that answers."""
EPOCH: Final = "bigfleet-epoch"
"""The last epoch in the replica's tables."""
LAST_EXPORT: Final = "bigfleet-last-export-unix-ns"
"""When the serving leader last exported a snapshot; on `ListShards` only, absent where it has not."""
PEERS: Final = "bigfleet-peers"
"""`node=host:port`, comma-separated: gRPC addresses of all replicas, so that `status` can ask each of them."""


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """What a replica says about itself with every answer; what it left out is empty, zero or None."""

    leader: str | None = None
    raft_state: str = ""
    cluster_id: str = ""
    membership: str = ""
    last_term: int = 0
    last_index: int = 0
    blocked_by: tuple[str, ...] = ()
    command_level: int = 0
    raised_level: int = 0
    peers: tuple[tuple[str, str], ...] = ()
    node: str = ""
    epoch: int = 0
    last_export_ns: int = 0


def facts_of(trailing: Metadata) -> ReplicaFacts:
    """Read the trailing metadata of an answer or a refusal."""
    given = {key: value for key, value in trailing if isinstance(value, str)}
    return ReplicaFacts(
        leader=given.get(LEADER) or None,
        raft_state=given.get(RAFT_STATE, ""),
        cluster_id=given.get(CLUSTER_ID, ""),
        membership=given.get(MEMBERSHIP, ""),
        last_term=_number(given.get(LAST_TERM, "")),
        last_index=_number(given.get(LAST_INDEX, "")),
        blocked_by=_list(given.get(BLOCKED_BY, "")),
        command_level=_number(given.get(COMMAND_LEVEL, "")),
        raised_level=_number(given.get(RAISED_LEVEL, "")),
        peers=tuple(_pair(item) for item in _list(given.get(PEERS, ""))),
        node=given.get(NODE, ""),
        epoch=_number(given.get(EPOCH, "")),
        last_export_ns=_number(given.get(LAST_EXPORT, "")),
    )


def _list(text: str) -> tuple[str, ...]:
    return tuple(item for item in text.split(",") if item)


def _pair(text: str) -> tuple[str, str]:
    name, _, address = text.partition("=")
    return name, address


def _number(text: str) -> int:
    # Advisory data of a peer that may be of another version: nonsense counts as not said.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
