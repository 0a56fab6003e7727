"""Logs and counts labels of machines that were not taken over, each key once.

Why: demand that names such a label matches no machine, and nothing else shows why.
Must never: log a value, which may be a secret, or the same key again in each listing.
Rules: `wire#labels-left-out`.
"""

from collections.abc import Mapping
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.model.errors import cut
from bigfleet.obs.metrics import Metrics

REMEMBERED: Final = 1_000


class LabelsLeftOutLog:
    """Remembers which keys were logged."""

    def __init__(self, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._metrics, self._log = metrics, log
        self._logged: set[str] = set()

    def report(self, left_out: Mapping[str, str]) -> None:
        """Count the labels that one listing left out, by key, and log those that no earlier one did."""
        for key, reason in left_out.items():
            self._metrics.counter("bigfleet_shard_labels_left_out_total", reason=reason).inc()
            shown = cut(key)
            if shown not in self._logged and len(self._logged) < REMEMBERED:
                self._logged.add(shown)
                self._log.warning("label_left_out", name=shown, reason=reason)
