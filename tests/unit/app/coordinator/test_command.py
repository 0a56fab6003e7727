"""Flags of `bigfleet coordinator` that cannot work (`coordinator#flags`): one line, exit 2, nothing written."""

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch


def refused(*flags: str) -> str:
    """Run it with flags that cannot work; return the line it ends with."""
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime.now(UTC))
    assert dispatch(console, ["coordinator", *flags]) == 2
    assert (out.getvalue(), err.getvalue().count("\n")) == ("", 1)
    return err.getvalue()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--replicas", "3"], "--raft-secret-file: missing"),
        (["--replicas", "2", "--raft-secret-file", "s"], "--replicas: found 2, allowed is 1 or 3"),
        (["--join-addr", "c:7790", "--id", "node"], "--id: found 'node', allowed is an id that ends in -0"),
        (["--replicas", "3", "--raft-secret-file", "s", "--peers", "x"], "--peers: found 'x'"),
        (["--replicas", "3", "--raft-secret-file", "s"], "1 without --join-addr or --peers"),
        (["--raft-secret-file", "none"], "--raft-secret-file: "),
        (["--raft-secret-file", "short"], "found 31 bytes, allowed are at least 32"),
        (["--tls-cert", "x"], "allowed is all three TLS flags or none"),
        (["--rebalance"], "unknown flag --rebalance"),
        (["--snapshot-export-keep", "0"], "--snapshot-export-keep: found '0'"),
        (["--listen", "7790"], "--listen: found '7790'"),
        (["--data-dir", ""], "--data-dir: found '', allowed is the path of a directory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_flag_that_cannot_work_is_one_line_and_exit_2(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").write_bytes(b"x" * 32)
    (tmp_path / "short").write_bytes(b"x" * 31)
    said = refused(*flags)
    assert said.startswith("bigfleet: ")
    assert message in said
    assert not (tmp_path / "coord-data").exists()
