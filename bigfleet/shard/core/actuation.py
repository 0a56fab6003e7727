"""Whether actions may be carried out: the kill switch, dry run, and the shard's own reasons to pause.

Why: the decision not to act is made in one place, so that readiness, log and metric give the same reason.
Must never: resume by itself after being fenced; a person decides which process is the right one.
Rules: `shard#pause-and-dry-run`, `shard#fenced`, `shard#audit-log`; ADR-0072, ADR-0077.
"""

from enum import StrEnum

FENCED_IN_A_ROW = 3


class ActuationMode(StrEnum):
    """What happens to decided actions; both switches set counts as paused."""

    RUN = "run"
    DRY_RUN = "dry run"
    PAUSED = "paused"


class Actuation:
    """Decides the mode from the flags, the fenced calls and the audit."""

    def __init__(self, *, paused: bool = False, dry_run: bool = False, audit_strict: bool = False) -> None:
        self._paused, self._dry_run, self._audit_strict = paused, dry_run, audit_strict
        self._fenced = 0
        self._self_paused = False
        self._audit_lost = 0
        self._audit_failing = False

    @property
    def mode(self) -> ActuationMode:
        if self._paused or self._self_paused or (self._audit_strict and self._audit_failing):
            return ActuationMode.PAUSED
        return ActuationMode.DRY_RUN if self._dry_run else ActuationMode.RUN

    @property
    def self_paused(self) -> bool:
        """Whether the shard paused itself because the provider kept fencing it."""
        return self._self_paused

    def answered(self, *, fenced: bool) -> bool:
        """The provider answered a mutating call; returns whether this answer made the shard pause itself."""
        self._fenced = self._fenced + 1 if fenced else 0
        if self._self_paused or self._fenced < FENCED_IN_A_ROW:
            return False
        self._self_paused = True
        return True

    def audited(self, *, written: bool) -> bool:
        """An audit record was written or lost; returns whether it is the first lost one in a row."""
        first = not written and not self._audit_failing
        self._audit_failing = not written
        self._audit_lost += not written
        return first

    def self_pause(self) -> str:
        """Why the shard paused itself; empty when it did not."""
        if self._self_paused:
            return (
                f"actuation stopped: the provider fenced {FENCED_IN_A_ROW} calls in a row, so another process uses this "
                "shard id or the epoch was lost; find out which process is the right one, then restart it"
            )
        if self._audit_strict and self._audit_failing:
            return "actuation stopped: the audit log cannot be written, and --audit-strict is set"
        return ""

    def audit_problem(self) -> str:
        """What is wrong with the audit log at this moment; empty while it can be written."""
        return self._audit_remark() if self._audit_failing else ""

    def not_ready(self) -> tuple[str, ...]:
        """Why the shard is not ready, as far as actuation is concerned."""
        return (self.self_pause(),) if self._self_paused else ()

    def remarks(self) -> tuple[str, ...]:
        """Warnings for people although the shard is ready."""
        found = []
        if self._paused:
            found.append("actuation is paused by --actuation-paused")
        elif self._dry_run:
            found.append("dry run: decisions are reported and not carried out")
        if self._audit_lost:
            found.append(self._audit_remark())
        return tuple(found)

    def _audit_remark(self) -> str:
        now = "cannot be written" if self._audit_failing else "works again"
        stopped = "; actuation waits for it" if self._audit_failing and self._audit_strict else ""
        return f"the audit log {now}; {self._audit_lost} records were lost{stopped}"
