"""The status of a replica from what it last saw of the prefix."""

from bigfleet.coordinator.etcd.layout import Head
from bigfleet.coordinator.etcd.store import View
from bigfleet.coordinator.log import LogStatus, Membership, PeerStatus, RaftState


def status_of(
    view: View,
    *,
    node_id: str,
    leader: str | None,
    won: int,
    serving: int | None,
    applied: Head,
    epoch: int,
    waiting: tuple[str, ...],
) -> LogStatus:
    """Return the status; `won` is the election of this process, 0 while it does not lead."""
    cluster = view.cluster
    state = RaftState.FOLLOWER if cluster is not None else RaftState.UNFORMED
    if won:
        state = RaftState.LEADER if serving is None else RaftState.SERVING
    replicas = sorted(view.replicas, key=lambda replica: replica.id)
    return LogStatus(
        node_id=node_id,
        state=state,
        leader=leader,
        cluster_id="" if cluster is None else cluster.cluster_id,
        membership=Membership.UNFORMED if cluster is None else Membership.FULL,
        term=0 if view.leader is None or cluster is None else cluster.epoch_base + view.leader.created,
        epoch=epoch,
        serving=serving,
        last_term=applied.epoch,
        last_index=applied.index,
        commit_index=max(view.head.index, applied.index),
        applied_index=applied.index,
        voters=tuple(replica.id for replica in replicas),
        peers=tuple(PeerStatus(replica.id, replica.address, connected=True) for replica in replicas),
        waiting=waiting,
    )
