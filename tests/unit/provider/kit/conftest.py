"""Described machines for tests of whole providers."""

from collections.abc import Callable

import pytest

from bigfleet.provider.kit.core.values import DescribedMachine
from tests.support.builders import shape

MakeSlots = Callable[..., list[DescribedMachine]]


@pytest.fixture
def slots() -> MakeSlots:
    """Make quota slots m-0, m-1 and so on, all of one shape."""

    def make(count: int = 3, *, host: bool = False) -> list[DescribedMachine]:
        shared = shape()
        return [
            DescribedMachine(f"m-{number}", shared, f"h-{number}" if host else "") for number in range(count)
        ]

    return make
