"""What there is to say about one metric: the row type of the catalogue.

Must never: import the Prometheus client; a row is data.
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from bigfleet.obs.buckets import Buckets


class Component(StrEnum):
    """The process that exports a metric."""

    EVERY = "every process"
    SHARD = "shard"
    COORDINATOR = "coordinator"
    OPERATOR = "operator"
    POD_CONTROLLER = "pod-controller"
    PROVIDER = "provider"
    DASHBOARD = "dashboard"


class Type(StrEnum):
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
    """A label; with `values` those are all it can ever have, without them it names something of the fleet."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of one component."""

    component: Component
    name: str
    type: Type
    help: str
    labels: tuple[Label, ...] = ()
    buckets: Buckets | None = None
    stability: Stability = Stability.STABLE
    # Series appear when first written instead of at 0 from the start: where nearly all combinations stay
    # empty for ever, or where a 0 would read as a statement (a time of 1970, a certificate that is not there).
    on_demand: bool = False
    impossible: frozenset[tuple[str, ...]] = frozenset()  # label combinations that cannot occur

    def __post_init__(self) -> None:
        if (self.type is Type.HISTOGRAM) != (self.buckets is not None):
            raise ValueError(f"{self.name}: a histogram has buckets and nothing else has")
        if self.type is Type.COUNTER and not self.name.endswith("_total"):
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
