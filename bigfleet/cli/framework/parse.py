"""Splits arguments into raw texts by option, as Go's flag package does.

Why: scripts written for the original pass `-flag`, `--flag`, `--flag=value` and `--bool=false`.
Must never: interpret a value; the settings class does.
Rules: `packaging#go-values`, `packaging#help`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.options import Option, by_name
from bigfleet.cli.framework.tree import flag_name, is_flag, near_miss


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The texts from the command line by field, and whether help was asked for."""

    texts: dict[str, list[str]]
    help: bool


def parse(options: Sequence[Option], argv: Sequence[str]) -> ParsedArguments:
    """Return the arguments by option; raises UsageError for the first one that belongs to no option."""
    known = by_name(options)
    texts: dict[str, list[str]] = {}
    plain: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            plain += rest
            break
        if not is_flag(word):
            plain.append(word)
            continue
        name = flag_name(word)
        if name in ("h", "help"):
            return ParsedArguments({}, help=True)
        if name not in known:
            near = near_miss(f"--{name}", [f"--{known_name}" for known_name in known if len(known_name) > 1])
            raise UsageError(f"unknown flag --{name}{near}")
        option = known[name]
        texts.setdefault(option.field, []).append(_value(option, word, rest, known))
    _assign_plain(options, plain, texts)
    return ParsedArguments(texts, help=False)


def _value(option: Option, word: str, rest: list[str], known: dict[str, Option]) -> str:
    _, equals, value = word.partition("=")
    if equals:
        return value
    if not option.takes_value:
        return "true"
    # Go would take a following flag as the value, which is never intended.
    if not rest or (rest[0].startswith("--") and flag_name(rest[0]) in known):
        raise UsageError(f"{option.label}: found nothing, allowed is {option.allowed}")
    return rest.pop(0)


def _assign_plain(options: Sequence[Option], plain: list[str], texts: dict[str, list[str]]) -> None:
    left = list(plain)
    for option in (option for option in options if option.positional):
        if option.many:
            taken, left = left, []
        else:
            taken, left = left[:1], left[1:]
        if taken:
            texts[option.field] = taken
    if left:
        allowed = ", ".join(option.flag for option in options if option.positional) or "flags only"
        raise UsageError(f"unexpected argument {left[0]!r}, allowed is {allowed}")
