"""The program `bigfleet-operator`: its table of commands, which has one row, and its `main`.

Must never: import the command; the row names it, and it is imported when it runs.
Rules: packaging 1.1 and 1.2, operator 3 and 9.
"""

import sys
from collections.abc import Sequence
from typing import Final

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

_RUN: Final = "run"

PROGRAM = Program(
    name="bigfleet-operator",
    summary="bigfleet-operator speaks for one cluster: it reports demand to a shard and carries out what comes back.",
    rows=(Row(_RUN, "work for one cluster", "bigfleet.app.operator.command:RUN"),),
    examples=(
        "bigfleet-operator --cluster-id prod-1 --shard-addr shard-0.bigfleet:7780",
        "bigfleet-operator --cluster-id prod-1 --shard-addr shard-0:7780 --bootstrap-template-file join.tmpl",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal comes and return the exit code; the word `run` may be left out."""
    given = list(sys.argv[1:] if argv is None else argv)
    return run_program(PROGRAM, given if given[:1] == [_RUN] else [_RUN, *given])
