"""Where this replica stands: put together from its life, its formation and what the loop has been told.

Why: the trailing metadata of every answer, readiness, `status` and the hint of a refusal all read the same facts, and must not mix
those of two moments.
Must never: say serving when the replica has lost the leadership, even if the loop has not been told yet.
Rules: coordinator 4.1 (metadata, serving), 9.6 (ready).
"""

from bigfleet.coordinator.log import LogStatus, Membership, PeerStatus, RaftState, StateMachine
from bigfleet.coordinator.raft.formation import Formation
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode
from bigfleet.coordinator.raft.membership import ClusterMembers
from bigfleet.coordinator.raft.replica import Replica, ReplicaView
from bigfleet.coordinator.raft.replica_runner import ReplicaRunner


class ReplicaStatus:
    """Facts about one replica; `lives` and `formation` are there once the log is started."""

    def __init__(self, members: ClusterMembers, state_machine: StateMachine) -> None:
        self._members, self._state_machine = members, state_machine
        self.runner: ReplicaRunner | None = None
        self.formation: Formation | None = None
        self.on_disk: ReplicaIdentity | None = None
        """Whose directory this is, before there is a life: an empty ordinal 0 that asks must hear of the cluster."""
        self.serving: int | None = None
        """The epoch for which soft state was dropped, so that it may be served under."""
        self._known: tuple[object, LogStatus] = (None, self._status(None))

    @property
    def replica(self) -> Replica | None:
        return None if self.runner is None else self.runner.replica

    @property
    def lacks_peers(self) -> bool:
        """Whether peers are expected on the Raft links and none is there."""
        replica = self.replica
        if replica is None or self.runner is None or replica.view.connected:
            return False
        return self.runner.is_learner or self._membership() is Membership.FULL

    def serving_now(self) -> int | None:
        """The epoch served under; asked of the replica too, which knows first when it is lost."""
        replica = self.replica
        return self.serving if replica is not None and replica.serving == self.serving else None

    def hint(self) -> str | None:
        """gRPC address of the believed leader; never this replica, as it would answer the same again."""
        replica = self.replica
        leader = None if replica is None else self._members.by_raft_address(replica.view.leader)
        return None if leader is None or leader == self._members.me else leader.grpc_address

    def log_status(self) -> LogStatus:
        """Return all of it; the same value as long as nothing it is made of has changed, as every answer asks for it."""
        replica = self.replica
        key = (
            None
            if replica is None
            else (replica.view, replica.journal.last_raw, replica.serving, tuple(replica.match.items())),
            self.serving,
            self._identity(),
            self.on_disk,
            None if self.formation is None else (self.formation.waiting, self.formation.heard),
            self._state_machine.epoch,
        )
        if key != self._known[0]:
            self._known = key, self._status(replica)
        return self._known[1]

    def _status(self, replica: Replica | None) -> LogStatus:
        identity = self._identity()
        view = ReplicaView() if replica is None else replica.view
        last = None if replica is None else replica.journal.last
        serving = self.serving_now()
        return LogStatus(
            node_id=self._members.me.node_id,
            state=self._state(view, serving),
            leader=self._members.me.grpc_address if serving is not None else self.hint(),
            cluster_id="" if identity is None else identity.cluster_id,
            membership=self._membership(),
            term=view.term,
            epoch=self._state_machine.epoch,
            serving=serving,
            last_term=0 if last is None else last.term,
            last_index=0 if last is None else last.index,
            commit_index=view.commit,
            applied_index=view.applied,
            voters=() if identity is None else identity.voters,
            peers=self._peers(view),
            waiting=self._waiting(view),
        )

    def _identity(self) -> ReplicaIdentity | None:
        lived = None if self.runner is None else self.runner.identity
        return lived or self.on_disk

    def _state(self, view: ReplicaView, serving: int | None) -> RaftState:
        identity = self._identity()
        if identity is None:
            return RaftState.UNFORMED
        if identity.mode is ReplicaMode.LEARNER:
            return RaftState.LEARNER
        if serving is not None:
            return RaftState.SERVING
        if view.is_leader:
            return RaftState.LEADER
        return RaftState.CANDIDATE if view.is_candidate else RaftState.FOLLOWER

    def _membership(self) -> Membership:
        identity = self._identity()
        if identity is None:
            return Membership.UNFORMED
        match identity.mode:
            case ReplicaMode.SOLO:
                return Membership.SOLO
            case ReplicaMode.FULL:
                return Membership.FULL
            case ReplicaMode.LEARNER:
                return Membership.UNFORMED if self.formation is None else self.formation.heard

    def _peers(self, view: ReplicaView) -> tuple[PeerStatus, ...]:
        match = self.replica.match if self.replica is not None and view.is_leader else {}
        return tuple(
            PeerStatus(
                member.node_id,
                member.raft_address,
                member.grpc_address,
                connected=member == self._members.me or member.raft_address in view.connected,
                match_index=match.get(member.raft_address),
            )
            for member in self._members.all
        )

    def _waiting(self, view: ReplicaView) -> tuple[str, ...]:
        if self.formation is None:
            return ("starting",)
        if self.formation.waiting:
            return self.formation.waiting
        # The library remembers its last leader, and without any connection holds no election that would make it forget.
        within_reach = view.leader in (self._members.me.raft_address, *view.connected)
        return () if within_reach else ("no leader is known",)
