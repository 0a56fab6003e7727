"""Percentiles of a histogram on a metrics page."""

from collections.abc import Mapping
from types import MappingProxyType


def histogram_quantiles(
    metrics: Mapping[str, float], name: str, since: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """Return the upper bounds of the buckets that hold the median and the 99th percentile, over all labels.

    With `since`, an earlier state of the same page, only what was observed after it counts.
    """
    counts: dict[float, float] = {}
    for series, value in metrics.items():
        if series.startswith(f"{name}_bucket"):
            bound = float(series.partition('le="')[2].partition('"')[0].replace("+Inf", "inf"))
            counts[bound] = counts.get(bound, 0.0) + value - since.get(series, 0.0)
    total = counts.get(float("inf"), 0.0)
    found = {
        f"p{share}": next((bound for bound in sorted(counts) if counts[bound] >= total * share / 100), 0.0)
        for share in (50, 99)
    }
    return {**{key: round(bound, 4) for key, bound in found.items()}, "count": total}
