"""A command of a program, and the import of the command that a row names.

Must never: be imported for `--version` or the help page of a group, since it imports pydantic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.settings import Flags
from bigfleet.cli.framework.tree import CliProgram, CommandRow

S = TypeVar("S", bound=Flags)


@dataclass(frozen=True, slots=True)
class CliCommand(Generic[S]):
    """A verb: its settings, the function that runs it, and the text of its help page."""

    settings: type[S]
    run: Callable[[S, Console], int]
    description: str
    examples: tuple[str, ...] = ()


def resolve(row: CommandRow) -> CliCommand[Flags]:
    """Import the command that a row names."""
    module, _, attribute = row.target.partition(":")
    command = getattr(import_module(module), attribute)
    if not isinstance(command, CliCommand):
        raise TypeError(f"{row.target} is a {type(command).__name__}, a row must name a CliCommand")
    return command


def all_settings(program: CliProgram) -> list[type[Flags]]:
    """Return the settings of every command of a program; imports all commands."""
    return [resolve(row).settings for row in program.commands()]
