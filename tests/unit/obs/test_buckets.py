"""Bucket bounds, to the last digit."""

import pytest

from bigfleet.obs.buckets import Buckets

DOUBLING_MS = (
    0.001,
    0.002,
    0.004,
    0.008,
    0.016,
    0.032,
    0.064,
    0.128,
    0.256,
    0.512,
    1.024,
    2.048,
    4.096,
    8.192,
)
DOUBLING_10_MS = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68,
)  # fmt: skip


@pytest.mark.parametrize(
    ("buckets", "bounds"),
    [
        (Buckets.A, DOUBLING_MS),
        (Buckets.B, DOUBLING_10_MS),
        (Buckets.C, (*DOUBLING_10_MS, 655.36, 1310.72, 2621.44, 5242.88)),
        (Buckets.D, (*DOUBLING_MS, 16.384, 32.768)),
        (Buckets.E, (*DOUBLING_MS, 16.384, 32.768, 65.536)),
        (Buckets.ROLLUP, (*DOUBLING_MS[:9], 0.35, 0.5, 0.65, 0.8, 1.0, 1.25, 2.0, 4.0, 8.0, 16.0, 32.0)),
        (Buckets.BATCH, (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)),
    ],
    ids=lambda value: value.name if isinstance(value, Buckets) else "",
)
def test_the_bounds_are_exact(buckets: Buckets, bounds: tuple[float, ...]) -> None:
    assert buckets.bounds == bounds
