"""An audit that also records each action for readers.

Why: every action is audited exactly once, with its outcome, which is what readers want to see.
Must never: keep a record from the audit file.
Rules: `dashboard#insight-service`, `shard#audit-log`.
"""

from collections.abc import Callable, Mapping

from bigfleet.obs.audit import Audit
from bigfleet.shard.core.read.decision_log import DecisionLog


class RecordingAudit:
    """An `Audit` that also fills a decision log."""

    def __init__(self, inner: Audit, decisions: DecisionLog, now_ns: Callable[[], int]) -> None:
        self._inner, self._decisions, self._now_ns = inner, decisions, now_ns

    def record(self, **fields: str | int | float) -> None:
        """Add the record of an action to the decision log, then pass it on."""
        if fields["kind"]:
            self._add(fields)
        self._inner.record(**fields)

    def _add(self, fields: Mapping[str, str | int | float]) -> None:
        self._decisions.add(
            at_ns=self._now_ns(),
            cycle=int(fields["ended_cycle"]),
            kind=str(fields["kind"]),
            machine_id=str(fields["machine"]),
            cluster=str(fields["cluster"]),
            reason=str(fields["reason"]),
            grace_s=int(fields["grace_seconds"]),
            outcome=str(fields["outcome"]),
            decided_cycle=int(fields["cycle"]),
            error=str(fields.get("error", "")),
        )

    def close(self) -> None:
        """Close the inner audit."""
        self._inner.close()
