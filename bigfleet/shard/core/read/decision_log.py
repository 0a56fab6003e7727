"""The latest actions and their outcomes, for readers.

Why: the audit file keeps actions for good; this log answers at once, for a bounded time.
Must never: grow beyond its bound, or influence a decision.
Rules: `dashboard#own-routes`, `dashboard#insight-service`, `shard#audit-log`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KEPT: Final = 20_000
"""A burst of 10,000 actions and as many before it; about 5 MB."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One action and its outcome, or the reason why it was not carried out."""

    sequence: int
    """The number of the record in this process, from 1."""
    at_ns: int
    cycle: int
    """The cycle in which it ended."""
    kind: str
    machine_id: str
    cluster: str
    reason: str
    grace_s: int
    outcome: str
    decided_cycle: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class DecisionQuery:
    """A filter of records; empty and zero fields do not filter."""

    since_ns: int = 0
    after_sequence: int = 0
    kinds: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
    machine_id: str = ""
    cluster: str = ""

    def fits(self, record: DecisionRecord) -> bool:
        """Whether a record passes the filter; the caller checks its age and number."""
        return (
            (not self.kinds or record.kind in self.kinds)
            and (not self.outcomes or record.outcome in self.outcomes)
            and (not self.machine_id or record.machine_id == self.machine_id)
            and (not self.cluster or record.cluster == self.cluster)
        )


class DecisionLog:
    """The newest records, oldest dropped first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._records: deque[DecisionRecord] = deque(maxlen=kept)
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def last_sequence(self) -> int:
        """The number of the newest record, 0 before the first."""
        return self._sequence

    def add(
        self,
        *,
        at_ns: int,
        cycle: int,
        kind: str,
        machine_id: str,
        cluster: str,
        reason: str,
        grace_s: int,
        outcome: str,
        decided_cycle: int = 0,
        error: str = "",
    ) -> None:
        """Add one action that has ended, or was not carried out."""
        self._sequence += 1
        self._records.append(
            DecisionRecord(
                self._sequence,
                at_ns,
                cycle,
                kind,
                machine_id,
                cluster,
                reason,
                grace_s,
                outcome,
                decided_cycle,
                error,
            )
        )

    def newest_first(self, query: DecisionQuery) -> Iterator[DecisionRecord]:
        """The records that pass a filter; iterates over a copy, so the log may grow meanwhile."""
        for record in reversed(tuple(self._records)):
            if record.at_ns < query.since_ns or record.sequence <= query.after_sequence:
                return  # records are in order of both
            if query.fits(record):
                yield record
