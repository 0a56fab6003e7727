"""What a row of a command table points to.

Must never: be imported by a module that `--version` or a group's `--help` needs: it brings pydantic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.settings import Flags
from bigfleet.cli.framework.tree import Program, Row

S = TypeVar("S", bound=Flags)


@dataclass(frozen=True, slots=True)
class Command(Generic[S]):
    """A verb: its settings, what it does with them, and the prose of its help page."""

    settings: type[S]
    run: Callable[[S, Console], int]
    description: str
    examples: tuple[str, ...] = ()


def resolve(row: Row) -> Command[Flags]:
    """Import the command that a row names."""
    module, _, attribute = row.target.partition(":")
    command = getattr(import_module(module), attribute)
    if not isinstance(command, Command):
        raise TypeError(f"{row.target} is a {type(command).__name__}, a row must name a Command")
    return command


def neighbours(program: Program) -> list[type[Flags]]:
    """Return the settings of every command of a program, which imports them all."""
    return [resolve(row).settings for row in program.commands()]
