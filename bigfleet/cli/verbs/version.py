"""`bigfleet version` and `bigfleetctl version`: version and commit of this build.

Must never: guess a commit; without one the output says `unknown`.
"""

import platform
from collections.abc import Mapping

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import OutputRecord, write
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
    write(console, settings, OutputRecord(fields))
    return ExitCode.DONE


_DESCRIPTION = "Print the version of this build, its commit if known, and the version of Python."

BIGFLEET = CliCommand(VersionSettings, _run, _DESCRIPTION, ("bigfleet version", "bigfleet version -o json"))
BIGFLEETCTL = CliCommand(
    CtlVersionSettings, _run, _DESCRIPTION, ("bigfleetctl version", "bigfleetctl version -o yaml")
)
