"""What is free on nodes, kept pod by pod."""

from random import Random

import pytest

from bigfleet.model.profile import ZONE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.operator.core.rooms import NodeFacts, Rooms, Row, Workload
from tests.support.builders import amounts

ROW = Row(Profile(requirements=(Requirement(ZONE_KEY, RequirementOperator.IN, ("a",)),)))
SMALL = Workload(ROW, "small", amounts(cpu=1, memory="1Gi"))
LARGE = Workload(ROW, "large", amounts(cpu=3, memory="2Gi"))
APART = Workload(ROW, "apart", amounts(cpu=1), apart="x")
DAEMON = Workload(None, "daemon", amounts(cpu="500m"), is_daemon=True)


def node(name: str, zone: str = "a", **given: object) -> NodeFacts:
    """A node of 4 CPU."""
    return NodeFacts(name, name, {ZONE_KEY: zone}, amounts(cpu=4, memory="8Gi"), amounts(cpu=4), **given)  # type: ignore[arg-type]


@pytest.mark.rule("operator#fragments-rooms")
def test_any_order_of_changes_leaves_what_a_sum_from_scratch_gives() -> None:
    random, kept = Random(7), Rooms()
    pods: dict[str, tuple[Workload, str]] = {}
    nodes: dict[str, NodeFacts] = {}
    for turn in range(3000):
        name, uid = f"n{random.randrange(6)}", f"p{random.randrange(30)}"
        match random.randrange(5):
            case 0:
                nodes[name] = node(name, random.choice("ab"), in_service=random.random() < 0.8)
                kept.put_node(nodes[name], turn)
            case 1 if random.random() < 0.3:
                nodes.pop(name, None)
                kept.drop_node(name)
            case 2:
                pods.pop(uid, None)
                kept.drop_pod(uid)
            case _:
                pods[uid] = (random.choice((SMALL, LARGE, APART, DAEMON)), name)
                kept.put_pod(uid, *pods[uid])
        if turn % 50 == 0:
            fresh = Rooms()
            for facts in nodes.values():
                fresh.put_node(facts, 0)
            for one, place in pods.items():
                fresh.put_pod(one, *place)
            for which in (SMALL, LARGE, APART):
                assert list(kept.places_for(which)) == list(fresh.places_for(which))
                assert kept.runs(which) == fresh.runs(which) == any(pod[0] is which for pod in pods.values())
            assert kept.matching(ROW) == {
                facts.name for facts in nodes.values() if facts.labels[ZONE_KEY] == "a"
            }
            for one in nodes:
                assert kept.load(one) == fresh.load(one)
                assert kept.guests(one) == sum(p[1] == one and p[0] is not DAEMON for p in pods.values())
                assert kept.left_by_daemons(one) == fresh.left_by_daemons(one)


@pytest.mark.rule("operator#fragments-rooms")
def test_a_pod_is_offered_nodes_in_service_with_room_and_without_its_own_kind() -> None:
    rooms = Rooms()
    for facts in (node("full"), node("free"), node("own"), node("cordoned", in_service=False)):
        rooms.put_node(facts, 0)
    rooms.put_pod("1", LARGE, "full")
    rooms.put_pod("2", APART, "own")
    assert set(rooms.places_for(LARGE)) == {"free", "own"}
    assert set(rooms.places_for(APART)) == {"full", "free"}
    assert rooms.free("full", "cpu") == amounts(cpu=1).amount("cpu")


@pytest.mark.rule("operator#fragments-rooms")
def test_a_gang_is_where_most_of_its_pods_run() -> None:
    gang = Row(Profile(requirements=(Requirement(ZONE_KEY, RequirementOperator.SAME),)), "g")
    member, rooms = Workload(gang, "g", amounts(cpu=1)), Rooms()
    rooms.put_node(node("a1"), 0)
    rooms.put_node(node("b1", "b"), 0)
    assert rooms.domain_of(gang) is None
    for uid, name in (("1", "a1"), ("2", "b1"), ("3", "b1")):
        rooms.put_pod(uid, member, name)
    assert rooms.domain_of(gang) == "b"
    assert rooms.matching(gang, "b") == {"b1"}
    assert rooms.matching(gang) == {"a1", "b1"}
