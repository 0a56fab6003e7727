"""Every demo comes out as it is told; a story checks each of its claims while it is played."""

import pytest

from bigfleet.demo.play import play
from bigfleet.demo.stage import Stage, StoryError
from bigfleet.demo.stories import STORIES
from bigfleet.testing.loop import run_virtual

ENDINGS = {
    "priority-inversion": ["two machines leave batch for train", "batch has all four again"],
    "zone-loss": ["zone za is lost", "three in each of the zones that are left"],
    "spot-storm": ["none of its machines is spot", "pay has not noticed", "six machines again"],
    "unsatisfiable-gang": ["the gang is short", "all of it stands in one rack"],
    "provider-outage": ["nothing was drained", "web has its four machines"],
    "operator-vanishes": ["silence is not a wish", "it takes nothing away", "one machine goes"],
}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    told: list[str] = []
    play(name, told.append)
    whole = "\n".join(told)
    for words in ENDINGS[name]:
        assert words in whole, whole
    assert told[-1].endswith("the end")


def test_a_story_is_the_same_each_time() -> None:
    first: list[str] = []
    second: list[str] = []
    play("spot-storm", first.append)
    play("spot-storm", second.append)
    assert first == second


def test_a_claim_that_is_not_true_ends_the_story() -> None:
    async def lie() -> None:
        stage = Stage(print, STORIES["provider-outage"].pools)
        async with stage.world:
            stage.holds("web works on a thousand machines", stage.serving("web") == 1000)

    with pytest.raises(StoryError, match="a thousand machines, and it is not so"):
        run_virtual(lie())
