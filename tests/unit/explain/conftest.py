"""A decided cycle from the words of engine scripts."""

from collections.abc import Callable

import pytest

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide_situation
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.redecide import Redecider
from tests.support.engine.world import EngineWorld

MakeCycle = Callable[[str], DecidedCycle]


@pytest.fixture
def make_cycle() -> MakeCycle:
    """Decide the cycle that a few lines describe."""

    def make(lines: str) -> DecidedCycle:
        world = EngineWorld(decide_situation)
        for line in lines.strip().splitlines():
            world.command(line.split())
        situation = world.situation()
        return Redecider().cycle(SnapshotDocument(situation, tuple(range(len(situation.needs)))))

    return make
