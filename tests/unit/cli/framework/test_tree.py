"""The walk from arguments to a command."""

import pytest

from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.tree import CliProgram, CommandRow, walk

PROGRAM = CliProgram(
    "p",
    "",
    (
        CommandRow("shards", "group"),
        CommandRow("shards list", "", "m:LIST"),
        CommandRow("list-shards", "", "m:LIST"),
        CommandRow("status", "", "m:S"),
    ),
)


@pytest.mark.parametrize(
    ("argv", "path", "left"),
    [
        (["status"], ("status",), ()),
        (["shards", "list", "--x", "y"], ("shards", "list"), ("--x", "y")),
        (
            ["-o", "json", "shards", "--no-color", "list", "a"],
            ("shards", "list"),
            ("-o", "json", "--no-color", "a"),
        ),
        (["--output=json", "list-shards"], ("list-shards",), ("--output=json",)),
        (["status", "shards"], ("status",), ("shards",)),
    ],
)
def test_flags_on_the_way_are_left_for_the_command(
    argv: list[str], path: tuple[str, ...], left: tuple[str, ...]
) -> None:
    found = walk(PROGRAM, argv)
    assert (found.path, found.arguments) == (path, left)
    assert found.row is not None


def test_a_verb_and_its_noun_form_are_the_same_command() -> None:
    verb, noun = walk(PROGRAM, ["list-shards"]).row, walk(PROGRAM, ["shards", "list"]).row
    assert verb is not None
    assert noun is not None
    assert verb.target == noun.target


def test_a_group_alone_leads_to_no_command() -> None:
    assert walk(PROGRAM, ["shards"]).row is None


def test_a_word_that_is_no_command_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown command 'lst' \(did you mean list\?\)"):
        walk(PROGRAM, ["shards", "lst"])
