"""The facts of a replica that go with every answer as trailing metadata.

Why: clients find the leader by them, the start-up probe finds a cluster, and `status` shows the lag; refusals carry them too.
"""

from bigfleet.aio.net import Metadata
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.log import LogStatus
from bigfleet.transport import coordinator as keys


def facts_about(status: LogStatus, raised_level: int) -> Metadata:
    """Return the trailing metadata of an answer."""
    leader = ((keys.LEADER, status.leader),) if status.leader else ()
    peers = ",".join(f"{peer.node_id}={peer.grpc_address}" for peer in status.peers)
    return (
        *leader,
        (keys.RAFT_STATE, status.state.value),
        (keys.CLUSTER_ID, status.cluster_id),
        (keys.MEMBERSHIP, status.membership.value),
        (keys.LAST_TERM, str(status.last_term)),
        (keys.LAST_INDEX, str(status.last_index)),
        (keys.NODE, status.node_id),
        (keys.EPOCH, str(status.epoch)),
        (keys.COMMAND_LEVEL, str(KNOWN_LEVEL)),
        (keys.RAISED_LEVEL, str(raised_level)),
        *(((keys.PEERS, peers),) if peers else ()),
    )
