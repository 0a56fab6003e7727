"""`bigfleet all-in-one` as a process: what a newcomer sees.

Rules: `packaging#all-in-one`, `shard#all-in-one`, `dashboard#first-look`.
"""

import http.client
import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_ports
from tests.support.program import RunningProgram

pytestmark = pytest.mark.integration


@contextmanager
def all_in_one(log: Path, *flags: str) -> Iterator[RunningProgram]:
    shard, coordinator, raft = free_ports(3)
    with RunningProgram(
        "bigfleet",
        "all-in-one",
        f"--shard-listen=127.0.0.1:{shard}",
        f"--coordinator-listen=127.0.0.1:{coordinator}",
        f"--raft-bind=127.0.0.1:{raft}",
        "--shard-metrics-addr=0",
        "--coordinator-metrics-addr=0",
        "--dashboard-addr=127.0.0.1:0",
        "--cycle-interval=1s",
        *flags,
        log=log,
        environ={},
    ) as program:
        yield program


def dashboard(program: RunningProgram, path: str) -> Any:
    """Ask the dashboard, at the address that the program printed; nothing while a source of it is not there yet."""
    (port,) = program.wait(
        "it tells where the dashboard is",
        lambda: re.findall(r"dashboard +http://127.0.0.1:(\d+)/", program.text()),
    )
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 503:
            return {}
        assert answer.status == 200, (path, answer.status, body)
        return json.loads(body) if path.startswith("/api") else body.decode()
    finally:
        connection.close()


def look(log: Path, *flags: str) -> tuple[int, str]:
    """What a command says, and with which code it ends."""
    with RunningProgram("bigfleet", *flags, log=log, environ={}) as program:
        return program.ended(), log.read_text()


def works(program: RunningProgram) -> bool:
    """Whether the dashboard counts machines that serve."""
    states = dashboard(program, "/api/v1/x/status")["machinesByState"] or {}
    return bool(states.get("Configured", 0))


@pytest.mark.rule("dashboard#first-look")
def test_a_newcomer_sees_a_fleet_that_lives_and_outlives_a_kill(tmp_path: Path) -> None:
    """One fleet from its first line to its last: what is printed, served and answered, a kill -9, a second start."""
    data = f"--data-dir={tmp_path / 'fleet'}"
    with all_in_one(tmp_path / "first", data) as program:
        program.wait("machines join", lambda: "joined web" in program.text())
        program.wait("the dashboard counts them", lambda: works(program))
        message = program.text()
        for words in (
            "shard        127.0.0.1:",
            "coordinator  127.0.0.1:",
            "stop         Ctrl-C",
            "bigfleet explain --shard",
        ):
            assert words in message
        program.wait("the shard has registered", lambda: dashboard(program, "/api/v1/topology").get("shards"))
        program.wait(
            "its report is there", lambda: dashboard(program, "/api/v1/shard-reports").get("reports")
        )
        program.wait(
            "metrics are read", lambda: dashboard(program, "/api/v1/fleet/overview")["machines"] == 96
        )
        needs = dashboard(program, "/api/v1/needs?shard=shard-0")["needs"]
        assert {row["clusterId"] for row in needs} <= {"web", "train", "batch"}
        assert "Fleet" in dashboard(program, "/")
        assert program.end(signal.SIGKILL) == -signal.SIGKILL
        assert "Traceback" not in program.text()
    with all_in_one(tmp_path / "second", data) as program:
        # Machines configured by the first process serve on before the second has decided anything.
        program.wait("the fleet is back", lambda: works(program))
        rows = program.wait(
            "the registry is back", lambda: dashboard(program, "/api/v1/topology").get("shards")
        )
        assert [row["shardId"] for row in rows] == ["shard-0"]
        status = dashboard(program, "/api/v1/x/machines?shard=shard-0&state=Configured")
        assert all(row["cluster"] in {"web", "train", "batch"} for row in status["rows"])
        (address,) = program.wait(
            "it tells", lambda: re.findall(r"(?m)^shard +(127.0.0.1:\d+)", program.text())
        )
        code, text = look(tmp_path / "status", "status", "--shard", address)
        # A need of the demo fleet may be short or waiting at this moment, and the first line says so.
        healthy = re.match(
            r"(All \d+ needs covered|\d+ of \d+ needs covered, \d+ waits? for machines)$", text, re.MULTILINE
        )
        assert (code, "ready" in text, "Speculative" in text) == (0 if healthy else 1, True, True)
        assert re.search(r"(?m)^web +connected", text)
        code, text = look(tmp_path / "watch", "watch", "--shard", address, "--cycles", "2", "-o", "json")
        numbers = [int(json.loads(line)["cycle"]["number"]) for line in text.splitlines()]
        assert code == 0
        assert numbers[1] > numbers[0] > 0
        assert program.end(signal.SIGINT) == 0
        assert program.text().rstrip().endswith("stopped")
        assert "Traceback" not in program.text()
        code, text = look(tmp_path / "gone", "status", "--shard", address)
        assert (code, "cannot be reached" in text, text.count("\n")) == (7, True, 1)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("clusters: [", "--scenario: "),
        ("pools: []\nclusters: {web: {rows: [{name: a}]}}", "clusters.web.rows[0].need: found nothing"),
    ],
)
def test_a_bad_scenario_is_one_line_and_exit_2(tmp_path: Path, scenario: str, words: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(scenario)
    with all_in_one(tmp_path / "log", f"--scenario={path}") as program:
        assert program.ended() == 2
        assert words in program.text()
        assert program.text().count("\n") == 1


@pytest.mark.rule("packaging#exit-codes")
def test_a_taken_port_is_one_line_and_exit_1(tmp_path: Path) -> None:
    with all_in_one(tmp_path / "first") as first:
        (port,) = first.wait("it listens", lambda: re.findall(r"(?m)^shard +127.0.0.1:(\d+)", first.text()))
        first.wait("it serves", lambda: "is connected" in first.text())
        with all_in_one(tmp_path / "second", f"--shard-listen=127.0.0.1:{port}") as second:
            assert second.ended() == 1
            assert f"cannot listen on 127.0.0.1:{port}" in second.text()
            assert "Traceback" not in second.text()
