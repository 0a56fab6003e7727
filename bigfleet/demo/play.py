"""Plays one story from its begin to its end."""

from bigfleet.demo.stage import Say, Stage
from bigfleet.demo.stories import STORIES, Story
from bigfleet.explain.amounts import readable
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.inventory import Pool
from bigfleet.testing.loop import run_virtual


def play(name: str, say: Say) -> None:
    """Play a story in virtual time, every line handed to `say`; raises `StoryError` when it does not come out as told."""
    run_virtual(_play(STORIES[name], say))


async def _play(story: Story, say: Say) -> None:
    say(f"{story.about[0].upper()}{story.about[1:]}.")
    for pool in story.pools:
        say(f"On stage: {_words(pool)}.")
    say("")
    stage = Stage(say, story.pools)
    async with stage.world:
        await story.play(stage)
        stage.tell("the end")


def _words(pool: Pool) -> str:
    """A pool as the audience should know it: how many, what they are, where, and what they cost."""
    there = "that could be bought" if pool.state is MachineState.SPECULATIVE else "that stand there"
    price = f", ${pool.price_per_hour:.2f} an hour" if pool.price_per_hour else ""
    where = f"in {', '.join(pool.racks or pool.zones)}"
    return f"{pool.count} {pool.capacity_type.label} machines {there}, {readable(pool.resources)} each, {where}{price}"
