"""Catalogues of metrics: the names, help texts, labels and buckets that a process exports, as data.

Why: a metric's name is contract. Written once, as data, a test can hold collectors, reference page, boards and rules
against it. Each process lists its own metrics in its `metrics` module; what every process exports is listed here.
Must never: import the Prometheus client, or list a metric that no process can export.
Rules: `shard#metrics`, `coordinator#series`, `operator#operator-metrics`, `providers#kit`, `packaging#process-metrics`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import product

from bigfleet.aio.identity import Role
from bigfleet.obs.buckets import Buckets


class MetricType(StrEnum):
    """The Prometheus type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """What a user may rely on."""

    CONTRACT = "contract"  # name and labels are those of the original
    STABLE = "stable"  # ours; removed no earlier than two minor versions after a warning


@dataclass(frozen=True, slots=True)
class Label:
    """A label; `values` are all values it can have, or empty when it names something of the fleet."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    type: MetricType
    name: str
    help: str
    labels: tuple[Label, ...] = ()
    buckets: Buckets | None = None
    stability: Stability = Stability.STABLE
    # Series appear when first written instead of at 0 from the start: where most combinations stay empty, or where
    # a 0 would be a statement (a time in 1970, a certificate that does not exist).
    on_demand: bool = False
    impossible: frozenset[tuple[str, ...]] = frozenset()  # label combinations that cannot occur

    def __post_init__(self) -> None:
        if (self.type is MetricType.HISTOGRAM) != (self.buckets is not None):
            raise ValueError(f"{self.name}: a histogram has buckets and nothing else has")
        if self.type is MetricType.COUNTER and not self.name.endswith("_total"):
            raise ValueError(f"{self.name}: a counter's name ends in _total")

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)

    def fixed_series(self) -> tuple[tuple[str, ...], ...]:
        """Return every label combination, if all labels have a fixed set of values; else none."""
        if not self.labels or not all(label.values for label in self.labels):
            return ()
        combinations = product(*(label.values for label in self.labels))
        return tuple(values for values in combinations if values not in self.impossible)


counter = partial(Metric, MetricType.COUNTER)
gauge = partial(Metric, MetricType.GAUGE)
histogram = partial(Metric, MetricType.HISTOGRAM)


@dataclass(frozen=True, slots=True)
class MetricCatalogue:
    """The metrics of one process, besides those of every process."""

    component: str
    """The process, as `bigfleet_build_info` and the logs name it."""
    metrics: tuple[Metric, ...]


def catalogue(
    component: str, *, contract: tuple[Metric, ...] = (), stable: tuple[Metric, ...] = ()
) -> MetricCatalogue:
    """Return the catalogue of a process from the metrics that are contract and those that are ours."""
    fixed = (replace(metric, stability=Stability.CONTRACT) for metric in contract)
    return MetricCatalogue(component, (*fixed, *stable))


_LISTENER = Label("listener", ("grpc", "raft", "http"))

EVERY_PROCESS = (
    gauge(
        "bigfleet_build_info",
        "Always 1; the labels say which build this is.",
        labels=(Label("component"), Label("version"), Label("commit")),
    ),
    histogram(
        "bigfleet_event_loop_lag_seconds",
        "How much later than asked the event loop woke a sleeper; high when something blocks it.",
        buckets=Buckets.D,
    ),
    gauge(
        "bigfleet_tls_certificate_not_after_timestamp_seconds",
        "When our certificate ends, in seconds since 1970; absent without TLS.",
        labels=(Label("role", tuple(role.value for role in Role)),),
        on_demand=True,
    ),
    counter(
        "bigfleet_connections_refused_total",
        "Connections ended before they had proven themselves, to make room: address, its own address held too many; full, "
        "the listener did.",
        labels=(_LISTENER, Label("reason", ("address", "full"))),
        on_demand=True,
    ),
    counter(
        "bigfleet_descriptor_shortages_total",
        "Times the system had no descriptor or memory for a connection; any value above 0 asks for a higher limit.",
        labels=(_LISTENER,),
        on_demand=True,
    ),
    gauge(
        "bigfleet_connections_open",
        "Connections of a listener; for gRPC counted while it runs near its limit, and once afterwards.",
        labels=(_LISTENER,),
        on_demand=True,
    ),
    gauge(
        "bigfleet_connections_limit",
        "How many connections a listener keeps, by its flag and by the descriptors of the process.",
        labels=(_LISTENER,),
        on_demand=True,
    ),
    gauge(
        "bigfleet_plaintext_exposed",
        "1 when a gRPC or Raft port is open without TLS beyond loopback, so that any process that reaches it may claim any "
        "identity; else 0. Absent where no such port is served.",
        on_demand=True,
    ),
)
