"""All commands of a program with their options.

Why: completion scripts and reference pages are generated from the commands themselves.
Must never: be needed to run a command, since it imports all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.cli.framework.command import CliCommand, resolve
from bigfleet.cli.framework.options import Option, options_of
from bigfleet.cli.framework.settings import Flags
from bigfleet.cli.framework.tree import CliProgram, CommandRow


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command with its options."""

    row: CommandRow
    command: CliCommand[Flags]
    options: tuple[Option, ...]


def entries(program: CliProgram) -> tuple[CommandEntry, ...]:
    """Import every command of a program and return them in the order of the table."""
    return tuple(_entry(row) for row in program.commands())


def groups(program: CliProgram) -> Iterator[tuple[str, ...]]:
    """Yield the path of the program and of each group that has commands below it."""
    yield ()
    yield from (row.words for row in program.rows if not row.target)


def _entry(row: CommandRow) -> CommandEntry:
    command = resolve(row)
    return CommandEntry(row, command, options_of(command.settings))
