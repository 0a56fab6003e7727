"""Every audited action is remembered, and the file gets it all the same (`dashboard#insight-service`, `shard#audit-log`)."""

import pytest

from bigfleet.aio.disk import DiskCause, DiskError
from bigfleet.shard.core.read.decision_log import DecisionLog, DecisionQuery
from bigfleet.shard.read.recording_audit import RecordingAudit

FIELDS: dict[str, str | int | float] = {
    "cycle": 4,
    "kind": "Preempt",
    "machine": "m-1",
    "cluster": "web",
    "reason": "phase2.inversion",
    "grace_seconds": 30,
    "outcome": "provider_error",
    "ended_cycle": 7,
    "error": "drain: busy",
}


class Inner:
    def __init__(self, full: bool = False) -> None:
        self.full, self.records, self.closed = full, list[dict[str, str | int | float]](), False

    def record(self, **fields: str | int | float) -> None:
        if self.full:
            raise DiskError("append", "/audit", DiskCause.FULL)
        self.records.append(fields)

    def close(self) -> None:
        self.closed = True


def test_a_record_goes_to_both_and_closing_closes_the_file() -> None:
    inner, log = Inner(), DecisionLog()
    audit = RecordingAudit(inner, log, lambda: 77)
    audit.record(**FIELDS)
    audit.close()
    assert inner.records == [FIELDS]
    assert inner.closed
    (record,) = log.newest_first(DecisionQuery())
    assert (record.at_ns, record.cycle, record.kind, record.machine_id) == (77, 7, "Preempt", "m-1")
    assert (record.decided_cycle, record.error) == (4, "drain: busy")
    assert (record.cluster, record.reason, record.grace_s, record.outcome) == (
        "web",
        "phase2.inversion",
        30,
        "provider_error",
    )


def test_the_beginning_of_a_hold_off_goes_to_the_file_only() -> None:
    inner, log = Inner(), DecisionLog()
    RecordingAudit(inner, log, lambda: 77).record(msg="hold-off", kind="", actions=7)
    assert (len(inner.records), len(log)) == (1, 0)


def test_a_file_that_fails_is_told_as_such_and_the_record_is_remembered() -> None:
    log = DecisionLog()
    with pytest.raises(DiskError):
        RecordingAudit(Inner(full=True), log, lambda: 77).record(**FIELDS)
    assert len(log) == 1
