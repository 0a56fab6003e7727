"""A replica on the log in memory, served on the network in memory, in virtual time."""

import pytest

from tests.unit.coordinator.harness import Worlds, make_world


@pytest.fixture
def world() -> Worlds:
    """Make a world inside a virtual-time run; `secured` is mutual TLS."""
    return make_world
