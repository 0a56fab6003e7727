"""The metrics of a process: built from its catalogue, written by name and labels.

Why: a name that is not in the catalogue must fail at its first use, not create a series that no dashboard reads.
Must never: use the client library's global registry, or accept a label value outside its fixed set.
Rules: `shard#metrics`, `packaging#process-metrics`.

    metrics = Metrics(SHARD_METRICS, registry, version=__version__, commit=commit)
    metrics.counter("bigfleet_shard_actions_total", kind="Bootstrap").inc()
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.catalogue import EVERY_PROCESS, Metric, MetricCatalogue, MetricType

_Collector = Counter | Gauge | Histogram
_T = TypeVar("_T", Counter, Gauge, Histogram)
_Values = TypeVar("_Values", bound=tuple[str, ...])


class MetricMisuseError(BigFleetError):
    """Code asked for a metric or label that the catalogue does not have; a defect, never bad input."""


class Metrics:
    """The metrics of one process, by name; a series is looked up with all its labels."""

    def __init__(
        self, catalogue: MetricCatalogue, registry: CollectorRegistry, *, version: str, commit: str
    ) -> None:
        self.registry = registry
        """What a scrape of this process reads."""
        self._component = catalogue.component
        self._metrics = {metric.name: metric for metric in (*EVERY_PROCESS, *catalogue.metrics)}
        self._collectors: dict[str, _Collector] = {}
        # Series that were looked up before: a check of names and labels costs more than counting.
        self._known: dict[str, dict[tuple[tuple[str, str], ...], _Collector]] = {}
        for metric in self._metrics.values():
            if metric.labels or not metric.on_demand:
                self._register(metric)
        ProcessCollector(registry=registry)
        self.gauge("bigfleet_build_info", component=self._component, version=version, commit=commit).set(1)

    def counter(self, name: str, **labels: str) -> Counter:
        """Return one series of a counter."""
        return self._series(name, labels, Counter)

    def gauge(self, name: str, **labels: str) -> Gauge:
        """Return one series of a gauge."""
        return self._series(name, labels, Gauge)

    def histogram(self, name: str, **labels: str) -> Histogram:
        """Return one series of a histogram."""
        return self._series(name, labels, Histogram)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of one series; 0 for one that was never written."""
        self._check_labels(self._metric(name), labels)
        return self.registry.get_sample_value(name, labels) or 0.0

    def totals(self, prefix: str) -> dict[str, int]:
        """Return every counter whose name begins with the prefix, summed over its series, by the rest of its name."""
        found: dict[str, int] = {}
        for name, collector in self._collectors.items():
            if isinstance(collector, Counter) and name.startswith(prefix):
                samples = [
                    sample.value
                    for family in collector.collect()
                    for sample in family.samples
                    if sample.name == name
                ]
                found[name.removeprefix(prefix).removesuffix("_total")] = int(sum(samples))
        return dict(sorted(found.items()))

    def forget(self, name: str, **labels: str) -> None:
        """Drop one series, because what it names is gone; harmless when it was never written."""
        metric = self._metric(name)
        self._check_labels(metric, labels)
        self._known.get(name, {}).pop(tuple(labels.items()), None)
        with suppress(KeyError):
            self._collectors[name].remove(*(labels[label] for label in metric.label_names))

    def replace(self, name: str, values: Mapping[_Values, float]) -> None:
        """Set a gauge as a whole, by the values of its labels; series that are not named are dropped."""
        label_names = self._metric(name).label_names
        for items in list(self._known.get(name, ())):
            if tuple(dict(items)[label] for label in label_names) not in values:
                self.forget(name, **dict(items))
        for labels, value in values.items():
            self.gauge(name, **dict(zip(label_names, labels, strict=True))).set(value)

    def _series(self, name: str, labels: dict[str, str], kind: type[_T]) -> _T:
        items = tuple(labels.items())
        series = self._known.get(name, {}).get(items)
        if isinstance(series, kind):
            return series
        metric = self._metric(name)
        collector = self._collectors.get(name) or self._register(metric)
        if not isinstance(collector, kind):
            raise MetricMisuseError(f"{name} is a {metric.type}, not a {kind.__name__.lower()}")
        self._check_labels(metric, labels)
        found = collector.labels(**labels) if labels else collector
        self._known.setdefault(name, {})[items] = found
        return found

    def _metric(self, name: str) -> Metric:
        try:
            return self._metrics[name]
        except KeyError:
            raise MetricMisuseError(f"{name} is no metric of the {self._component}") from None

    def _check_labels(self, metric: Metric, labels: dict[str, str]) -> None:
        if labels.keys() != set(metric.label_names):
            found = ", ".join(labels) or "none"
            raise MetricMisuseError(
                f"{metric.name}: found labels {found}, allowed are {', '.join(metric.label_names) or 'none'}"
            )
        for label in metric.labels:
            if label.values and labels[label.name] not in label.values:
                raise MetricMisuseError(
                    f"{metric.name}: {label.name}: found {labels[label.name]!r}, allowed is one of {', '.join(label.values)}"
                )

    def _register(self, metric: Metric) -> _Collector:
        names = metric.label_names
        collector: _Collector
        match metric.type:
            case MetricType.COUNTER:
                collector = Counter(metric.name, metric.help, names, registry=self.registry)
            case MetricType.GAUGE:
                collector = Gauge(metric.name, metric.help, names, registry=self.registry)
            case MetricType.HISTOGRAM:
                assert metric.buckets is not None  # noqa: S101  the catalogue row checks it
                collector = Histogram(
                    metric.name, metric.help, names, registry=self.registry, buckets=metric.buckets.bounds
                )
        if not metric.on_demand:
            for values in metric.fixed_series():
                collector.labels(*values)  # at 0 from the start, so that the first event shows as a rate
        self._collectors[metric.name] = collector
        return collector


@contextmanager
def timed(clock: Clock, histogram: Histogram) -> Iterator[None]:
    """Observe how long the body takes, also when it raises."""
    began_s = monotonic_s(clock)
    try:
        yield
    finally:
        histogram.observe(monotonic_s(clock) - began_s)
