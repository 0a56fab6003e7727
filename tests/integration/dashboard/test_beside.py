"""`--dashboard-addr`: a dashboard beside a shard, which neither ends nor delays it (`dashboard#process`, ADR-0145)."""

import http.client
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from bigfleet.app.bigfleet import main
from tests.support.ports import free_ports
from tests.support.program import RunningProgram

pytestmark = pytest.mark.integration


def ask(
    port: int, path: str
) -> dict[str, Any]:  # Any: a JSON value; empty while the dashboard does not answer
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        reply: dict[str, Any] = json.loads(connection.getresponse().read())
        return reply
    except OSError:
        return {}
    finally:
        connection.close()


@pytest.mark.rule("dashboard#ten-browsers")
def test_it_comes_and_goes_with_its_shard_and_its_end_is_not_the_shards(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    flags = (
        "--listen=127.0.0.1:0",
        "--metrics-addr=127.0.0.1:0",
        f"--data-dir={tmp_path / 'data'}",
        "--seed-machines=20",
    )
    with RunningProgram(
        "bigfleet", "shard", *flags, f"--dashboard-addr=127.0.0.1:{port}", "--cycle-interval=500ms",
        log=tmp_path / "log", environ={},
    ) as program:  # fmt: skip
        reply = program.wait("it shows the fleet", lambda: ask(port, "/api/v1/x/status").get("machines"))
        assert reply is not None
        assert reply > 20
        assert ask(port, "/api/v1/config")["prometheusWired"] is True
        (started,) = program.lines("dashboard_started")
        os.kill(started["pid"], signal.SIGKILL)
        program.wait("its end is logged", lambda: program.lines("dashboard_ended"))
        assert program.http("/healthz")[0] == 200
        assert program.end() == 0


def test_it_ends_with_a_shard_that_is_killed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    flags = ("--listen=127.0.0.1:0", "--metrics-addr=0", f"--data-dir={tmp_path / 'data'}")
    with RunningProgram(
        "bigfleet", "shard", *flags, f"--dashboard-addr=127.0.0.1:{port}", log=tmp_path / "log", environ={}
    ) as program:
        program.wait("it answers", lambda: ask(port, "/api/v1/health"))
        program.kill()
        end = time.monotonic() + 60
        while ask(port, "/api/v1/health"):
            assert time.monotonic() < end, "the dashboard outlived its shard"


def test_under_tls_it_is_refused_with_what_to_do_instead(capsys: pytest.CaptureFixture[str]) -> None:
    tls = ("--tls-cert=a", "--tls-key=b", "--tls-ca=c", "--dashboard-addr=127.0.0.1:0")
    for process in ("shard", "coordinator"):
        assert main([process, *tls]) == 2
        assert "run bigfleet dashboard with a certificate of the role readonly" in capsys.readouterr().err
