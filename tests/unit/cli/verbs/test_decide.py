"""`bigfleet decide`: tables by default, canonical JSON, nothing on standard output for a refused document."""

import gzip
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
        {
            "id": "i1",
            "state": "Idle",
            "host": {"provider": "p", "ref": "h1"},
            "resources": {"gpu": "8"},
        },
        {"id": "s1", "state": "Speculative", "resources": {"gpu": "8"}, "price_per_hour": 6},
    ],
    "needs": [{"cluster": "a", "priority": 1000, "total": {"gpu": "24"}, "unit": {"gpu": "8"}}],
}


def decide(*argv: object, stdin: bytes = b"") -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC), BytesIO(stdin))
    return dispatch(console, ["decide", *map(str, argv)]), out.getvalue(), err.getvalue()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(SNAPSHOT))
    return path


def test_a_table_shows_the_actions_and_the_verdict_on_every_need(saved: Path) -> None:
    code, out, err = decide(saved)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "ACTION     MACHINE  CLUSTER  NEED  GRACE_SECONDS  REASON",
        "Bootstrap  i1       a        0     —              phase1.idle",
        "Provision  s1       a        0     —              phase1.speculative",
        "",
        "NEED  CLUSTER  PRIORITY  MACHINES  DOMAIN  SHORT  VERDICT",
        "0     a        1000      2         —       gpu=8  PRIORITY_STARVED",
    ]


def test_json_is_the_same_to_the_byte_from_a_file_standard_input_and_gzip(
    saved: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "snapshot.json.gz"
    packed.write_bytes(gzip.compress(saved.read_bytes()))
    answers = {
        decide(saved, "-o", "json"),
        decide("-", "-o", "json", stdin=saved.read_bytes()),
        decide(packed, "-o", "json"),
    }
    assert len(answers) == 1
    code, out, _ = answers.pop()
    document = json.loads(out)
    assert code == 0
    assert [action["kind"] for action in document["actions"]] == ["Bootstrap", "Provision"]
    assert yaml.safe_load(decide(saved, "-o", "yaml")[1]) == document


def test_a_refused_document_is_reported_by_path_with_nothing_on_standard_output(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**SNAPSHOT, "machines": [{"id": "i1", "state": "Idle"}]}))
    code, out, err = decide(path, "-o", "json")
    assert (code, out) == (2, "")
    assert err.startswith("bigfleet: machines[0].host: found ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"version": 2}'])
def test_what_is_no_snapshot_is_refused_without_a_traceback(data: bytes) -> None:
    code, out, err = decide("-", stdin=data)
    assert (code, out) == (2, "")
    assert err.startswith("bigfleet: ")
    assert "Traceback" not in err


def test_a_missing_file_and_a_broken_archive_are_reported(tmp_path: Path) -> None:
    code, out, err = decide(tmp_path / "none.json")
    assert (code, out) == (1, "")
    assert "none.json: no such file or directory" in err
    broken = tmp_path / "x.gz"
    broken.write_bytes(b"not gzip")
    assert decide(broken)[0] == 2


def test_a_batch_answers_line_by_line_and_ends_with_2_when_a_line_was_refused(tmp_path: Path) -> None:
    line = json.dumps(SNAPSHOT)
    path = tmp_path / "many.jsonl"
    path.write_text(f"{line}\nnonsense\n{line}\n")
    code, out, err = decide("--batch", path, "-o", "json")
    first, second, third = out.splitlines()
    assert (code, err) == (2, "")
    assert first == third
    assert set(json.loads(second)) == {"error"}
    path.write_text(f"{line}\n")
    assert decide("--batch", path, "-o", "json")[0] == 0
    assert decide("--batch", path)[0] == 2


@pytest.mark.rule("packaging#given-files")
def test_a_document_is_read_up_to_the_limit_as_it_is_and_decompressed(saved: Path, tmp_path: Path) -> None:
    size = saved.stat().st_size
    assert decide(saved, f"--max-document={size}")[0] == 0
    code, out, err = decide(saved, f"--max-document={size - 1}")
    assert (code, out) == (2, "")
    assert (
        f"{saved}: found {size} bytes, allowed is at most {size - 1} bytes; --max-document allows more" in err
    )
    packed = tmp_path / "snapshot.json.gz"
    packed.write_bytes(gzip.compress(saved.read_bytes()[:100]) + gzip.compress(saved.read_bytes()[100:]))
    assert decide(packed, f"--max-document={size}")[0] == 0
    assert f"{packed}, decompressed: found more" in decide(packed, f"--max-document={size - 1}")[2]
    assert decide("-", f"--max-document={size}", stdin=saved.read_bytes())[0] == 0
    assert (
        "standard input: found more" in decide("-", f"--max-document={size - 1}", stdin=saved.read_bytes())[2]
    )
