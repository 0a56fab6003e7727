"""Plays one story from its begin to its end.

Called by: `bigfleet demo`, tests.
"""

from bigfleet.demo.stage import Say, Stage
from bigfleet.demo.stories import STORIES, Story
from bigfleet.testing.loop import run_virtual


def play(name: str, say: Say) -> None:
    """Play a story in virtual time, every line handed to `say`; raises `StoryError` when it does not come out as told."""
    run_virtual(_play(STORIES[name], say))


async def _play(story: Story, say: Say) -> None:
    stage = Stage(say, story.pools)
    async with stage.world:
        await story.play(stage)
        stage.tell("the end")
