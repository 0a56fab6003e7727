"""When the next hold ends; the golden scripts and the laws cover what is given back."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.engine.phase3 import next_due


@given(st.floats(-1e10, 1e10), st.floats(1e-3, 1e6))
def test_no_hold_ends_before_the_moment_that_is_foretold(since: float, hold: float) -> None:
    foretold = next_due(np.array([since]), np.array([hold]))
    assert not np.nextafter(foretold, -np.inf) - since >= hold
    assert foretold > since + hold - 1e-5


def test_without_a_machine_that_is_held_nothing_is_ever_due() -> None:
    assert next_due(np.empty(0), np.empty(0)) == np.inf
