"""`bigfleet explain`: every form of output, edits that what-if takes, one line for what is refused.

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
        {"id": "s2" + "x" * 200, "state": "Speculative", "resources": {"cpu": "8"}, "labels": {"rack": "r1"}},
    ],
    "needs": [
        {"cluster": "a", "priority": 1000, "total": {"gpu": "24"}, "unit": {"gpu": "8"}},
        {
            "cluster": "train",
            "group": "g",
            "requirements": [{"key": "rack", "operator": "Same"}],
            "total": {"cpu": "16"},
            "unit": {"cpu": "8"},
        },
    ],
    "parked": [{"cluster": "train", "group": "g", "fingerprint": "p=0|ipb=1|rpb=1|reqs=rack:5:;|spr="}],
}


def run(*argv: object, stdin: bytes = b"") -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC), BytesIO(stdin))
    return dispatch(console, list(map(str, argv))), out.getvalue(), err.getvalue()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(SNAPSHOT))
    return path


def test_json_and_yaml_say_the_same_and_the_same_every_time(saved: Path) -> None:
    code, out, err = run("explain", saved, "--need", "0", "-o", "json")
    assert (code, err) == (0, "")
    written = json.loads(out)
    assert written["sentence"] == (
        "Short gpu=16 of gpu=24: 1 wanted; until the wanted machines come gpu=24 is missing; nothing else could serve it."
    )
    assert written["changes"]
    assert run("explain", saved, "--need", "a", "-o", "json")[1] == out
    assert yaml.safe_load(run("explain", saved, "--need", "0", "-o", "yaml")[1]) == written


@pytest.mark.parametrize("need", ["0", "train/g"])
def test_every_change_it_prints_is_an_edit_that_what_if_takes(saved: Path, tmp_path: Path, need: str) -> None:
    text = run("explain", saved, "--need", need, "-o", "yaml")[1]
    changes = yaml.safe_load(text)["changes"]
    assert changes
    assert "&id" not in text  # aliases are not understood in edits
    for change in changes:
        edits = tmp_path / "edits.yaml"
        edits.write_text(yaml.safe_dump({"edits": change["edits"]}))
        code, out, err = run("what-if", saved, "--edit", edits, "-o", "json")
        assert (code, err) == (0, "")
        assert "becomes satisfied" in out


def test_quick_leaves_the_changes_out(saved: Path) -> None:
    assert json.loads(run("explain", saved, "--need", "0", "--quick", "-o", "json")[1])["changes"] == []
    assert "WHAT WOULD CHANGE IT" not in run("explain", saved, "--need", "0", "--quick")[1]
    assert "WHAT WOULD CHANGE IT" in run("explain", saved, "--need", "0")[1]


def test_edits_are_applied_before_the_question_is_asked(saved: Path, tmp_path: Path) -> None:
    edits = tmp_path / "edits.yaml"
    edits.write_text("edits: [{edit: add_machines, count: 2, like: s1}]")
    assert (
        "Covered once the wanted machines come: gpu=24 of gpu=24 missing"
        in run("explain", saved, "--need", "0", "--edit", edits)[1]
    )
    assert (
        "to be ordered for need 0 of a"
        in run("explain", saved, "--machine", "added-0001", "--edit", edits)[1]
    )


def test_a_long_name_is_cut_in_a_table_and_whole_in_a_wide_one(saved: Path) -> None:
    narrow, wide = (run("explain", saved, "--need", "train", "-o", form)[1] for form in ("table", "wide"))
    assert max(map(len, narrow.splitlines())) < 200
    assert "x" * 200 in wide
    assert '"edit": "unpark"' in wide


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--need, --machine: found neither, allowed is one of the two"),
        (["--need", "0", "--machine", "s1"], "--need, --machine: found both"),
        (["--need", "2"], "--need: found '2', allowed is a number from 0 to 1"),
        (["--need", "9" * 5000], "--need: found '999"),
        (["--need", "b"], "--need: found 'b', allowed is the number of a need, or one of a, train/g"),
        (["--need", "train/x"], "--need: found 'train/x'"),
        (["--machine", "s"], "--machine: found 's', allowed is the id of a machine: s1, s2"),
        (["--machine", "nobody"], "--machine: found 'nobody'"),
    ],
)
def test_what_is_refused_is_reported_in_one_line_with_what_is_allowed(
    saved: Path, argv: list[str], message: str
) -> None:
    code, out, err = run("explain", saved, *argv)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_an_empty_document_has_nothing_to_explain() -> None:
    empty = b'{"version": 1, "now": 0, "machines": [], "needs": []}'
    assert "as there is no need" in run("explain", "-", "--need", "0", stdin=empty)[2]
    assert "as there is no need" in run("explain", "-", "--need", "x", stdin=empty)[2]
    assert "as there is no machine" in run("explain", "-", "--machine", "x", stdin=empty)[2]
