"""The command tree as a flat table, and the walk from arguments to one command.

Why: adding a command is adding one row, and no command is imported before it is asked for.
Must never: import a command, pydantic, or anything else that slows down `--version` and `--help`.
Rules: packaging 1.2, rules 6 and 7.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bigfleet.cli.framework.errors import UsageError


@dataclass(frozen=True, slots=True)
class Row:
    """One command, or one group of commands when `target` is empty.

    `name` may have several words: `certs issue` is the command `issue` of the group `certs`.
    `target` is `module:attribute`, the attribute being a `bigfleet.cli.framework.command.Command`.
    """

    name: str
    summary: str
    target: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.name.split())


@dataclass(frozen=True, slots=True)
class Program:
    """A console script: its name, what it is for, and its table of commands."""

    name: str
    summary: str
    rows: tuple[Row, ...]
    examples: tuple[str, ...] = ()
    # Flags that take a value and may stand before the command. Kept here, as the walk must step over the
    # value before it can know which command is meant; a test compares it with the commands' own flags.
    leading_value_flags: frozenset[str] = frozenset({"config", "log-level", "output", "o"})

    def children(self, path: Sequence[str]) -> tuple[Row, ...]:
        """Return the rows directly below a group, in the order of the table."""
        return tuple(row for row in self.rows if row.words[:-1] == tuple(path))

    def row(self, path: Sequence[str]) -> Row | None:
        """Return the row of exactly this path, None when there is none."""
        return next((row for row in self.rows if row.words == tuple(path)), None)

    def commands(self) -> tuple[Row, ...]:
        """Return the rows that can be run, groups left out."""
        return tuple(row for row in self.rows if row.target)


@dataclass(frozen=True, slots=True)
class Walk:
    """Where the arguments lead: a command (`row` is set) or a group, and what is left for it."""

    path: tuple[str, ...]
    row: Row | None
    arguments: tuple[str, ...]


def is_flag(word: str) -> bool:
    """Tell whether an argument is a flag; a lone dash is a name by custom of standard input."""
    return word.startswith("-") and word != "-"


def flag_name(word: str) -> str:
    """Return the name of a flag, given with one dash or two, with or without `=value`."""
    name = word[2:] if word.startswith("--") else word[1:]
    return name.partition("=")[0]


def walk(program: Program, argv: Sequence[str]) -> Walk:
    """Follow the command words of the arguments; flags met on the way are left for the command."""
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
            return Walk(path, row, (*passed, *rest))
    return Walk(path, None, (*passed, *rest))


def _unknown(program: Program, path: tuple[str, ...], word: str) -> UsageError:
    names = [row.words[-1] for row in program.children(path)]
    here = " ".join((program.name, *path))
    return UsageError(
        f"unknown command {word!r}{near_miss(word, names)}, allowed is one of {', '.join(names)}; see {here} --help"
    )


def near_miss(word: str, known: Sequence[str]) -> str:
    """Return ` (did you mean …?)` for a word that is nearly a known one, else nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
