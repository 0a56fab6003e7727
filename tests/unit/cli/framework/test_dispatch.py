"""How a program ends: one line, one exit code, and help on every level."""

from collections.abc import Callable
from io import StringIO

import pytest

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.tree import CliProgram
from bigfleet.version import __version__

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    "argv",
    [
        ["-h"],
        ["--help"],
        ["-help"],
        ["tools", "-h"],
        ["serve", "-h"],
        ["tools", "fail", "--help"],
        ["help"],
        ["help", "serve"],
        ["help", "tools", "fail"],
    ],
)
def test_help_on_any_level_goes_to_standard_output_and_exits_0(run: Run, argv: list[str]) -> None:
    code, out, err = run(*argv)
    assert (code, err) == (0, "")
    assert "Usage:" in out


@pytest.mark.parametrize(
    "argv", [["--version"], ["tools", "--version"], ["serve", "--version"], ["needy", "-version"]]
)
def test_version_on_any_level_names_program_and_version(run: Run, argv: list[str]) -> None:
    assert run(*argv) == (0, f"sample {__version__}\n", "")


def test_help_of_a_command_teaches_default_variable_meaning_and_example(run: Run) -> None:
    _, out, _ = run("serve", "--help")
    assert "Serve something." in out
    assert "  --cycle-interval DURATION\n      time between cycles: a duration such as" in out
    assert "[default 10s; environment BIGFLEET_SERVE_CYCLE_INTERVAL]" in out
    assert "-o, --output table|wide|json|yaml" in out
    assert "[default node-1; environment BIGFLEET_SERVE_NODE_ID; also --id]" in out
    assert (
        out.index("\nFlags:")
        < out.index("\nProcess flags:")
        < out.index("\nTLS flags:")
        < out.index("\nCommon flags:")
    )
    assert out.endswith("Examples:\n  sample serve --dry-run\n")


def test_help_of_a_group_lists_its_commands(run: Run) -> None:
    assert "  fail  fail in some way\n" in run("tools", "--help")[1]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "a command is missing, allowed is one of serve, needy, tools; see sample --help"),
        (["tools"], "a command is missing, allowed is one of fail; see sample tools --help"),
        (["srve"], "unknown command 'srve' (did you mean serve?), allowed is one of serve, needy, tools"),
        (["tools", "fial"], "unknown command 'fial' (did you mean fail?), allowed is one of fail"),
        (["--dry-run"], "unknown flag --dry-run before a command"),
    ],
)
def test_what_leads_to_no_command_is_exit_2_with_a_way_out(run: Run, argv: list[str], message: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"sample: {message}")
    assert err.count("\n") == 1


def test_common_flags_may_come_before_the_command(run: Run) -> None:
    code, out, _ = run("--output", "json", "--log-level=debug", "serve", "--dry-run")
    assert code == 0
    assert '"dry_run": "True"' in out


def test_a_defect_is_one_line_and_no_traceback(run: Run) -> None:
    code, out, err = run("tools", "fail", "defect")
    assert (code, out) == (1, "")
    assert (
        err == "sample: internal error: ZeroDivisionError: division by zero; --log-level debug shows where\n"
    )


def test_debug_shows_the_traceback_of_a_defect(run: Run) -> None:
    code, _, err = run("tools", "fail", "defect", "--log-level", "debug")
    assert code == 1
    assert "Traceback (most recent call last)" in err
    assert err.endswith("sample: internal error: ZeroDivisionError: division by zero\n")


def test_a_reader_that_went_away_is_no_failure(run: Run) -> None:
    assert run("tools", "fail", "pipe") == (0, "", "")


def test_a_refused_file_is_reported_with_its_name(run: Run) -> None:
    assert run("tools", "fail", "disk") == (1, "", "sample: /data: Permission denied\n")


def test_an_interrupted_command_does_not_claim_success(run: Run) -> None:
    assert run("tools", "fail", "interrupt") == (1, "", "sample: interrupted before it had finished\n")


def test_words_after_a_double_dash_are_never_flags(run: Run) -> None:
    code, _, err = run("tools", "fail", "--", "--version")
    assert code == 1
    assert "KeyError: '--version'" in err


def test_an_argument_too_many_is_refused(run: Run) -> None:
    code, _, err = run("tools", "fail", "defect", "again")
    assert code == 2
    assert "unexpected argument 'again', allowed is HOW" in err


def test_a_failing_write_of_the_last_buffer_is_noticed(program: CliProgram) -> None:
    class Closed(StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    console = Console(program, Closed(), StringIO(), {}, lambda: pytest.fail("no clock needed"))
    assert dispatch(console, ["--version"]) == 0
