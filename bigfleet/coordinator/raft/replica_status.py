"""The status of this replica, from its Raft object, its formation and the serving epoch.

Why: answers, readiness, `status` and the hint of a refusal read the same facts, which must be those of one moment.
Must never: report serving after the replica has lost leadership, even if the loop does not know yet.
Rules: `coordinator#serving`, `coordinator#ready`.
"""

from bigfleet.coordinator.log import LogStatus, Membership, PeerStatus, RaftState, StateMachine
from bigfleet.coordinator.raft.formation import Formation
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode
from bigfleet.coordinator.raft.membership import RaftMembers
from bigfleet.coordinator.raft.replica import Replica, ReplicaView
from bigfleet.coordinator.raft.replica_runner import ReplicaRunner


class ReplicaStatus:
    """The status of one replica; `runner` and `formation` are set once the log is started."""

    def __init__(self, members: RaftMembers, state_machine: StateMachine) -> None:
        self._members, self._state_machine = members, state_machine
        self.runner: ReplicaRunner | None = None
        self.formation: Formation | None = None
        self.on_disk: ReplicaIdentity | None = None
        """The identity on disk, for answers before the first Raft object: an empty ordinal 0 must learn of the cluster."""
        self.serving: int | None = None
        """The epoch under which this replica may serve, because soft state was dropped for it."""
        self._known: tuple[object, LogStatus] = (None, self._status(None))

    @property
    def replica(self) -> Replica | None:
        return None if self.runner is None else self.runner.replica

    @property
    def lacks_peers(self) -> bool:
        """Whether peers should be connected and none is."""
        replica = self.replica
        if replica is None or self.runner is None or replica.view.connected:
            return False
        return self.runner.is_learner or self._membership() is Membership.FULL

    def serving_now(self) -> int | None:
        """Return the serving epoch; the replica knows first when it is lost."""
        replica = self.replica
        return self.serving if replica is not None and replica.serving == self.serving else None

    def hint(self) -> str | None:
        """Return the gRPC address of the believed leader; never this replica's own."""
        replica = self.replica
        leader = None if replica is None else self._members.by_raft_address(replica.view.leader)
        return None if leader is None or leader == self._members.me else leader.grpc_address

    def log_status(self) -> LogStatus:
        """Return the status; the same object until something changes, as every answer reads it."""
        replica = self.replica
        key = (
            None if replica is None else (replica.view, replica.journal.last_raw, replica.serving),
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
        return tuple(
            PeerStatus(
                member.node_id,
                member.grpc_address,
                connected=member == self._members.me or member.raft_address in view.connected,
            )
            for member in self._members.all
        )

    def _waiting(self, view: ReplicaView) -> tuple[str, ...]:
        if self.formation is None:
            return ("starting",)
        if self.formation.waiting:
            return self.formation.waiting
        # Without connections the library holds no election, and so keeps its last leader.
        within_reach = view.leader in (self._members.me.raft_address, *view.connected)
        return () if within_reach else ("no leader is known",)
