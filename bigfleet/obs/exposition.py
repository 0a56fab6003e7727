"""The response body of `/metrics`.

Must never: export the client library's `…_created` series, which are in no catalogue and double every small counter.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


class _WithoutCreated(Collector):
    """A registry's families without the times at which their series were made."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def metrics_text(registry: CollectorRegistry) -> Callable[[str], tuple[bytes, str]]:
    """Return what answers a scrape: from its Accept header to body and content type."""
    view = CollectorRegistry(auto_describe=False)
    view.register(_WithoutCreated(registry))

    def answer(accept: str) -> tuple[bytes, str]:
        try:
            encode, content_type = choose_encoder(accept)
        except (ValueError, TypeError):  # a version that is no number: answer with the plain text format
            encode, content_type = choose_encoder("")
        return encode(view), content_type

    return answer
