"""`bigfleet demo`: runs a short scripted scenario of a fleet and prints it.

Must never: open a socket; everything runs in memory, on virtual time.
"""

from typing import Annotated, Final

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
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
        default="", description="scenario to run; without it all are listed"
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
        play(settings.story, console.print_now)
    except StoryError as error:
        raise CommandError(str(error), ExitCode.FAILURE) from error
    return ExitCode.DONE


DEMO = CliCommand(
    DemoSettings,
    _demo,
    """Run a short scenario with the production code of a shard, a provider and clusters, on virtual time and without sockets.
    Every printed statement is checked; if one does not hold, the command ends with exit code 1. Times are minutes and
    seconds of virtual time.""",
    ("bigfleet demo", "bigfleet demo priority-inversion", "bigfleet demo unsatisfiable-gang"),
)
