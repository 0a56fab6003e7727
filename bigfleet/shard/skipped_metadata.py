"""Tells people of metadata that could not be read: which machine, which key, what stood there.

Why: a machine whose priority or penalty cannot be read serves on unprotected, and nothing else would show it.
Must never: repeat itself; a provider that writes its maps in another order each time has its records read anew in every
cycle, and says the same again.
Rules: shard 15 and 26.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.shard.metrics import ShardMetrics
from bigfleet.wire.listing import SkippedMetadata
from bigfleet.wire.metadata import PREFIX

LOGGED: Final = 5
"""Machines of one listing that are named; the others are only counted."""
REMEMBERED: Final = 10_000
_SHOWN: Final = 40


class SkippedMetadataLog:
    """What was told already, so that it is told once."""

    def __init__(self, metrics: ShardMetrics, log: FilteringBoundLogger) -> None:
        self._metrics, self._log = metrics, log
        self._told: dict[str, Mapping[str, str]] = {}

    def note(self, skipped: Sequence[SkippedMetadata]) -> None:
        """Count and log what is new among the values that one listing skipped."""
        told = 0
        for record in skipped:
            before = self._told.get(record.machine_id, {})
            new = {key: value for key, value in record.values.items() if before.get(key) != value}
            if not new:
                continue
            if len(self._told) >= REMEMBERED:
                self._told.clear()  # better told twice than remembered without end
            self._told[record.machine_id] = record.values
            told += 1
            for key, value in new.items():
                self._metrics.metadata_skipped(key.removeprefix(PREFIX))
                if told <= LOGGED:
                    self._log.warning(
                        "metadata_skipped", machine=record.machine_id, entry=key, found=value[:_SHOWN]
                    )
        if told > LOGGED:
            self._log.warning("more_metadata_skipped", machines=told - LOGGED)
