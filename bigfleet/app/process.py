"""The real surroundings of a program: arguments, streams, environment and clock of this process.

Must never: be imported by a test that wants surroundings of its own; those call `bigfleet.cli.framework.dispatch`.
"""

import io
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.tree import Program


def whole_writes(stream: TextIO) -> TextIO:
    """The stream, or one in its place that writes all it is given or fails.

    With PYTHONUNBUFFERED, as images set it, Python writes straight to the file and does not look at how much of it was
    taken, so that half a document on a full disk would pass for a whole one.
    """
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, stream.encoding, stream.errors, line_buffering=True)


def run_program(program: Program, argv: Sequence[str] | None = None) -> int:
    """Run a program on this process's own arguments, unless others are given."""
    console = Console(
        program=program,
        stdout=whole_writes(sys.stdout),
        stderr=sys.stderr,
        environ=os.environ,
        now=lambda: datetime.now(UTC),
        stdin=sys.stdin.buffer,
    )
    return dispatch(console, sys.argv[1:] if argv is None else argv)


def run_single_command(program: Program, argv: Sequence[str] | None = None) -> int:
    """Run a program that has one command, whose name the caller may leave out."""
    (row,) = program.rows
    given = list(sys.argv[1:] if argv is None else argv)
    return run_program(program, given if given[:1] == [row.name] else [row.name, *given])
