"""The text that `/metrics` answers with.

Called by: `bigfleet.app` hands it to the HTTP probes of `bigfleet.transport`, which knows no metrics.
Must never: export the client library's `…_created` series, which are in no catalogue and double every small counter.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _WithoutCreated(Collector):
    """A registry's families without the times at which their series were made."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def exposition(registry: CollectorRegistry) -> bytes:
    """Return every series of a registry in the Prometheus text format 0.0.4."""
    view = CollectorRegistry(auto_describe=False)
    view.register(_WithoutCreated(registry))
    return generate_latest(view)
