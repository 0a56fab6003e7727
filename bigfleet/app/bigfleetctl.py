"""The program `bigfleetctl`: its table of commands and its `main`.

Called by: the console script and `cmd/bigfleetctl`.
Must never: import a command; a row names it, and it is imported when it is asked for.
Rules: packaging 1.9: its global flags may stand before or after the verb.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.tree import Program, Row

PROGRAM = Program(
    name="bigfleetctl",
    summary="bigfleetctl is the admin tool of a fleet's coordinator; its verbs come with the coordinator.",
    rows=(
        Row(
            "completion",
            "print a completion script for bash, zsh or fish",
            "bigfleet.cli.completion:BIGFLEETCTL",
        ),
        Row("version", "print version and build", "bigfleet.cli.version:BIGFLEETCTL"),
    ),
    examples=("bigfleetctl version -o json", "source <(bigfleetctl completion bash)"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    return run_program(PROGRAM, argv)
