"""`bigfleet what-if`: the difference in every form, silence on standard output for what is refused.

What the tables look like is in tests/golden/explain.
"""

import json
from datetime import UTC, datetime
from io import BytesIO, StringIO
from pathlib import Path

import pytest
import yaml

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch

SNAPSHOT = {
    "version": 1,
    "now": 1000,
    "machines": [
        {"id": "s1", "state": "Speculative", "resources": {"gpu": "8"}, "price_per_hour": 6, "zone": "za"},
    ],
    "needs": [{"cluster": "a", "priority": 1000, "total": {"gpu": "24"}, "unit": {"gpu": "8"}}],
}
MORE = "edits:\n- {edit: add_machines, count: 2, like: s1}\n"


def run(*argv: object, stdin: bytes = b"") -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC), BytesIO(stdin))
    return dispatch(console, list(map(str, argv))), out.getvalue(), err.getvalue()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(SNAPSHOT))
    return path


@pytest.fixture
def more(tmp_path: Path) -> Path:
    path = tmp_path / "more.yaml"
    path.write_text(MORE)
    return path


def test_json_and_yaml_say_the_same_and_edits_may_come_from_standard_input(saved: Path, more: Path) -> None:
    code, out, err = run("what-if", saved, "--edit", more, "-o", "json")
    assert (code, err) == (0, "")
    written = json.loads(out)
    assert written["needs"][0]["change"] == "becomes satisfied"
    assert written["cost_per_hour"]["total"] == {"before": 6.0, "after": 18.0}
    assert run("what-if", saved, "--edit", "-", "-o", "json", stdin=MORE.encode())[1] == out
    assert yaml.safe_load(run("what-if", saved, "--edit", more, "-o", "yaml")[1]) == written


def test_edits_of_several_files_are_applied_in_order(saved: Path, more: Path, tmp_path: Path) -> None:
    lost = tmp_path / "lost.json"
    lost.write_text('{"edits": [{"edit": "lose_zone", "zone": "za"}]}')
    code, out, _ = run("what-if", saved, "--edit", more, "--edit", lost, "-o", "json")
    assert (code, json.loads(out)["needs"][0]["change"]) == (0, "shorter")
    assert run("what-if", saved, "--edit", lost, "--edit", more)[0] == 2


def test_without_an_edit_there_is_no_difference(saved: Path) -> None:
    told = "no edit was given, so nothing differs; --edit FILE gives some\n"
    assert run("what-if", saved) == (0, told, "")


def test_the_edited_snapshot_is_printed_for_other_commands(saved: Path, more: Path) -> None:
    code, out, _ = run("what-if", saved, "--edit", more, "--print-snapshot")
    assert code == 0
    decided = run("decide", "-", "-o", "json", stdin=out.encode())[1]
    assert json.loads(decided)["counts"]["actions"]["Provision"] == 3


def test_until_quiet_shows_where_both_worlds_end_and_how_long_that_takes(saved: Path, more: Path) -> None:
    code, out, _ = run("what-if", saved, "--edit", more, "--until-quiet", "-o", "json")
    written = json.loads(out)
    assert (code, written["horizon"]["cycles"]) == (0, {"before": 2, "after": 2})
    assert {row["after"]["state"] for row in written["machines"]} == {"Configured"}
    _, out, _ = run("what-if", saved, "--edit", more, "--create-time", "3m")
    assert out.splitlines()[1] == "before quiet after 3 cycles, 180 s; after quiet after 3 cycles, 180 s"
    world = run("what-if", saved, "--edit", more, "--until-quiet", "--print-snapshot")[1]
    message = run("explain", "-", "--machine", "added-0000", stdin=world.encode())[1]
    assert message.splitlines()[1] == "Configured; kept for need 0 of a."


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ("edits: [{edit: lose_zone, zone: zz}]", 'edits[0].zone: found "zz"'),
        ("edits: [{edit: lose_zon}]", 'edits[0].edit: found "lose_zon"'),
        ("edits: [{edit: pass_time, seconds: 1, foo: 2}]", "edits[0].foo: found an unknown field"),
        ("edits: [{edit: remove_machines, where: {zone: zz}}]", "edits[0].where: found no machine"),
    ],
)
def test_a_refused_edit_is_reported_by_path_with_nothing_on_standard_output(
    saved: Path, tmp_path: Path, edits: str, message: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(edits)
    code, out, err = run("what-if", saved, "--edit", path)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_file_of_edits_that_cannot_be_read_is_named(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("edits: [")
    code, out, err = run("what-if", saved, "--edit", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"bigfleet: {path}: document: found broken YAML")
    code, out, err = run("what-if", saved, "--edit", tmp_path / "none.yaml")
    assert (code, out) == (1, "")
    assert "none.yaml: no such file or directory" in err


def test_standard_input_is_good_for_one_file() -> None:
    code, out, err = run("what-if", "-", "--edit", "-")
    assert (code, out) == (2, "")
    assert "standard input for one file only" in err


def test_several_needs_are_in_the_plural(saved: Path, more: Path) -> None:
    needs = [
        {"cluster": name, "priority": 1, "total": {"gpu": "8"}, "unit": {"gpu": "8"}}
        for name in ("a", "b", "c")
    ]
    saved.write_text(json.dumps({**SNAPSHOT, "needs": needs}))
    assert run("what-if", saved, "--edit", more)[1].startswith("2 needs become satisfied, ")
