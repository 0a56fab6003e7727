"""What a replica does when it starts, decided from its directory and what its peers say.

Why: most ways to lose a cluster are a start that should not have happened: a wiped voter that votes, an ordinal 0 that mints a
second cluster, a volume rolled back to the days when its owner was alone.
Must never: ask anybody, or read a disk; everything is handed in.
Rules: coordinator 9.3, row by row; decision C3.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.coordinator.log import Membership, RaftState
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What a peer said of itself; the answer to the call itself does not count."""

    cluster_id: str = ""
    membership: str = Membership.UNFORMED
    state: str = RaftState.UNFORMED
    leader: str | None = None
    last_index: int = 0
    accepted: bool = False
    """Whether a serving leader admitted us; only ever true of an answer to a join."""

    @property
    def is_unformed(self) -> bool:
        """Whether it knows of no cluster at all."""
        return not self.cluster_id and self.membership == Membership.UNFORMED

    @property
    def is_learner(self) -> bool:
        return self.state == RaftState.LEARNER


@dataclass(frozen=True, slots=True)
class StartFlags:
    """What the flags say."""

    replicas: int
    ordinal: int
    bootstrap: bool
    without_peers: bool


@dataclass(frozen=True, slots=True)
class StartAsVoter:
    """Go on as a voter with the full peer list."""


@dataclass(frozen=True, slots=True)
class StartAsSoleVoter:
    """Go on as the sole voter; expand if there are to be more."""


@dataclass(frozen=True, slots=True)
class FormCluster:
    """Begin a cluster."""


@dataclass(frozen=True, slots=True)
class StartAsLearner:
    """Learn this cluster's log."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class WaitForPeers:
    """Ask again later; not ready meanwhile, for these reasons."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefuseStart:
    """End with exit 71: this directory must not be started from here."""

    problem: str


StartDecision = StartAsVoter | StartAsSoleVoter | FormCluster | StartAsLearner | WaitForPeers | RefuseStart


def decide(
    setting: StartFlags, identity: ReplicaIdentity | None, answers: Mapping[str, PeerAnswer | None]
) -> StartDecision:
    """Return what to do; `answers` has every other member, None for one that did not answer."""
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
