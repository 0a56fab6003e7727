"""Formation: brings a replica from its start to a voter, and one voter to three.

Why: forming, joining and growing can lose or double a quorum. Each step is durable before the next begins, so that a crash in
between leaves one quorum.
Must never: let a replica vote that has not applied an entry which the serving leader committed after it asked to join.
Rules: `coordinator#startup-decision`, `coordinator#learner`, `coordinator#expand`, `coordinator#first-bootstrap`.
"""

import asyncio
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.backoff import Backoff, BackoffPolicy
from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.ids import Ids
from bigfleet.aio.rng import RandomStream
from bigfleet.coordinator.batches import Batches
from bigfleet.coordinator.log import DamagedDirectoryError, Membership
from bigfleet.coordinator.raft.directory import ReplicaDirectory
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode, new_cluster_id
from bigfleet.coordinator.raft.membership import MemberAddress, RaftMembers
from bigfleet.coordinator.raft.peer_calls import PeerCalls
from bigfleet.coordinator.raft.replica_runner import ReplicaRunner
from bigfleet.coordinator.raft.startup import (
    FormCluster,
    PeerAnswer,
    RefuseStart,
    StartAsLearner,
    StartAsSoleVoter,
    StartAsVoter,
    StartFlags,
    WaitForPeers,
    decide,
)

ASK_AGAIN_S = 1.0
LOOK_AGAIN_S = 0.1
LOG_AGAIN_S = 10.0
EXPAND_S = 30.0
EXPAND_AGAIN_S = 5.0
JOIN_BACKOFF = BackoffPolicy(first_s=1.0, ceiling_s=15.0)

OnStep = Callable[[str], object]


class Formation:
    """Forms, joins or grows the cluster for one replica."""

    def __init__(
        self,
        setting: StartFlags,
        members: RaftMembers,
        *,
        directory: ReplicaDirectory,
        runner: ReplicaRunner,
        batches: Batches,
        calls: PeerCalls,
        clock: Clock,
        ids: Ids,
        jitter: RandomStream,
        log: FilteringBoundLogger,
        on_step: OnStep = lambda _step: None,
    ) -> None:
        """`on_step` is called after every durable step, for tests that end the process there."""
        self._setting, self._members, self._directory = setting, members, directory
        self._runner, self._batches, self._calls = runner, batches, calls
        self._clock, self._ids, self._jitter, self._log, self._on_step = clock, ids, jitter, log, on_step
        self._logged_s = float("-inf")
        self.waiting: tuple[str, ...] = ("starting",)
        """Why this replica is not a voter yet; empty once it is."""
        self.heard = Membership.UNFORMED
        """The membership that peers last reported; a learner reports it too."""

    async def run(self) -> None:
        """Return once there is nothing left to form; raises FatalLogError."""
        identity = await self._started()
        if identity.mode is ReplicaMode.LEARNER:
            identity = await self._learn(identity)
        self.waiting = ()
        if identity.mode is ReplicaMode.SOLO and self._setting.replicas > 1:
            await self._expand(identity)

    # Start (`coordinator#startup-decision`).

    async def _started(self) -> ReplicaIdentity:
        while True:
            identity = self._directory.identity(self._members.me.node_id)
            needs_peers = self._setting.replicas > 1 and (
                identity is None or identity.mode is not ReplicaMode.FULL
            )
            answers = await self._ask_all() if needs_peers else {}
            match decide(self._setting, identity, answers):
                case StartAsVoter() | StartAsSoleVoter() if identity is not None:
                    self._step(f"start as {identity.mode}")
                    await self._runner.restart_as(identity)
                    return identity
                case FormCluster():
                    minted = self._directory.mint(self._members.me.node_id, new_cluster_id(self._ids))
                    self._step("minted")
                    await self._runner.restart_as(minted)
                    return minted
                case StartAsLearner(cluster_id):
                    identity = identity or self._directory.learn(self._members.me.node_id, cluster_id)
                    self._step("learning")
                    await self._runner.restart_as(identity)
                    return identity
                case RefuseStart(problem):
                    raise DamagedDirectoryError(self._directory.files.identity, problem)
                case WaitForPeers(reasons):
                    self._log_waiting(reasons)
            await self._clock.sleep(ASK_AGAIN_S)

    def _log_waiting(self, reasons: tuple[str, ...]) -> None:
        now_s = monotonic_s(self._clock)
        if reasons != self.waiting or now_s - self._logged_s >= LOG_AGAIN_S:
            self._log.info("coordinator_waits", reasons=list(reasons))
            self._logged_s = now_s
        self.waiting = reasons

    async def _ask_all(self) -> dict[str, PeerAnswer | None]:
        others = self._members.others
        answers = await asyncio.gather(*(self._calls.probe(peer.grpc_address) for peer in others))
        return {peer.node_id: answer for peer, answer in zip(others, answers, strict=True)}

    # Learner (`coordinator#learner`).

    async def _learn(self, identity: ReplicaIdentity) -> ReplicaIdentity:
        """Learn until this replica may vote, then restart it as a voter."""
        self.waiting = ("learning: not a voter yet",)
        backoff = Backoff(self._jitter, JOIN_BACKOFF)
        ask_at_s = 0.0
        while not self._may_vote():
            if monotonic_s(self._clock) >= ask_at_s:
                await self._ask_to_join(identity)
                # Once admitted only the membership is missing, which is a cheap question.
                wait_s = ASK_AGAIN_S if self._runner.target else backoff.next_s()
                ask_at_s = monotonic_s(self._clock) + wait_s
            await self._clock.sleep(LOOK_AGAIN_S)
        replica = self._runner.replica
        term = 0 if replica is None else replica.view.term
        await self._runner.stop()
        promoted = self._directory.promote(identity, self._members.ids, term)
        self._step("promoted")
        await self._runner.restart_as(promoted)
        return promoted

    def _may_vote(self) -> bool:
        replica, target = self._runner.replica, self._runner.target
        caught_up = replica is not None and 0 < target <= replica.view.applied
        return caught_up and self.heard is Membership.FULL

    async def _ask_to_join(self, identity: ReplicaIdentity) -> None:
        queue: list[MemberAddress] = list(self._members.others)
        replica = self._runner.replica
        leader = None if replica is None else self._members.by_raft_address(replica.view.leader)
        if leader is not None and leader in queue:
            queue.insert(0, leader)
        for peer in dict.fromkeys(queue):
            answer = await self._calls.join(peer.grpc_address, self._members.me)
            if answer is None or answer.is_unformed:
                continue
            if answer.cluster_id != identity.cluster_id:
                problem = f"it has learned from cluster {identity.cluster_id}, {peer.node_id} is of {answer.cluster_id}"
                raise DamagedDirectoryError(self._directory.files.identity, problem)
            if answer.membership == Membership.FULL:
                self.heard = Membership.FULL
            if answer.accepted and not self._runner.target:
                # After the barrier of the admission, so after everything this replica acknowledged before it lost its disk.
                self._runner.target = answer.last_index
                self._step("admitted")
            if answer.accepted:
                return

    # Expand (`coordinator#expand`).

    async def _expand(self, identity: ReplicaIdentity) -> None:
        """Make the sole voter one of all; as the whole old quorum it may decide alone."""
        while not await self._try_to_expand(identity):
            await self._clock.sleep(EXPAND_AGAIN_S)

    async def _try_to_expand(self, identity: ReplicaIdentity) -> bool:
        needed = self._setting.replicas // 2
        while not (self._is_leader() and len(self._learners(0)) >= needed):
            await self._clock.sleep(LOOK_AGAIN_S)
        self._batches.freeze()
        try:
            await self._batches.idle()
            self._step("frozen")
            if not await self._learners_match(needed):
                self._log.warning("expand_given_up", reason="the learners did not catch up")
                return False
            self._step("matched")
            full = self._directory.expand(identity, self._members.ids)
            self._step("full")
            await self._runner.restart_as(full)
            self._step("rebuilt")
            return True
        finally:
            self._batches.unfreeze()

    async def _learners_match(self, needed: int) -> bool:
        give_up_s = monotonic_s(self._clock) + EXPAND_S
        while monotonic_s(self._clock) < give_up_s:
            replica = self._runner.replica
            if replica is not None and self._is_leader():
                last = replica.journal.last.index
                if replica.view.applied >= last and len(self._learners(last)) >= needed:
                    return True
            await self._clock.sleep(LOOK_AGAIN_S)
        return False

    def _is_leader(self) -> bool:
        replica = self._runner.replica
        return replica is not None and replica.serving is not None

    def _learners(self, applied: int) -> list[str]:
        """Return the members among the admitted learners that have applied at least this index."""
        replica = self._runner.replica
        reports = () if replica is None else replica.view.learners
        known = set(self._members.ids)
        return sorted(
            {r.node_id for r in reports if r.target and r.applied >= applied and r.node_id in known}
        )

    def _step(self, step: str) -> None:
        self._log.info("coordinator_step", step=step)
        self._on_step(step)
