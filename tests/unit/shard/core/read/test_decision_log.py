"""What became of actions, newest first and bounded (`dashboard#insight-service`)."""

from bigfleet.shard.core.read.decision_log import DecisionLog, DecisionQuery


def noted(log: DecisionLog, count: int) -> DecisionLog:
    for number in range(1, count + 1):
        log.add(
            at_ns=number * 10,
            cycle=number,
            kind="Bootstrap" if number % 2 else "Reclaim",
            machine_id=f"m-{number}",
            cluster="a" if number % 3 else "b",
            reason="phase1.idle",
            grace_s=0,
            outcome="success" if number != 4 else "provider_error",
        )
    return log


def sequences(log: DecisionLog, query: DecisionQuery) -> list[int]:
    return [record.sequence for record in log.newest_first(query)]


def test_records_come_newest_first_and_the_oldest_are_dropped() -> None:
    log = noted(DecisionLog(kept=3), 5)
    assert sequences(log, DecisionQuery()) == [5, 4, 3]
    assert (len(log), log.last_sequence) == (3, 5)


def test_each_filter_alone_and_all_together() -> None:
    log = noted(DecisionLog(), 6)
    assert sequences(log, DecisionQuery(since_ns=50)) == [6, 5]
    assert sequences(log, DecisionQuery(after_sequence=4)) == [6, 5]
    assert sequences(log, DecisionQuery(kinds=frozenset({"Reclaim"}))) == [6, 4, 2]
    assert sequences(log, DecisionQuery(outcomes=frozenset({"provider_error"}))) == [4]
    assert sequences(log, DecisionQuery(machine_id="m-2")) == [2]
    assert sequences(log, DecisionQuery(cluster="b")) == [6, 3]
    assert sequences(log, DecisionQuery(since_ns=30, kinds=frozenset({"Reclaim"}), cluster="a")) == [4]


def test_a_log_that_grows_while_it_is_read_does_not_disturb_the_reader() -> None:
    log = noted(DecisionLog(), 3)
    records = log.newest_first(DecisionQuery())
    assert next(records).sequence == 3
    noted(log, 2)
    assert [record.sequence for record in records] == [2, 1]
