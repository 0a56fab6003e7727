"""The environment of a command: streams, environment variables, clock.

Why: `bigfleet.app` makes the real ones and tests make their own; a command uses nothing else.
Must never: import anything slow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import BinaryIO, TextIO

from bigfleet.cli.framework.tree import CliProgram


@dataclass(frozen=True, slots=True)
class Console:
    """The environment of one run of one program."""

    program: CliProgram
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]
    now: Callable[[], datetime]  # aware, UTC
    stdin: BinaryIO = field(default_factory=BytesIO)

    def print(self, text: str) -> None:
        """Write a line to standard output."""
        self.stdout.write(f"{text}\n")

    def print_now(self, text: str) -> None:
        """Write a line to standard output and flush it, for programs that report events as they happen."""
        self.print(text)
        self.stdout.flush()

    def print_error(self, text: str) -> None:
        """Write a line to standard error, after the name of the program."""
        self.stderr.write(f"{self.program.name}: {text}\n")

    def print_warning(self, text: str) -> None:
        """Write a line about something that does not stop the command."""
        self.print_error(f"warning: {text}")
