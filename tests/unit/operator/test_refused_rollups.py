"""The people of a cluster learn that its demand was refused (`operator#refused-roll-up`)."""

from typing import Any

import pytest

from bigfleet.kube.resources import EVENTS
from bigfleet.operator.refused_rollups import TOLD_REQUESTS
from bigfleet.v1alpha1 import shard_pb2
from tests.unit.operator.world import World, play


def answer(world: World, echo: str, problem: str = "") -> None:
    ack = shard_pb2.Acknowledgement(echo=echo, problem=problem)
    world.shard.current.send(shard_pb2.ShardMessage(ack=ack))


def told(world: World) -> list[dict[str, Any]]:  # Any: documents of JSON
    return [event for event in world.all(EVENTS).values() if event["reason"] == "RollUpRefused"]


def reported(world: World, name: str) -> tuple[str, str]:
    for condition in world.request(name).get("status", {}).get("conditions", ()):
        if condition["type"] == "Reported":
            return condition["status"], condition["reason"]
    return "", ""


@pytest.mark.rule("operator#refused-roll-up")
def test_a_refusal_is_an_event_on_a_few_requests_and_a_metric_until_a_roll_up_is_accepted() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_rollups = False
        for number in range(30):
            await world.add_request(f"r-{number:02}")
        await world.eventually(lambda: len(world.shard.current.rollups) >= 2)
        for rows in (50_001, 50_002):
            answer(world, "rollup-refused", f"needs: found '{rows} rows', allowed is at most 50000")
        await world.eventually(lambda: world.value("rollups_refused_total") == 2)
        assert world.value("rollup_refused") == 1
        await world.eventually(lambda: len(told(world)) == TOLD_REQUESTS)
        assert "50001 rows" in told(world)[0]["message"]
        assert min(event["involvedObject"]["name"] for event in told(world)) == "r-00"
        await world.eventually(lambda: reported(world, "r-00") == ("False", "RollUpRefused"))
        await world.add_request("late")
        answered = len(world.shard.current.rollups)
        await world.eventually(lambda: len(world.shard.current.rollups) >= answered + 2)
        assert not world.request("late").get("status")  # nothing new is reported meanwhile
        answer(world, "rollup")
        await world.eventually(lambda: reported(world, "r-00")[0] == reported(world, "late")[0] == "True")
        await world.eventually(lambda: world.value("rollup_refused") == 0)

    play(scene)


@pytest.mark.rule("operator#refused-roll-up")
def test_a_refusal_that_names_a_row_is_told_to_the_requests_of_that_row() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_rollups = False
        await world.add_request("low", priority=1)
        await world.add_request("high", priority=9)
        await world.eventually(lambda: any(len(each.needs) == 2 for each in world.shard.current.rollups))
        problem = "needs[1].group: found 'g', allowed is a shorter one"
        answer(world, "rollup-refused", problem)
        await world.eventually(lambda: len(told(world)) == 1)
        (event,) = told(world)
        assert event["involvedObject"]["name"] == "low"

    play(scene)
