"""The choice of a domain where numbers are awkward; the golden scripts and the laws cover the rest."""

import numpy as np
import pytest

from bigfleet.engine.amounts import Matrix
from bigfleet.engine.phase1.domains import DomainSupply, choose_domain


def supply(*totals: tuple[int, ...], dtype: type = np.int64) -> DomainSupply:
    total: Matrix = np.array(totals, dtype=dtype)
    return DomainSupply(
        np.ones(len(totals), dtype=np.int64), total, np.zeros_like(total), np.zeros_like(total)
    )


@pytest.mark.parametrize("dtype", [np.int64, object])
def test_a_tie_that_floating_point_would_break_goes_to_the_smaller_value(dtype: type) -> None:
    # 0.6 + 0.6 + 0.6 against 0.6 + 1.0 + 0.2 of what is wanted
    assert choose_domain(supply((6, 6, 6), (6, 10, 2), dtype=dtype), (10, 10, 10)) == 0


@pytest.mark.parametrize("dtype", [np.int64, object])
def test_wanted_amounts_whose_product_leaves_64_bits_are_compared_exactly(dtype: type) -> None:
    wanted = (25_769_803_790, 2, 8_589_934_592)
    assert choose_domain(supply((0, 0, 0), (0, 0, 0), dtype=dtype), wanted) == 0
    assert choose_domain(supply((5, 1, 7), (6, 1, 7), (5, 1, 7), dtype=dtype), wanted) == 1
