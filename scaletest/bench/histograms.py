"""Percentiles of a histogram on a metrics page."""

from collections.abc import Mapping


def histogram_quantiles(metrics: Mapping[str, float], name: str) -> dict[str, float]:
    """Return the upper bounds of the buckets that hold the median and the 99th percentile, over all labels."""
    counts: dict[float, float] = {}
    for series, value in metrics.items():
        if series.startswith(f"{name}_bucket"):
            bound = float(series.partition('le="')[2].partition('"')[0].replace("+Inf", "inf"))
            counts[bound] = counts.get(bound, 0.0) + value
    total = counts.get(float("inf"), 0.0)
    found = {
        f"p{share}": next((bound for bound in sorted(counts) if counts[bound] >= total * share / 100), 0.0)
        for share in (50, 99)
    }
    return {**{key: round(bound, 4) for key, bound in found.items()}, "count": total}
