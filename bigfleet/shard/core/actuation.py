"""Whether anything may be carried out: the kill switch, shadow mode, and the shard's own reasons to stop.

Why: every refusal to act must be one decision in one place, with its reason in readiness, log and metric.
Must never: start again by itself after being fenced; a person decides which process is the right one.
Rules: shard 24, decisions S5 and S13; ADR-0072, ADR-0077.
"""

from enum import StrEnum

FENCED_IN_A_ROW = 3


class ActuationMode(StrEnum):
    """What happens to decided actions; both switches set counts as paused."""

    RUN = "run"
    DRY_RUN = "dry run"
    PAUSED = "paused"


class Actuation:
    """What stands in the way of acting."""

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
        """Whether the provider fenced this process so often that it stopped by itself."""
        return self._self_paused

    def answered(self, *, fenced: bool) -> bool:
        """A provider answered a mutating call; tell whether this one made the shard stop by itself."""
        self._fenced = self._fenced + 1 if fenced else 0
        if self._self_paused or self._fenced < FENCED_IN_A_ROW:
            return False
        self._self_paused = True
        return True

    def audited(self, *, written: bool) -> bool:
        """An audit record was written or lost; tell whether this one is the first lost of a row."""
        first = not written and not self._audit_failing
        self._audit_failing = not written
        self._audit_lost += not written
        return first

    def not_ready(self) -> tuple[str, ...]:
        """Reasons of this kind for which the shard is not ready."""
        if not self._self_paused:
            return ()
        return (
            f"actuation stopped: the provider fenced {FENCED_IN_A_ROW} calls in a row, so another process bears this "
            "shard id or the epoch was lost; find out which process is the right one, then restart it",
        )

    def remarks(self) -> tuple[str, ...]:
        """What an operator should know although the shard is ready."""
        found = []
        if self._paused:
            found.append("actuation is paused by --actuation-paused")
        elif self._dry_run:
            found.append("dry run: decisions are reported and not carried out")
        if self._audit_lost:
            now = "cannot be written" if self._audit_failing else "works again"
            stopped = "; actuation waits for it" if self._audit_failing and self._audit_strict else ""
            found.append(f"the audit log {now}; {self._audit_lost} records were lost{stopped}")
        return tuple(found)
