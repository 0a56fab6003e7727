"""The audit of a shard, remembered for those who ask what became of its actions.

Why: every action is audited exactly once, with its outcome; that is just what readers want to see, so it is noted there.
Must never: keep a record from the file, or make the file's trouble its own.
Rules: dashboard 8, shard 23.
"""

from collections.abc import Callable

from bigfleet.obs.audit import Audit
from bigfleet.shard.core.read.decision_log import DecisionLog


class RecordingAudit:
    """An `Audit` that also fills a decision log."""

    def __init__(self, inner: Audit, decisions: DecisionLog, now_ns: Callable[[], int]) -> None:
        self._inner, self._decisions, self._now_ns = inner, decisions, now_ns

    def record(self, **fields: str | int | float) -> None:
        """Remember a record, then hand it on."""
        self._decisions.note(
            at_ns=self._now_ns(),
            cycle=int(fields["cycle"]),
            kind=str(fields["kind"]),
            machine_id=str(fields["machine"]),
            cluster=str(fields["cluster"]),
            reason=str(fields["reason"]),
            grace_s=int(fields["grace_seconds"]),
            outcome=str(fields["outcome"]),
        )
        self._inner.record(**fields)

    def close(self) -> None:
        """Give the file back."""
        self._inner.close()
