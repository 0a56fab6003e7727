"""`bigfleet conformance` as a user meets it."""

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO, StringIO
from pathlib import Path

import pytest

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch

pytestmark = pytest.mark.integration


class Terminal(BytesIO):
    """Standard input with somebody at it."""

    def isatty(self) -> bool:
        return True


def conformance(*argv: str, stdin: BytesIO | None = None) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime.now(UTC), stdin or BytesIO())
    return dispatch(console, ["conformance", *argv]), out.getvalue(), err.getvalue()


def test_a_few_behaviours_pass_and_the_verdict_is_incomplete(provider: str, tmp_path: Path) -> None:
    out_dir = tmp_path / "deep" / "report"
    code, out, err = conformance("--target", provider, "--only", "A06,B303", "--yes", "--out", str(out_dir))
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith("ok    A06 ")
    assert lines[1].startswith("ok    B303 ")
    assert "2 of 2 passed (2 passed)" in out
    assert lines[-1].startswith(
        f"INCOMPLETE: {provider} as core, cloud, spot (required and left out by --only:"
    )
    report = json.loads((out_dir / "report.json").read_text())
    assert [result["status"] for result in report["results"]] == ["passed", "passed"]
    assert ET.parse(out_dir / "junit.xml").getroot().get("tests") == "2"  # noqa: S314  made by ourselves
    assert json.loads((out_dir / "badge.json").read_text())["message"] == "INCOMPLETE core, cloud, spot"
    assert "<h1><span>INCOMPLETE</span>" in (out_dir / "report.html").read_text()


@pytest.mark.parametrize(("form", "beginning"), [("json", "{"), ("junit", "<?xml")])
def test_other_forms_have_no_live_lines(provider: str, form: str, beginning: str) -> None:
    code, out, _ = conformance("--target", provider, "--only", "A06", "--yes", "-o", form)
    assert code == 1
    assert out.startswith(beginning)


def test_without_yes_and_without_a_person_it_refuses_before_it_dials() -> None:
    code, out, err = conformance("--target", "127.0.0.1:9")
    assert (code, out) == (2, "")
    assert err.startswith("bigfleet: --yes: missing, and there is no terminal to ask")


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 1), (b"n\n", 2), (b"", 2)])
def test_it_asks_before_the_first_change(provider: str, answer: bytes, code: int) -> None:
    found, out, err = conformance("--target", provider, "--only", "A06", stdin=Terminal(answer))
    assert found == code
    assert f"{provider} has 64 machines; this test will create, bind, drain and delete 64 of them" in out
    assert ("nothing was done" in err) == (code == 2)


def test_a_target_that_nobody_serves_is_a_runner_error() -> None:
    code, _, err = conformance("--target", "127.0.0.1:9", "--yes")
    assert code == 2
    assert err.startswith("bigfleet: no provider answers at 127.0.0.1:9: UNAVAILABLE")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--yes",), "--target: found nothing, allowed is host:port, or --start with a command"),
        (
            ("--target", "127.0.0.1:9", "--yes", "--profile", "core,gold"),
            "--profile: found 'core,gold', allowed",
        ),
        (("--target", "127.0.0.1:9", "--yes", "--profile", "core,bare-metal"), "one of the two"),
        (("--target", "127.0.0.1:9", "--yes", "--only", "C*"), "only: found 'C*'"),
        (("--target", "127.0.0.1:9", "--yes", "--start", "x"), "a command that has {port} in it"),
        (("--show", "B102"), "behaviour: found 'B102'"),
        (("--target", "127.0.0.1:9", "--yes", "--tls-cert", "x"), "all three TLS flags or none"),
    ],
)
def test_wrong_use_is_told_in_one_line(argv: Sequence[str], told: str) -> None:
    code, out, err = conformance(*argv)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


@pytest.mark.rule("providers#failure-report")
def test_a_failure_is_told_with_its_calls_and_the_command_that_repeats_it(broken_provider: str) -> None:
    code, out, _ = conformance("--target", broken_provider, "--only", "A1[78]", "--seed", "3", "--yes")
    assert code == 1
    assert "FAIL  A17" in out
    assert re.search(
        r"\n  replay of \(1,1\): found OK, operation 'op-\d+', due was FAILED_PRECONDITION\n", out
    )
    assert re.search(
        r"\n +\d+\. Create 'slot-\d+', token \(conformance-\w+-a17-a, 1, 1\) -> OK, operation 'op-", out
    )
    assert f"  repeat: bigfleet conformance --target {broken_provider} --seed 3 --only A18 --yes" in out
    assert out.splitlines()[-1].startswith(
        f"FAILED: {broken_provider} as core, cloud, spot (required and failed: A17"
    )


@pytest.mark.rule("providers#behaviour-ids")
def test_the_list_has_27_plus_93_behaviours_and_twelve_of_our_own() -> None:
    code, out, _ = conformance("--list")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 1 + 132 + 2
    assert lines[-1] == "27 baseline + 93 extension behaviours, and 12 additional ones"
    _, out, _ = conformance("--list", "-o", "json")
    assert len(json.loads(out)["behaviours"]) == 132


def test_the_steps_of_a_behaviour_are_shown() -> None:
    code, out, _ = conformance("--show", "b409")
    assert code == 0
    assert out.startswith(
        "B409 (core,cloud/extension): Sixteen Deletes at once are one operation.\n\n1. Walk a machine"
    )
    assert out.endswith("\nNeeds Delete to be offered.\n\nNot applicable to bare metal.\n")


def test_a_process_that_cannot_be_started_is_a_runner_error() -> None:
    command = f"{sys.executable} -c 'raise SystemExit(4)' {{port}}"
    code, _, err = conformance("--start", command, "--yes")
    assert code == 2
    assert "ended with exit code 4 at once" in err
