"""Collectors of one process, built from the catalogue into a registry of its own.

Why: a name that is not in the catalogue must fail at the first use and not vanish in a typo.
Must never: use the client library's global registry, or let a label have a value outside its fixed set.
Rules: shard 21, packaging 4.3.

    metrics = Metrics(Component.SHARD, registry, version=__version__, commit=commit)
    metrics.counter("bigfleet_shard_actions_total", kind="Bootstrap").inc()
"""

from contextlib import suppress
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from bigfleet.model.errors import BigFleetError
from bigfleet.obs.catalogue import metrics_of
from bigfleet.obs.metric import Component, Metric, Type

_Collector = Counter | Gauge | Histogram
_T = TypeVar("_T", Counter, Gauge, Histogram)


class MetricMisuseError(BigFleetError):
    """Code asked for a metric or label that the catalogue does not have; a defect, never bad input."""


class Metrics:
    """The metrics of one process, by name; a series is looked up with all its labels."""

    def __init__(
        self, component: Component, registry: CollectorRegistry, *, version: str, commit: str
    ) -> None:
        self.registry = registry
        """What a scrape of this process reads."""
        self._component = component
        self._metrics = {metric.name: metric for metric in metrics_of(component)}
        self._collectors: dict[str, _Collector] = {}
        for metric in self._metrics.values():
            if metric.labels or not metric.on_demand:
                self._register(metric)
        ProcessCollector(registry=registry)
        self.gauge("bigfleet_build_info", component=component.value, version=version, commit=commit).set(1)

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
        """What one series stands at, for those who show it elsewhere; 0 for one that was never written."""
        self._check_labels(self._metric(name), labels)
        return self.registry.get_sample_value(name, labels) or 0.0

    def totals(self, prefix: str) -> dict[str, int]:
        """Every counter that begins so, all its series added up, by the rest of its name."""
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
        with suppress(KeyError):
            self._collectors[name].remove(*(labels[label] for label in metric.label_names))

    def clear(self, name: str) -> None:
        """Drop every series of a metric that is written anew as a whole, such as the inventory gauge."""
        self._metric(name)
        self._collectors[name].clear()

    def _series(self, name: str, labels: dict[str, str], kind: type[_T]) -> _T:
        metric = self._metric(name)
        collector = self._collectors.get(name) or self._register(metric)
        if not isinstance(collector, kind):
            raise MetricMisuseError(f"{name} is a {metric.type}, not a {kind.__name__.lower()}")
        self._check_labels(metric, labels)
        return collector.labels(**labels) if labels else collector

    def _metric(self, name: str) -> Metric:
        try:
            return self._metrics[name]
        except KeyError:
            raise MetricMisuseError(f"{name} is no metric of the {self._component.value}") from None

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
            case Type.COUNTER:
                collector = Counter(metric.name, metric.help, names, registry=self.registry)
            case Type.GAUGE:
                collector = Gauge(metric.name, metric.help, names, registry=self.registry)
            case Type.HISTOGRAM:
                assert metric.buckets is not None  # noqa: S101  the catalogue row checks it
                collector = Histogram(
                    metric.name, metric.help, names, registry=self.registry, buckets=metric.buckets.bounds
                )
        if not metric.on_demand:
            for values in metric.fixed_series():
                collector.labels(*values)  # at 0 from the start, so that the first event shows as a rate
        self._collectors[metric.name] = collector
        return collector
