"""The program `bigfleet-hook-provider`: its table of commands, which has one row, and its `main`.

Must never: import the command; the row names it, and it is imported when it runs.
Rules: packaging 1.1 and 1.2, providers 7.
"""

import sys
from collections.abc import Sequence
from typing import Final

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

_SERVE: Final = "serve"

PROGRAM = Program(
    name="bigfleet-hook-provider",
    summary="bigfleet-hook-provider serves machines of an inventory file, by commands of their owner.",
    rows=(Row(_SERVE, "serve the machines of an inventory", "bigfleet.app.hook_provider.command:SERVE"),),
    examples=(
        "bigfleet-hook-provider --inventory hall-7.yaml --state /var/lib/bigfleet-hook",
        "bigfleet-hook-provider --inventory hall-7.yaml --check",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve, or check, and return the exit code; the word `serve` may be left out."""
    given = list(sys.argv[1:] if argv is None else argv)
    return run_program(PROGRAM, given if given[:1] == [_SERVE] else [_SERVE, *given])
