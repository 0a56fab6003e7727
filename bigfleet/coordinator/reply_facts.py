"""The facts of a replica that go with every answer as trailing metadata.

Why: clients find the leader by them, the start-up probe finds a cluster, and `status` shows the lag; refusals carry them too.
"""

from bigfleet.aio.net import Metadata
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.log import LogStatus
from bigfleet.transport.coordinator import (
    CLUSTER_ID,
    COMMAND_LEVEL,
    EPOCH,
    LAST_INDEX,
    LAST_TERM,
    LEADER,
    MEMBERSHIP,
    NODE,
    PEERS,
    RAFT_STATE,
    RAISED_LEVEL,
)


def facts_about(status: LogStatus, raised_level: int) -> Metadata:
    """Return the trailing metadata of an answer."""
    leader = ((LEADER, status.leader),) if status.leader else ()
    peers = ",".join(f"{peer.node_id}={peer.grpc_address}" for peer in status.peers)
    return (
        *leader,
        (RAFT_STATE, status.state.value),
        (CLUSTER_ID, status.cluster_id),
        (MEMBERSHIP, status.membership.value),
        (LAST_TERM, str(status.last_term)),
        (LAST_INDEX, str(status.last_index)),
        (NODE, status.node_id),
        (EPOCH, str(status.epoch)),
        (COMMAND_LEVEL, str(KNOWN_LEVEL)),
        (RAISED_LEVEL, str(raised_level)),
        *(((PEERS, peers),) if peers else ()),
    )
