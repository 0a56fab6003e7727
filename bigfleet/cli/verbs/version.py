"""`bigfleet version` and `bigfleetctl version`: which build this is, for people and for scripts.

Must never: guess a commit; a build that was not told its commit says so.
"""

import platform
from collections.abc import Mapping

from bigfleet.cli.framework.command import Command
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import Record, write
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.version import __version__

COMMIT_VARIABLE = "BIGFLEET_COMMIT"  # set by the image recipe; names no setting, so it has no flag


def build_commit(environ: Mapping[str, str]) -> str:
    """Return the commit of this build, `unknown` where the build does not say."""
    return environ.get(COMMIT_VARIABLE) or "unknown"


class VersionSettings(OutputFlags, env_prefix="BIGFLEET_VERSION_"):
    """Flags of `version`."""


class CtlVersionSettings(OutputFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl version`."""


def _run(settings: OutputFlags, console: Console) -> int:
    fields = {
        "program": console.program.name,
        "version": __version__,
        "commit": build_commit(console.environ),
        "python": platform.python_version(),
    }
    write(console, settings, Record(fields))
    return ExitCode.DONE


_DESCRIPTION = (
    "Print the version of this build, its commit where the build was told it, and the Python it runs on."
)

BIGFLEET = Command(VersionSettings, _run, _DESCRIPTION, ("bigfleet version", "bigfleet version -o json"))
BIGFLEETCTL = Command(
    CtlVersionSettings, _run, _DESCRIPTION, ("bigfleetctl version", "bigfleetctl version -o yaml")
)
