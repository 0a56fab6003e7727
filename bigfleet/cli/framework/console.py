"""What a command may touch of the world around it: streams, environment, clock.

Why: `bigfleet.app` makes the real ones, tests make their own, and no command reaches past them.
Must never: import anything slow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import BinaryIO, TextIO

from bigfleet.cli.framework.tree import Program


@dataclass(frozen=True, slots=True)
class Console:
    """The surroundings of one run of one program."""

    program: Program
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]
    now: Callable[[], datetime]  # aware, UTC
    stdin: BinaryIO = field(default_factory=BytesIO)  # nothing, unless somebody hands something in

    def print(self, text: str) -> None:
        """Write a line to standard output."""
        self.stdout.write(f"{text}\n")

    def say(self, text: str) -> None:
        """Print a line at once, also into a file or pipe: for programs that tell what happens while it happens."""
        self.print(text)
        self.stdout.flush()

    def complain(self, text: str) -> None:
        """Write the one line on standard error that tells why the command ends."""
        self.stderr.write(f"{self.program.name}: {text}\n")
