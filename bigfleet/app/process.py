"""The real surroundings of a program: arguments, streams, environment and clock of this process.

Called by: `main` of each program.
Must never: be imported by a test that wants surroundings of its own; those call `bigfleet.cli.dispatch`.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from bigfleet.cli.console import Console
from bigfleet.cli.dispatch import dispatch
from bigfleet.cli.tree import Program


def run_program(program: Program, argv: Sequence[str] | None = None) -> int:
    """Run a program on this process's own arguments, unless others are given."""
    console = Console(
        program=program,
        stdout=sys.stdout,
        stderr=sys.stderr,
        environ=os.environ,
        now=lambda: datetime.now(UTC),
        stdin=sys.stdin.buffer,
    )
    return dispatch(console, sys.argv[1:] if argv is None else argv)
