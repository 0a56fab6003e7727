"""The operator's metrics under their short names.

Must never: use the name of a machine, pod or request as a label.
Rules: operator 8; the catalogue is `bigfleet.obs.operator_catalogue`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.obs.metrics import Metrics

_PREFIX: Final = "bigfleet_operator_"


class OperatorMetrics:
    """Counters, gauges and histograms of one operator."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._metrics.counter(_PREFIX + name, **labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._metrics.gauge(_PREFIX + name, **labels).set(value)

    def add(self, name: str, amount: float, **labels: str) -> None:
        """Add to a gauge."""
        self._metrics.gauge(_PREFIX + name, **labels).inc(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Observe a duration in a histogram."""
        self._metrics.histogram(_PREFIX + name, **labels).observe(seconds)

    @contextmanager
    def timed(self, name: str, **labels: str) -> Iterator[None]:
        """Observe the duration of the body in a histogram, also when it raises."""
        began_s = monotonic_s(self._clock)
        try:
            yield
        finally:
            self.observe(name, monotonic_s(self._clock) - began_s, **labels)
