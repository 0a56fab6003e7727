"""One claim per machine: what a proposal gets, takes away and never touches."""

from bigfleet.engine.phase1.broker import Broker, Commit, CommitMode

LOW, SAME, HIGH = (1, 1, 1), (5, 1, 1), (5, 2, 1)


def broker_with(*precedences: tuple[int, int, int]) -> Broker:
    return Broker(4, precedences)


def test_free_machines_are_committed_in_order() -> None:
    broker = broker_with(LOW)
    assert broker.propose(0, [2, 0]) == Commit((2, 0))
    assert broker.held == {0: [2, 0]}
    assert broker.owner.tolist() == [0, -1, 0, -1]


def test_a_strictly_lower_claim_is_displaced_an_equal_one_blocks() -> None:
    broker = broker_with(SAME, HIGH, SAME)
    broker.propose(0, [0, 1])
    assert broker.propose(2, [0]).conflict
    assert broker.propose(1, [0, 2]) == Commit((0, 2), ((0, 0),))
    assert broker.held == {0: [1], 1: [0, 2], 2: []}


def test_incremental_commits_what_is_not_blocked_and_all_or_nothing_does_not() -> None:
    broker = broker_with(SAME, SAME)
    broker.propose(0, [0])
    assert broker.propose(1, [0, 1], CommitMode.ALL_OR_NOTHING).conflict
    assert broker.owner.tolist() == [0, -1, -1, -1]
    assert broker.propose(1, [0, 1], CommitMode.INCREMENTAL) == Commit((1,))
