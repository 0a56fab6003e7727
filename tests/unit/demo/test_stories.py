"""Every demo ends as claimed; a story checks each of its claims while it runs."""

import pytest

from bigfleet.demo.play import play
from bigfleet.demo.stories import STORIES
from bigfleet.demo.story_run import StoryError, StoryRun
from bigfleet.testing.loop import run_virtual

ENDINGS = {
    "priority-inversion": [
        "Machines: 4 BareMetal machines already there",
        "two machines leave batch for train",
        "--need batch: Short nvidia.com/gpu=16 of nvidia.com/gpu=32: 2 running; 2 machines that could serve it are "
        "claimed by other needs.",
        "batch has all four again",
    ],
    "zone-loss": [
        "zone za is lost",
        "three in each of the zones that are left",
        "--need web: Covered: cpu=48 (6 running).",
    ],
    "spot-storm": [
        "none of its machines is spot",
        "pay has not noticed",
        "six machines again",
        "--need batch: Covered: cpu=48 (6 running).",
    ],
    "unsatisfiable-gang": [
        "the gang is short",
        "--need train: Short nvidia.com/gpu=16 of nvidia.com/gpu=40: 3 joining; rack-1 is the best value of "
        "topology.bigfleet/rack, and even there the gang does not fit.",
        "all of it is in one rack",
    ],
    "provider-outage": [
        "0:02  bigfleet status: The one need is covered",
        "0:02  bigfleet status: 1 of 1 need is short: web is short 16 CPUs: provider unreachable; provider unreachable for 1 s",
        "connection refused; 2 actions wait; next attempt in 1 s",
        "--need web: Not covered: cpu=16 of cpu=32 missing (2 running, 2 wanted); the wanted ones do not come: provider "
        "unreachable",
        "2:02  bigfleet status: 1 of 1 need is short: web is short 16 CPUs: provider unreachable; provider unreachable for 2 min",
        "nothing was drained",
        "calls in two minutes, at most 15",
        "2:02  the provider is back",
        "2:03  it has accepted the orders of web",
        "2:03  bigfleet status: The one need is covered",
        "web has its four machines",
    ],
    "operator-vanishes": [
        "silence is not a request",
        "it takes nothing away",
        "one machine goes",
        "--need web: Covered: cpu=88 (11 running).",
    ],
}
"""Parts of the output, in this order."""


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    lines: list[str] = []
    play(name, lines.append)
    left = whole = "\n".join(lines)
    for words in ENDINGS[name]:
        assert words in left, whole
        left = left.partition(words)[2]
    assert lines[-1].endswith("the end")


def test_a_story_is_the_same_each_time() -> None:
    first: list[str] = []
    second: list[str] = []
    play("spot-storm", first.append)
    play("spot-storm", second.append)
    assert first == second


def test_a_claim_that_is_not_true_ends_the_story() -> None:
    async def lie() -> None:
        run = StoryRun(print, STORIES["provider-outage"].pools)
        async with run.fleet:
            run.holds("web works on a thousand machines", run.serving("web") == 1000)

    with pytest.raises(StoryError, match="a thousand machines, and it is not so"):
        run_virtual(lie())
