"""What the scripts offer, without a shell; bash itself runs in tests/integration/cli."""

import pytest

from bigfleet.app import bigfleet, bigfleetctl
from bigfleet.cli.framework.surface import entries
from bigfleet.cli.framework.tree import CliProgram
from bigfleet.cli.verbs.completion import bash_script, fish_script, zsh_script


@pytest.mark.parametrize("program", [bigfleet.PROGRAM, bigfleetctl.PROGRAM], ids=lambda program: program.name)
def test_every_command_and_flag_is_in_every_script(program: CliProgram) -> None:
    bash, zsh, fish = bash_script(program), zsh_script(program), fish_script(program)
    for entry in entries(program):
        for script in (bash, zsh, fish):
            assert entry.row.words[-1] in script
        for option in entry.options:
            if not option.positional:
                assert f"--{option.flag}" in bash
                assert f"--{option.flag}" in zsh
                assert f"-l {option.flag} " in fish


def test_fish_texts_are_quoted(program: CliProgram) -> None:
    assert "-d 'per cycle; 0 = no cap'" in fish_script(program)
