"""Whether any node could go."""

import pytest

from bigfleet.operator.core.release import can_spare, most_that_may_go
from bigfleet.operator.core.rooms import NodeFacts, Rooms, Workload
from tests.support.builders import amounts

NODES = "abcd"


def pod(cpu: int, **given: object) -> Workload:
    """A workload of so many CPUs."""
    return Workload(None, f"o{cpu}", amounts(cpu=cpu), **given)  # type: ignore[arg-type]


def rooms(*pods: tuple[Workload, str]) -> Rooms:
    """Four nodes of 8 CPU with pods."""
    made = Rooms()
    for name in NODES:
        made.put_node(NodeFacts(name, name, allocatable=amounts(cpu=8)), 0)
    for place, (workload, node) in enumerate(pods):
        made.put_pod(str(place), workload, node)
    return made


THREE, FIVE = pod(3), pod(5)


@pytest.mark.rule("operator#fragments-release")
@pytest.mark.parametrize(
    ("pods", "count", "expected"),
    [
        pytest.param([(FIVE, n) for n in "abcd"], 1, False, id="no other node has room"),
        pytest.param([(FIVE, n) for n in "abc"], 1, True, id="one node is empty"),
        pytest.param([(FIVE, n) for n in "abc"], 2, False, id="one place for two pods"),
        pytest.param([(FIVE, "a")], 2, True, id="a place may go, two are left"),
        pytest.param([(FIVE, "a"), (FIVE, "b")], 3, False, id="all places may go"),
        pytest.param(
            [(THREE, "a"), (FIVE, "a"), (FIVE, "b"), (FIVE, "c"), (FIVE, "d")], 1, False, id="three only"
        ),
        pytest.param(
            [(THREE, "a"), (FIVE, "a"), (FIVE, "b"), (FIVE, "c"), (pod(1), "d")],
            1,
            False,
            id="the small one may take the only place",
        ),
        pytest.param([(pod(5, is_daemon=True), n) for n in "abcd"], 3, True, id="daemon pods need no place"),
        pytest.param([(pod(1, is_movable=False), "a")], 1, False, id="a pod that may not move"),
        pytest.param(
            [(pod(1, apart="x"), n) for n in "abcd"], 1, False, id="its own kind is on each other node"
        ),
        pytest.param([(pod(1, apart="x"), n) for n in "abc"], 1, True, id="one node without its own kind"),
    ],
)
def test_any_nodes_can_go(pods: list[tuple[Workload, str]], count: int, expected: bool) -> None:
    assert can_spare(rooms(*[(workload, node) for workload, node in pods]), set(NODES), count) is expected


@pytest.mark.rule("operator#fragments-release")
def test_machines_of_one_size_go_one_for_one_and_large_ones_may_free_several() -> None:
    small, large = amounts(cpu=4), amounts(cpu=16)
    assert most_that_may_go([small] * 5, 2, 3) == 2
    assert most_that_may_go([large] + [small] * 20, 1, 0) == 1
    assert most_that_may_go([large] + [small] * 20, 1, 1) == 7
    assert most_that_may_go([large] + [small] * 3, 1, 1) == 4
