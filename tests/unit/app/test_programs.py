"""The command tables: every row leads somewhere, and no two commands get in each other's way."""

import pytest

from bigfleet.app import bigfleet, bigfleetctl
from bigfleet.cli.bigfleetctl.settings import CtlFlags
from bigfleet.cli.framework.options import options_of
from bigfleet.cli.framework.settings import Flags, OutputFlags
from bigfleet.cli.framework.surface import entries
from bigfleet.cli.framework.tree import CliProgram

PROGRAMS = [bigfleet.PROGRAM, bigfleetctl.PROGRAM]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_row_has_a_group_above_it_and_a_text_of_its_own(program: CliProgram) -> None:
    assert len({row.name for row in program.rows}) == len(program.rows)
    for row in program.rows:
        assert row.summary
        if len(row.words) > 1:
            group = program.row(row.words[:-1])
            assert group is not None
            assert not group.target


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_command_has_help_examples_and_described_flags(program: CliProgram) -> None:
    for entry in entries(program):
        assert entry.command.description
        assert entry.command.examples
        assert all(example.startswith((program.name, "source")) for example in entry.command.examples)
        assert all(option.help for option in entry.options)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_command_reads_variables_under_the_prefix_of_its_path(program: CliProgram) -> None:
    for entry in entries(program):
        words = ["BIGFLEETCTL"] if program.name == "bigfleetctl" else ["BIGFLEET", *entry.row.words]
        prefix = "_".join(word.upper().replace("-", "_") for word in words) + "_"
        assert entry.command.settings.model_config.get("env_prefix") == prefix


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_walk_knows_which_flags_before_a_command_take_a_value(program: CliProgram) -> None:
    everywhere = (Flags, CtlFlags) if program is bigfleetctl.PROGRAM else (Flags, OutputFlags)
    common = [option for settings in everywhere for option in options_of(settings)]
    assert program.leading_value_flags == {
        name for option in common if option.takes_value for name in option.names
    }


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_no_flag_is_given_twice_in_a_command(program: CliProgram) -> None:
    for entry in entries(program):
        names = [name for option in entry.options for name in option.names]
        assert len(names) == len(set(names))
        assert not {"h", "help", "version"} & set(names)
