"""Runs one story from begin to end."""

from bigfleet.demo.stories import STORIES, Story
from bigfleet.demo.story_run import Print, StoryRun
from bigfleet.explain.amounts import readable
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.inventory import Pool
from bigfleet.testing.loop import run_virtual


def play(name: str, print_line: Print) -> None:
    """Run a story in virtual time and print its lines; raises `StoryError` when a claim is not true."""
    run_virtual(_play(STORIES[name], print_line))


async def _play(story: Story, print_line: Print) -> None:
    print_line(f"{story.about[0].upper()}{story.about[1:]}.")
    for pool in story.pools:
        print_line(f"Machines: {_words(pool)}.")
    print_line("")
    run = StoryRun(print_line, story.pools)
    async with run.fleet:
        await story.play(run)
        run.say("the end")


def _words(pool: Pool) -> str:
    """A pool in words: how many machines, of which kind, where, and at what price."""
    there = "to buy" if pool.state is MachineState.SPECULATIVE else "already there"
    price = f", ${pool.price_per_hour:.2f} an hour" if pool.price_per_hour else ""
    where = f"in {', '.join(pool.racks or pool.zones)}"
    return f"{pool.count} {pool.capacity_type.label} machines {there}, {readable(pool.resources)} each, {where}{price}"
