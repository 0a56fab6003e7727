"""51 and 52: which UpcomingNodes may be deleted."""

import pytest

from bigfleet.operator.core.orphans import is_too_many, unnamed, without_marker
from bigfleet.operator.core.views import UpcomingNodeView


def view(machine: str, phase: str = "Ready") -> UpcomingNodeView:
    return UpcomingNodeView(f"un-{machine}", f"uid-{machine}", machine, {}, {"phase": phase})


@pytest.mark.rule("operator#sweep-with-marker")
def test_only_what_existed_and_was_not_named_and_is_not_draining() -> None:
    views = [view("b"), view("a"), view("new"), view("named"), view("draining")]
    since = {"uid-a", "uid-b", "uid-named", "uid-draining"}
    found = unnamed(views, since=since, named={"named"}, draining={"draining"})
    assert [one.machine_id for one in found] == ["a", "b"]


@pytest.mark.rule("operator#sweep-with-marker")
@pytest.mark.parametrize(
    ("orphans", "total", "held"),
    [(10, 10, False), (11, 11, True), (11, 54, True), (11, 55, False), (200, 1000, False), (201, 1000, True)],
)
def test_many_at_once_are_held(orphans: int, total: int, held: bool) -> None:
    assert is_too_many(orphans, total) is held


@pytest.mark.rule("operator#sweep-without-marker")
def test_without_marker_only_those_on_their_way_and_without_a_node() -> None:
    phases = ("Provisioning", "Launched", "Registered", "Ready", "Draining", "Drained", "Failed")
    views = [view(phase.lower(), phase) for phase in phases]
    assert [one.phase for one in without_marker(views, lambda one: one.phase == "Drained")] == [
        "Provisioning",
        "Launched",
        "Draining",
    ]
