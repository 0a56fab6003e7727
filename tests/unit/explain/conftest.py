"""A case from the words of engine scripts."""

from collections.abc import Callable

import pytest

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide_situation
from bigfleet.explain.case import Case
from tests.support.engine.world import EngineWorld

MakeCase = Callable[[str], Case]


@pytest.fixture
def make_case() -> MakeCase:
    """Build the case that a few lines describe."""

    def make(lines: str) -> Case:
        world = EngineWorld(decide_situation)
        for line in lines.strip().splitlines():
            world.command(line.split())
        situation = world.situation()
        document = SnapshotDocument(situation, tuple(range(len(situation.needs))))
        return Case(document, decide_situation(situation))

    return make
