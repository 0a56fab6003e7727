"""The program `bigfleet-fault-provider`: its table of commands, which has one row, and its `main`.

Must never: import the command; the row names it, and it is imported when it runs.
Rules: packaging 1.1 and 1.2, providers 6.
"""

import sys
from collections.abc import Sequence
from typing import Final

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

_SERVE: Final = "serve"

PROGRAM = Program(
    name="bigfleet-fault-provider",
    summary="bigfleet-fault-provider fails on command, for the fault lane of the conformance kit.",
    rows=(Row(_SERVE, "serve slots that fail on command", "bigfleet.app.fault_provider.command:SERVE"),),
    examples=("bigfleet-fault-provider --transition-timeout 2s",),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve and return the exit code; the word `serve` may be left out."""
    given = list(sys.argv[1:] if argv is None else argv)
    return run_program(PROGRAM, given if given[:1] == [_SERVE] else [_SERVE, *given])
