"""`bigfleet certs`, on a real directory."""

import json
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def certs(*argv: str | Path, now: datetime = NOW) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    code = dispatch(Console(PROGRAM, out, err, {}, lambda: now), ["certs", *map(str, argv)])
    return code, out.getvalue(), err.getvalue()


def shown(path: Path, *argv: str, now: datetime = NOW) -> dict[str, object]:
    code, out, err = certs("show", path, "-o", "json", *argv, now=now)
    assert (code, err) == (0, "")
    parsed = json.loads(out)
    assert isinstance(parsed, dict)
    return parsed


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    assert certs("init", tmp_path / "pki")[0] == 0
    return tmp_path / "pki"


@pytest.mark.rule("packaging#certs")
@pytest.mark.parametrize(
    ("role", "name", "uri"),
    [
        ("cluster", "prod-1", "bigfleet://cluster/prod-1"),
        ("shard", "shard-0", "bigfleet://shard/shard-0"),
        ("admin", "alice", "bigfleet://admin"),
        ("readonly", "grafana", "bigfleet://readonly"),
    ],
)
def test_a_certificate_of_each_role_has_its_one_identity(pki: Path, role: str, name: str, uri: str) -> None:
    code, out, err = certs(
        "issue", pki, "--role", role, "--name", name, "--dns", "a.example.org,b.example.org"
    )
    assert (code, err) == (0, "")
    assert out.startswith(f"issued {uri}, valid for 30 days, in {pki / name}: ")
    message = shown(pki / name)
    assert (message["role"], message["uris"], message["problems"]) == (role, [uri], [])
    assert message["dns_names"] == ["localhost", "a.example.org", "b.example.org"]
    assert message["not_after"] == "2026-12-16T12:00:00Z"


def test_the_files_are_named_as_secrets_mount_them_and_closed_to_others(pki: Path) -> None:
    certs("issue", pki, "--role", "shard", "--name", "shard-0")
    files = sorted((pki / "shard-0").iterdir())
    assert [file.name for file in files] == ["ca.crt", "tls.crt", "tls.key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("argv", [["init"], ["issue", "--role=shard", "--name=shard-0"]])
def test_nothing_is_overwritten(pki: Path, argv: Sequence[str]) -> None:
    certs("issue", pki, "--role", "shard", "--name", "shard-0")
    before = {path: path.read_bytes() for path in pki.rglob("*") if path.is_file()}
    code, out, err = certs(argv[0], pki, *argv[1:])
    assert (code, out) == (5, "")
    assert err.startswith("bigfleet: ")
    assert "exists already" in err
    assert {path: path.read_bytes() for path in pki.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["--role=shard", "--name=a/b"], 2, "A-Z a-z 0-9"),
        (
            ["--role=king", "--name=a"],
            2,
            "--role: found 'king', allowed is one of cluster, shard, admin, readonly",
        ),
        (
            ["--role=shard", "--name=a", "--days=0"],
            2,
            "--days: found '0', allowed is a whole number at least 1",
        ),
        (
            ["--role=shard", "--name=a", "--days=99999"],
            2,
            "days: found 99999, allowed is an end before that of the CA",
        ),
        (["--role=shard", "--name=a", "--dns=a b"], 2, "DNS names or IP addresses"),
        (["--role=shard"], 2, "--name: missing"),
    ],
)
def test_a_certificate_that_would_be_refused_is_not_issued(
    pki: Path, argv: Sequence[str], code: int, message: str
) -> None:
    found, out, err = certs("issue", pki, *argv)
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (pki / "a").exists()


def test_a_directory_without_an_authority_is_not_found(tmp_path: Path) -> None:
    code, _, err = certs("issue", tmp_path, "--role", "admin", "--name", "alice")
    assert code == 4
    assert str(tmp_path / "ca.crt") in err


def test_a_file_that_is_no_certificate_is_bad_input(tmp_path: Path) -> None:
    file = tmp_path / "x.pem"
    file.write_text("not a certificate")
    code, _, err = certs("show", file)
    assert (code, err) == (2, f"bigfleet: {file}: is not a PEM certificate\n")


def test_show_lists_what_is_wrong(pki: Path) -> None:
    certs("issue", pki, "--role", "shard", "--name", "shard-0", "--days", "1")
    assert shown(pki / "shard-0", now=NOW.replace(year=2027))["problems"] == ["expired"]


def test_show_prints_a_table_of_fields(pki: Path) -> None:
    code, out, _ = certs("show", pki / "ca.crt")
    assert code == 0
    assert "not_after:     2036-11-13T12:00:00Z\n" in out
    assert "role:          —\n" in out
    assert "is_ca:         true\n" in out
