"""Help pages that teach: what the command is for, each flag with default and variable, examples.

Must never: import pydantic on the way to a group's page; options are only passed in, never read off a class here.
Rules: packaging 1.2, rule 6.
"""

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from bigfleet.cli.framework.tree import Program, Row

if TYPE_CHECKING:  # both bring pydantic, which a group's page must not pay for
    from bigfleet.cli.framework.command import Command
    from bigfleet.cli.framework.options import Option
    from bigfleet.cli.framework.settings import Flags

_WIDTH = 100


def group_page(program: Program, path: Sequence[str]) -> str:
    """Return the help of a program or of a group of its commands."""
    here = program.row(path)
    rows = program.children(path)
    summary = here.summary if here else program.summary
    name = " ".join((program.name, *path))
    parts = [
        _prose(summary),
        f"Usage:\n  {name} COMMAND [flags]",
        "Commands:\n" + _columns((row.words[-1], row.summary) for row in rows),
        "Flags:\n"
        + _columns(
            [("-h, --help", "this page; for one command: its own"), ("--version", "print the version")]
        ),
    ]
    examples = () if path else program.examples
    return "\n\n".join([*parts, *_examples(examples)]) + "\n"


def command_page(program: Program, row: Row, command: "Command[Flags]", options: "Sequence[Option]") -> str:
    """Return the help of one command."""
    arguments = [option for option in options if option.positional]
    flags = [option for option in options if not option.positional]
    parts = [_prose(command.description), f"Usage:\n  {usage(program, row, options)}"]
    if arguments:
        parts.append("Arguments:\n" + "\n".join(map(_entry, arguments)))
    parts += [
        f"{group}:\n" + "\n".join(_entry(option) for option in flags if option.group == group)
        for group in dict.fromkeys(option.group for option in flags)
    ]
    parts.append(
        "Everywhere:\n" + _columns([("-h, --help", "this page"), ("--version", "print the version")])
    )
    return "\n\n".join([*parts, *_examples(command.examples)]) + "\n"


def usage(program: Program, row: Row, options: "Sequence[Option]") -> str:
    """Return the one-line form of a command: what must be given, then what may be."""
    words = [program.name, *row.words]
    for option in (option for option in options if option.positional):
        name = option.flag + ("..." if option.many else "")
        words.append(name if option.required else f"[{name}]")
    words += [spelling(option) for option in options if option.required and not option.positional]
    return " ".join([*words, "[flags]"])


def spelling(option: "Option") -> str:
    """Return a flag as it is typed, with the name of its value."""
    return f"--{option.flag} {option.metavar}" if option.takes_value else f"--{option.flag}"


def _entry(option: "Option") -> str:
    head = option.flag if option.positional else spelling(option)
    if option.cli.short:
        head = f"-{option.cli.short}, {head}"
    notes = []
    if option.required:
        notes.append("required")
    elif option.default:
        notes.append(f"default {option.default}")
    if option.variables:
        notes.append(f"environment {', '.join(option.variables)}")
    if option.cli.aliases:
        notes.append("also " + ", ".join(f"--{alias}" for alias in option.cli.aliases))
    text = option.help
    if option.takes_value and not option.choices:
        text += f": {option.allowed}"
    body = fill(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    tail = f"\n      [{'; '.join(notes)}]" if notes else ""
    return f"  {head}\n{body}{tail}"


def _columns(rows: Iterable[tuple[str, str]]) -> str:
    pairs = list(rows)
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in pairs)


def _prose(text: str) -> str:
    return "\n\n".join(fill(" ".join(paragraph.split()), _WIDTH) for paragraph in text.strip().split("\n\n"))


def _examples(examples: Sequence[str]) -> list[str]:
    return ["Examples:\n" + "\n".join(f"  {line}" for line in examples)] if examples else []
