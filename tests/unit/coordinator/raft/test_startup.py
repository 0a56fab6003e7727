"""The start-up decision, row by row of 9.3."""

import pytest

from bigfleet.coordinator.log import Membership, RaftState
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode
from bigfleet.coordinator.raft.startup import (
    FormCluster,
    PeerAnswer,
    RefuseStart,
    StartAsLearner,
    StartAsSoleVoter,
    StartAsVoter,
    StartDecision,
    StartFlags,
    WaitForPeers,
    decide,
)

UNFORMED = PeerAnswer()
LEARNER = PeerAnswer("id", Membership.UNFORMED, RaftState.LEARNER)
FULL = PeerAnswer("id", Membership.FULL, RaftState.FOLLOWER)
SOLO = PeerAnswer("id", Membership.SOLO, RaftState.SERVING)
OTHER = PeerAnswer("other", Membership.FULL, RaftState.FOLLOWER)
AWAY = None


def identity(mode: ReplicaMode) -> ReplicaIdentity:
    return ReplicaIdentity("c-0", "id", 1, mode, ("c-0",))


def setting(
    *, replicas: int = 3, ordinal: int = 0, bootstrap: bool = True, without_peers: bool = False
) -> StartFlags:
    return StartFlags(replicas, ordinal, bootstrap, without_peers)


@pytest.mark.rule("coordinator#ordinal-0-wiped", "coordinator#first-bootstrap")
@pytest.mark.parametrize(
    ("found", "flags", "peers", "decision"),
    [
        pytest.param(
            identity(ReplicaMode.FULL),
            setting(),
            (AWAY, AWAY),
            StartAsVoter(),
            id="full: voter, with any peer missing",
        ),
        pytest.param(
            identity(ReplicaMode.SOLO), setting(replicas=1), (), StartAsSoleVoter(), id="solo of one"
        ),
        pytest.param(
            identity(ReplicaMode.SOLO),
            setting(),
            (UNFORMED, LEARNER),
            StartAsSoleVoter(),
            id="solo: all unformed or learner",
        ),
        pytest.param(
            identity(ReplicaMode.SOLO),
            setting(),
            (UNFORMED, AWAY),
            WaitForPeers(("peer c-2 does not answer",)),
            id="solo: one unreachable",
        ),
        pytest.param(
            identity(ReplicaMode.SOLO),
            setting(without_peers=True),
            (AWAY, AWAY),
            StartAsSoleVoter(),
            id="solo: overridden",
        ),
        pytest.param(
            identity(ReplicaMode.SOLO),
            setting(),
            (UNFORMED, OTHER),
            WaitForPeers(("peer c-2 belongs to a cluster of its own (other)",)),
            id="solo: beside another cluster",
        ),
        pytest.param(None, setting(replicas=1), (), FormCluster(), id="empty, one replica, bootstrap"),
        pytest.param(
            None,
            setting(replicas=1, bootstrap=False),
            (),
            WaitForPeers(("no cluster, and --bootstrap is not set",)),
            id="empty, one replica, no bootstrap",
        ),
        pytest.param(
            None, setting(), (UNFORMED, UNFORMED), FormCluster(), id="empty, ordinal 0, all unformed"
        ),
        pytest.param(None, setting(), (FULL, UNFORMED), StartAsLearner("id"), id="ordinal 0 wiped alone"),
        pytest.param(
            None,
            setting(),
            (AWAY, LEARNER),
            StartAsLearner("id"),
            id="ordinal 0, a learner knows the cluster",
        ),
        pytest.param(
            None,
            setting(),
            (UNFORMED, AWAY),
            WaitForPeers(("peer c-2 does not answer",)),
            id="one missing",
        ),
        pytest.param(None, setting(without_peers=True), (UNFORMED, AWAY), FormCluster(), id="overridden"),
        pytest.param(
            None,
            setting(ordinal=1),
            (UNFORMED, UNFORMED),
            WaitForPeers(("no peer has formed a cluster yet",)),
            id="other ordinal, nothing formed",
        ),
        pytest.param(
            None, setting(ordinal=1), (SOLO, AWAY), StartAsLearner("id"), id="other ordinal, cluster formed"
        ),
        pytest.param(
            None,
            setting(bootstrap=False),
            (SOLO, AWAY),
            StartAsLearner("id"),
            id="ordinal 0 without bootstrap",
        ),
        pytest.param(
            None,
            setting(),
            (SOLO, OTHER),
            WaitForPeers(("the peers belong to different clusters: id, other",)),
            id="two clusters",
        ),
        pytest.param(
            identity(ReplicaMode.LEARNER), setting(), (AWAY, AWAY), StartAsLearner("id"), id="learner goes on"
        ),
    ],
)
def test_row(
    found: ReplicaIdentity | None,
    flags: StartFlags,
    peers: tuple[PeerAnswer | None, ...],
    decision: StartDecision,
) -> None:
    answers = {f"c-{number}": answer for number, answer in enumerate(peers, start=1)}
    assert decide(flags, found, answers) == decision


@pytest.mark.rule("coordinator#startup-decision")
def test_a_directory_rolled_back_to_its_solo_days_is_refused() -> None:
    verdict = decide(setting(), identity(ReplicaMode.SOLO), {"c-1": FULL, "c-2": None})
    assert isinstance(verdict, RefuseStart)
    assert "c-1 says that the cluster is full" in verdict.problem


def test_a_learner_of_another_cluster_is_refused() -> None:
    verdict = decide(setting(), identity(ReplicaMode.LEARNER), {"c-1": OTHER, "c-2": None})
    assert isinstance(verdict, RefuseStart)
    assert "other" in verdict.problem
