import json
from datetime import UTC, datetime
from io import StringIO

import pytest
import yaml

from bigfleet.app import bigfleet, bigfleetctl
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.tree import CliProgram
from bigfleet.version import __version__


def version(program: CliProgram, *argv: str, **environ: str) -> str:
    out = StringIO()
    console = Console(program, out, StringIO(), environ, lambda: datetime.now(UTC))
    assert dispatch(console, ["version", *argv]) == 0
    return out.getvalue()


@pytest.mark.parametrize("program", [bigfleet.PROGRAM, bigfleetctl.PROGRAM], ids=lambda program: program.name)
def test_json_and_yaml_name_program_version_and_commit(program: CliProgram) -> None:
    parsed = json.loads(version(program, "-o", "json", BIGFLEET_COMMIT="abc123"))
    assert (parsed["program"], parsed["version"], parsed["commit"]) == (program.name, __version__, "abc123")
    assert yaml.safe_load(version(program, "--output=yaml", BIGFLEET_COMMIT="abc123")) == parsed


def test_a_build_that_was_not_told_its_commit_says_so() -> None:
    assert "commit:   unknown\n" in version(bigfleet.PROGRAM)


def test_the_verbs_of_bigfleetctl_share_one_prefix() -> None:
    assert "yaml" not in version(bigfleetctl.PROGRAM, BIGFLEETCTL_OUTPUT="json")
    assert json.loads(version(bigfleetctl.PROGRAM, BIGFLEETCTL_OUTPUT="json"))["program"] == "bigfleetctl"


def test_a_verb_leaves_a_variable_alone_that_only_another_verb_of_its_program_knows() -> None:
    out = StringIO()
    console = Console(
        bigfleetctl.PROGRAM, out, StringIO(), {"BIGFLEETCTL_OUTPUT": "json"}, lambda: datetime.now(UTC)
    )
    assert dispatch(console, ["completion", "bash"]) == 0
    assert "complete" in out.getvalue()
