"""What a replica does when it starts, decided from its directory and what its peers say.

Why: most ways to lose a cluster are a start that should not have happened: a wiped voter that votes, an ordinal 0 that mints a
second cluster, a volume rolled back to the days when its owner was alone.
Must never: ask anybody, or read a disk; everything is handed in.
Rules: coordinator 9.3, row by row; decision C3.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.coordinator.log import Membership, RaftState
from bigfleet.coordinator.raft.identity import Identity, Mode


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
class Setting:
    """What the flags say."""

    replicas: int
    ordinal: int
    bootstrap: bool
    without_peers: bool


@dataclass(frozen=True, slots=True)
class Vote:
    """Go on as a voter with the full peer list."""


@dataclass(frozen=True, slots=True)
class LeadAlone:
    """Go on as the sole voter; expand if there are to be more."""


@dataclass(frozen=True, slots=True)
class Mint:
    """Begin a cluster."""


@dataclass(frozen=True, slots=True)
class Learn:
    """Learn this cluster's log."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again later; not ready meanwhile, for these reasons."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """End with exit 71: this directory must not be started from here."""

    problem: str


Decision = Vote | LeadAlone | Mint | Learn | Wait | Refuse


def decide(setting: Setting, identity: Identity | None, answers: Mapping[str, PeerAnswer | None]) -> Decision:
    """Return what to do; `answers` has every other member, None for one that did not answer."""
    if identity is None:
        return _with_empty_directory(setting, answers)
    match identity.mode:
        case Mode.FULL:
            return Vote()
        case Mode.SOLO:
            return _alone(setting, identity, answers)
        case Mode.LEARNER:
            return _learning(identity, answers)


def _alone(setting: Setting, identity: Identity, answers: Mapping[str, PeerAnswer | None]) -> Decision:
    for name, answer in sorted(answers.items()):
        if (
            answer is not None
            and answer.membership == Membership.FULL
            and answer.cluster_id == identity.cluster_id
        ):
            return Refuse(
                f"it says that {identity.node_id} is the only voter, while {name} says that the cluster is full: "
                "it was rolled back"
            )
    missing = _missing(answers)
    if missing and not setting.without_peers:
        return Wait(missing)
    for name, answer in sorted(answers.items()):
        if answer is not None and not (answer.is_unformed or answer.is_learner):
            return Wait((f"peer {name} belongs to a cluster of its own ({answer.cluster_id})",))
    return LeadAlone()


def _learning(identity: Identity, answers: Mapping[str, PeerAnswer | None]) -> Decision:
    others = sorted(
        {a.cluster_id for a in answers.values() if a is not None and a.cluster_id} - {identity.cluster_id}
    )
    if others:
        return Refuse(
            f"it has learned from cluster {identity.cluster_id}, the peers are of {', '.join(others)}"
        )
    return Learn(identity.cluster_id)


def _with_empty_directory(setting: Setting, answers: Mapping[str, PeerAnswer | None]) -> Decision:
    if setting.replicas == 1:
        return Mint() if setting.bootstrap else Wait(("no cluster, and --bootstrap is not set",))
    clusters = sorted({answer.cluster_id for answer in answers.values() if answer and answer.cluster_id})
    if len(clusters) > 1:
        return Wait((f"the peers belong to different clusters: {', '.join(clusters)}",))
    if clusters:
        return Learn(clusters[0])
    if not setting.bootstrap or setting.ordinal != 0:
        return Wait(("no peer has formed a cluster yet",))
    missing = _missing(answers)
    if missing and not setting.without_peers:
        return Wait(missing)
    return Mint()


def _missing(answers: Mapping[str, PeerAnswer | None]) -> tuple[str, ...]:
    return tuple(f"peer {name} does not answer" for name, answer in sorted(answers.items()) if answer is None)
