"""The metrics page, from the catalogues of the processes."""

from collections.abc import Iterable

from bigfleet.coordinator.metrics import COORDINATOR_METRICS
from bigfleet.dashboard.metrics import DASHBOARD_METRICS
from bigfleet.obs.buckets import Buckets
from bigfleet.obs.catalogue import EVERY_PROCESS, Label, Metric
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from bigfleet.provider.metrics import PROVIDER_METRICS
from bigfleet.shard.metrics import SHARD_METRICS
from docs.generate.markdown import code, codes, plain, table
from docs.generate.markdown import page as markdown_page

_SECTIONS = {
    "Every process": EVERY_PROCESS,
    "Shard": SHARD_METRICS.metrics,
    "Coordinator": COORDINATOR_METRICS.metrics,
    "Operator": OPERATOR_METRICS.metrics,
    "Unschedulable-pod controller": POD_CONTROLLER_METRICS.metrics,
    "Provider": PROVIDER_METRICS.metrics,
    "Dashboard": DASHBOARD_METRICS.metrics,
}
CATALOGUE = tuple(metric for metrics in _SECTIONS.values() for metric in metrics)
"""Every metric of every process; tests hold boards, rules and prose against it."""
_MANY = 12  # beyond this many values a cell tells how they run instead of listing them

_INTRO = """
Metrics are served as Prometheus text at `/metrics`. **contract**: name and labels are those of the original and do not
change. **stable**: ours; removed no earlier than two minor versions after a deprecation warning. A label with a fixed set
of values has all its series from the start, at 0, unless the table says that they appear on demand.
"""


def page() -> str:
    """Return the page."""
    sections = [f"## {title}\n\n{_section(metrics)}" for title, metrics in _SECTIONS.items()]
    bounds = [
        (code(b.name), str(len(b.bounds)), ", ".join(f"{bound:.12g}" for bound in b.bounds)) for b in Buckets
    ]
    return markdown_page(
        "Metrics",
        _INTRO,
        *sections,
        "Besides these, each process exports the `process_…` metrics of the Prometheus client library: CPU, memory, open "
        "files, start time.",
        "## Bucket sets",
        table(("Set", "Bounds", "Upper bounds; `+Inf` follows"), bounds),
    )


def _section(metrics: Iterable[Metric]) -> str:
    header = ("Name", "Type", "Labels", "Buckets", "Stability", "Meaning")
    return table(header, map(_row, metrics))


def _row(metric: Metric) -> tuple[str, ...]:
    labels = "; ".join(map(_label, metric.labels))
    if metric.on_demand:
        labels += " (on demand)" if labels else "on demand"
    buckets = code(metric.buckets.name) if metric.buckets else ""
    return code(metric.name), metric.type.value, labels, buckets, metric.stability.value, plain(metric.help)


def _label(label: Label) -> str:
    if not label.values:
        return code(label.name)
    if len(label.values) > _MANY:
        shown = [*map(code, label.values[:4]), "…", *map(code, label.values[-2:])]
        return f"{code(label.name)}: {', '.join(shown)} ({len(label.values)} values)"
    return f"{code(label.name)}: {codes(label.values)}"
