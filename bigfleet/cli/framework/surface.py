"""Everything a user can type after a program's name, with every command imported.

Why: completion scripts and reference pages are made from the same commands that run, so they cannot lie.
Must never: be needed to run a command.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.cli.framework.command import Command, resolve
from bigfleet.cli.framework.options import Option, options_of
from bigfleet.cli.framework.settings import Flags
from bigfleet.cli.framework.tree import Program, Row


@dataclass(frozen=True, slots=True)
class Entry:
    """One command with its options."""

    row: Row
    command: Command[Flags]
    options: tuple[Option, ...]


def entries(program: Program) -> tuple[Entry, ...]:
    """Import every command of a program and return them in the order of the table."""
    return tuple(_entry(row) for row in program.commands())


def groups(program: Program) -> Iterator[tuple[str, ...]]:
    """Yield the path of the program and of each group that has commands below it."""
    yield ()
    yield from (row.words for row in program.rows if not row.target)


def _entry(row: Row) -> Entry:
    command = resolve(row)
    return Entry(row, command, options_of(command.settings))
