"""The start decision of a replica, from its directory and the answers of its peers.

Why: most lost clusters go back to a wrong start: a wiped voter that votes, an ordinal 0 that forms a second cluster, a volume
rolled back to the time when its owner was the only voter.
Must never: call a peer or read a disk; the caller passes everything in.
Rules: `coordinator#startup-decision`, `coordinator#first-bootstrap`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.coordinator.log import Membership, RaftState
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What a peer reported about itself."""

    cluster_id: str = ""
    membership: str = Membership.UNFORMED
    state: str = RaftState.UNFORMED
    last_index: int = 0
    command_level: int = 0
    accepted: bool = False
    """Whether a serving leader admitted this replica; only in the answer to a join."""

    @property
    def is_unformed(self) -> bool:
        """Whether the peer belongs to no cluster."""
        return not self.cluster_id and self.membership == Membership.UNFORMED

    @property
    def is_learner(self) -> bool:
        return self.state == RaftState.LEARNER


@dataclass(frozen=True, slots=True)
class StartFlags:
    """The flags that the decision depends on."""

    replicas: int
    ordinal: int
    bootstrap: bool
    without_peers: bool


@dataclass(frozen=True, slots=True)
class StartAsVoter:
    """Start as a voter with the full peer list."""


@dataclass(frozen=True, slots=True)
class StartAsSoleVoter:
    """Start as the sole voter; expand if there are to be more."""


@dataclass(frozen=True, slots=True)
class FormCluster:
    """Form a new cluster."""


@dataclass(frozen=True, slots=True)
class StartAsLearner:
    """Start as a learner of this cluster."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class WaitForPeers:
    """Ask the peers again later; not ready meanwhile, for these reasons."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefuseStart:
    """End with exit 71: no replica may start from this directory."""

    problem: str


StartDecision = StartAsVoter | StartAsSoleVoter | FormCluster | StartAsLearner | WaitForPeers | RefuseStart


def decide(
    setting: StartFlags, identity: ReplicaIdentity | None, answers: Mapping[str, PeerAnswer | None]
) -> StartDecision:
    """Return the decision; `answers` has every other member, None for one that did not answer."""
    if identity is None:
        return _with_empty_directory(setting, answers)
    match identity.mode:
        case ReplicaMode.FULL:
            return StartAsVoter()
        case ReplicaMode.SOLO:
            return _alone(setting, identity, answers)
        case ReplicaMode.LEARNER:
            return _learning(identity, answers)


def _alone(
    setting: StartFlags, identity: ReplicaIdentity, answers: Mapping[str, PeerAnswer | None]
) -> StartDecision:
    for name, answer in sorted(answers.items()):
        if (
            answer is not None
            and answer.membership == Membership.FULL
            and answer.cluster_id == identity.cluster_id
        ):
            return RefuseStart(
                f"it says that {identity.node_id} is the only voter, while {name} says that the cluster is full: "
                "it was rolled back"
            )
    missing = _missing(answers)
    if missing and not setting.without_peers:
        return WaitForPeers(missing)
    for name, answer in sorted(answers.items()):
        if answer is not None and not (answer.is_unformed or answer.is_learner):
            return WaitForPeers((f"peer {name} belongs to a cluster of its own ({answer.cluster_id})",))
    return StartAsSoleVoter()


def _learning(identity: ReplicaIdentity, answers: Mapping[str, PeerAnswer | None]) -> StartDecision:
    others = sorted(
        {a.cluster_id for a in answers.values() if a is not None and a.cluster_id} - {identity.cluster_id}
    )
    if others:
        return RefuseStart(
            f"it has learned from cluster {identity.cluster_id}, the peers are of {', '.join(others)}"
        )
    return StartAsLearner(identity.cluster_id)


def _with_empty_directory(setting: StartFlags, answers: Mapping[str, PeerAnswer | None]) -> StartDecision:
    if setting.replicas == 1:
        return (
            FormCluster() if setting.bootstrap else WaitForPeers(("no cluster, and --bootstrap is not set",))
        )
    clusters = sorted({answer.cluster_id for answer in answers.values() if answer and answer.cluster_id})
    if len(clusters) > 1:
        return WaitForPeers((f"the peers belong to different clusters: {', '.join(clusters)}",))
    if clusters:
        return StartAsLearner(clusters[0])
    if not setting.bootstrap or setting.ordinal != 0:
        return WaitForPeers(("no peer has formed a cluster yet",))
    missing = _missing(answers)
    if missing and not setting.without_peers:
        return WaitForPeers(missing)
    return FormCluster()


def _missing(answers: Mapping[str, PeerAnswer | None]) -> tuple[str, ...]:
    return tuple(f"peer {name} does not answer" for name, answer in sorted(answers.items()) if answer is None)
