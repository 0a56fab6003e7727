"""Runs a program with the arguments, streams, environment and clock of this process.

Tests that need their own call `bigfleet.cli.framework.dispatch` instead.
"""

import io
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.tree import CliProgram


def whole_writes(stream: TextIO) -> TextIO:
    """Return a stream that writes everything or fails.

    With PYTHONUNBUFFERED, which the image sets, Python ignores partial writes, so half a document on a full disk would look
    like success.
    """
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, stream.encoding, stream.errors, line_buffering=True)


def run_program(program: CliProgram, argv: Sequence[str] | None = None) -> int:
    """Run a program with the given arguments, or those of this process, and return the exit code."""
    console = Console(
        program=program,
        stdout=whole_writes(sys.stdout),
        stderr=sys.stderr,
        environ=os.environ,
        now=lambda: datetime.now(UTC),
        stdin=sys.stdin.buffer,
    )
    return dispatch(console, sys.argv[1:] if argv is None else argv)


def run_single_command(program: CliProgram, argv: Sequence[str] | None = None) -> int:
    """Run a program that has one command, whose name the caller may leave out."""
    (row,) = program.rows
    given = list(sys.argv[1:] if argv is None else argv)
    return run_program(program, given if given[:1] == [row.name] else [row.name, *given])
