"""E19: a thousand machines through three states each, while blobs are asked for."""

from collections import Counter

import pytest

from bigfleet.kube.resources import UPCOMING_NODES
from tests.support.scripted_shard import blob_request, node_state
from tests.unit.operator.world import World, play


def phases(world: World) -> Counter[str]:
    return Counter((item.get("status") or {}).get("phase", "") for item in world.all(UPCOMING_NODES).values())


@pytest.mark.rule("operator#e19")
def test_the_last_states_land_and_blobs_do_not_wait() -> None:
    async def scene(world: World) -> None:
        machines = [f"m-{number:04d}" for number in range(1000)]
        for state in ("Creating", "Configuring", "Configured"):
            world.shard.send(*(node_state(machine, state, resources={"cpu": "8"}) for machine in machines))
        began_s = world.now_s
        world.shard.send(*(blob_request(f"r{number}") for number in range(100)))
        await world.eventually(lambda: len(world.shard.current.blobs) == 100)
        assert world.now_s - began_s < 1
        await world.eventually(lambda: phases(world) == {"Ready": 1000})
        assert len(world.operator.dispatch.queues) == 0  # type: ignore[union-attr]

    play(scene)
