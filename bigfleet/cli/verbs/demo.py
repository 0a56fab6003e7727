"""`bigfleet demo`: plays a short story of a fleet and tells it.

Must never: open a socket; everything happens in memory, on virtual time.
"""

from typing import Annotated, Final

from pydantic import Field

from bigfleet.cli.framework.command import Command
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.output import Column, Listing, write
from bigfleet.cli.framework.settings import OutputFlags

_COLUMNS: Final = (Column("STORY", "story"), Column("WHAT IT SHOWS", "about"))


class DemoSettings(OutputFlags, env_prefix="BIGFLEET_DEMO_"):
    """Flags of `bigfleet demo`."""

    story: Annotated[str, Cli(positional=True, metavar="STORY")] = Field(
        default="", description="which story to play; left out, they are listed"
    )


def _demo(settings: DemoSettings, console: Console) -> int:
    from bigfleet.demo.play import play
    from bigfleet.demo.stories import STORIES
    from bigfleet.demo.story_run import StoryError

    if not settings.story:
        rows = [{"story": name, "about": story.about} for name, story in STORIES.items()]
        write(console, settings, Listing("stories", _COLUMNS, rows))
        return ExitCode.DONE
    if settings.story not in STORIES:
        raise UsageError(f"STORY: found {settings.story!r}, allowed is one of {', '.join(STORIES)}")
    try:
        play(settings.story, console.say)
    except StoryError as error:
        raise CommandError(str(error), ExitCode.FAILURE) from error
    return ExitCode.DONE


DEMO = Command(
    DemoSettings,
    _demo,
    """Play a short story: a shard, a provider and clusters, all of them the production code, on virtual time and without
    a socket. Every sentence is checked while it is told; a story that does not come out as told ends with exit code 1.
    Times are minutes and seconds of the story.""",
    ("bigfleet demo", "bigfleet demo priority-inversion", "bigfleet demo unsatisfiable-gang"),
)
