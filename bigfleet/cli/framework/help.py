"""Help pages: what the command does, each flag with its default and variable, examples.

Must never: import pydantic, which the page of a group does not need; the caller passes the options in.
Rules: `packaging#help`.
"""

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from bigfleet.cli.framework.tree import CliProgram, CommandRow

if TYPE_CHECKING:  # these import pydantic, which is too slow for the page of a group
    from bigfleet.cli.framework.command import CliCommand
    from bigfleet.cli.framework.options import Option
    from bigfleet.cli.framework.settings import Flags

_WIDTH = 100


def group_page(program: CliProgram, path: Sequence[str]) -> str:
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
            [("-h, --help", "help for the program or for one command"), ("--version", "print the version")]
        ),
    ]
    examples = () if path else program.examples
    return "\n\n".join([*parts, *_examples(examples)]) + "\n"


def command_page(
    program: CliProgram, row: CommandRow, command: "CliCommand[Flags]", options: "Sequence[Option]"
) -> str:
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
        "Always:\n" + _columns([("-h, --help", "print this page"), ("--version", "print the version")])
    )
    return "\n\n".join([*parts, *_examples(command.examples)]) + "\n"


def usage(program: CliProgram, row: CommandRow, options: "Sequence[Option]") -> str:
    """Return the usage line of a command, required arguments first."""
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
