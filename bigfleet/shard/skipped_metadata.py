"""Logs and counts machine metadata that could not be read: machine, key and value.

Why: a machine whose priority or penalty cannot be read keeps serving without protection, and nothing else shows it.
Must never: log the same value again; a provider may send the same record in different bytes in every cycle.
Rules: `shard#metadata`, `shard#restart`, `shard#failures`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.obs.metrics import Metrics
from bigfleet.wire.listing import SkippedMetadata
from bigfleet.wire.metadata import PREFIX

LOGGED: Final = 5
"""Machines of one listing that are logged by name; the others are only counted."""
REMEMBERED: Final = 10_000
_SHOWN: Final = 40


class SkippedMetadataLog:
    """Remembers what was logged, so that each value is logged once."""

    def __init__(self, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._metrics, self._log = metrics, log
        self._logged: dict[str, Mapping[str, str]] = {}

    def report(self, skipped: Sequence[SkippedMetadata]) -> None:
        """Count and log the values that one listing skipped and no earlier one did."""
        machines = 0
        for record in skipped:
            before = self._logged.get(record.machine_id, {})
            new = {key: value for key, value in record.values.items() if before.get(key) != value}
            if not new:
                continue
            if len(self._logged) >= REMEMBERED:
                self._logged.clear()  # bounds the memory; the cost is a repeated line
            self._logged[record.machine_id] = record.values
            machines += 1
            for key, value in new.items():
                self._metrics.counter(
                    "bigfleet_shard_metadata_skipped_total", key=key.removeprefix(PREFIX)
                ).inc()
                if machines <= LOGGED:
                    self._log.warning(
                        "metadata_skipped", machine=record.machine_id, entry=key, found=value[:_SHOWN]
                    )
        if machines > LOGGED:
            self._log.warning("more_metadata_skipped", machines=machines - LOGGED)
