"""The program `bigfleet-fake-provider`: its table of commands, which has one row, and its `main`.

Must never: import the command; the row names it, and it is imported when it runs.
Rules: packaging 1.1 and 1.2, providers 5.
"""

import sys
from collections.abc import Sequence
from typing import Final

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

_SERVE: Final = "serve"

PROGRAM = Program(
    name="bigfleet-fake-provider",
    summary="bigfleet-fake-provider serves machines that do not exist, with the failures of those that do.",
    rows=(Row(_SERVE, "serve made-up machines", "bigfleet.app.fake_provider.command:SERVE"),),
    examples=(
        "bigfleet-fake-provider --catalog realistic --idle 1000 --speculative 15000",
        "bigfleet-fake-provider --inventory pools.yaml --control-addr 127.0.0.1:9001",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve and return the exit code; the word `serve` may be left out."""
    given = list(sys.argv[1:] if argv is None else argv)
    return run_program(PROGRAM, given if given[:1] == [_SERVE] else [_SERVE, *given])
