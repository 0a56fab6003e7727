"""The command tree as a flat table, and the walk from arguments to one command.

Why: to add a command is to add one row, and a command is imported only when it runs.
Must never: import a command, pydantic, or anything else that slows down `--version` and `--help`.
Rules: `packaging#help`, `packaging#secrets-are-files`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bigfleet.cli.framework.errors import UsageError


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command, or one group of commands when `target` is empty.

    `name` may have several words: `certs issue` is the command `issue` of the group `certs`.
    `target` is `module:attribute`, the attribute being a `bigfleet.cli.framework.command.CliCommand`.
    """

    name: str
    summary: str
    target: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.name.split())


@dataclass(frozen=True, slots=True)
class CliProgram:
    """A console script: its name, what it is for, and its table of commands."""

    name: str
    summary: str
    rows: tuple[CommandRow, ...]
    examples: tuple[str, ...] = ()
    # Flags with a value that may come before the command. `walk` must skip the value before it knows the command;
    # a test compares this set with the flags of the commands.
    leading_value_flags: frozenset[str] = frozenset({"config", "log-level", "output", "o"})

    def children(self, path: Sequence[str]) -> tuple[CommandRow, ...]:
        """Return the rows directly below a group, in the order of the table."""
        return tuple(row for row in self.rows if row.words[:-1] == tuple(path))

    def row(self, path: Sequence[str]) -> CommandRow | None:
        """Return the row of exactly this path, or None."""
        return next((row for row in self.rows if row.words == tuple(path)), None)

    def commands(self) -> tuple[CommandRow, ...]:
        """Return the rows of commands, without those of groups."""
        return tuple(row for row in self.rows if row.target)


@dataclass(frozen=True, slots=True)
class CommandMatch:
    """Where the arguments lead: a command (`row` is set) or a group, and what is left for it."""

    path: tuple[str, ...]
    row: CommandRow | None
    arguments: tuple[str, ...]


def is_flag(word: str) -> bool:
    """Return whether an argument is a flag; a lone dash means standard input."""
    return word.startswith("-") and word != "-"


def flag_name(word: str) -> str:
    """Return the name of a flag, given with one dash or two, with or without `=value`."""
    name = word[2:] if word.startswith("--") else word[1:]
    return name.partition("=")[0]


def walk(program: CliProgram, argv: Sequence[str]) -> CommandMatch:
    """Find the command that the arguments name; flags before it are left for the command."""
    path: tuple[str, ...] = ()
    passed: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            rest.insert(0, word)
            break
        if is_flag(word):
            passed.append(word)
            if rest and "=" not in word and flag_name(word) in program.leading_value_flags:
                passed.append(rest.pop(0))
            continue
        row = program.row((*path, word))
        if row is None:
            raise _unknown(program, path, word)
        path = row.words
        if row.target:
            return CommandMatch(path, row, (*passed, *rest))
    return CommandMatch(path, None, (*passed, *rest))


def _unknown(program: CliProgram, path: tuple[str, ...], word: str) -> UsageError:
    names = [row.words[-1] for row in program.children(path)]
    here = " ".join((program.name, *path))
    return UsageError(
        f"unknown command {word!r}{near_miss(word, names)}, allowed is one of {', '.join(names)}; see {here} --help"
    )


def near_miss(word: str, known: Sequence[str]) -> str:
    """Return ` (did you mean …?)` for a word that is close to a known one, else an empty text."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
