"""The `bash` blocks of the pages are typed into one shell, in their order, against real processes (`packaging#pages-run`).

Nothing is changed but the ports, as other processes may hold those of the pages.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.shell_blocks import DOCS, blocks, commands
from tests.support.coordinator.processes import settled_port

pytestmark = pytest.mark.integration

PATIENCE_S = 300
CONTROL = 9001
# Which flag has which port without being told; a page that names no address means these.
DEFAULTS = {
    "BIGFLEET_SHARD_LISTEN": 7780,
    "BIGFLEET_SHARD_METRICS_ADDR": 8780,
    "BIGFLEET_COORDINATOR_LISTEN": 7790,
    "BIGFLEET_COORDINATOR_RAFT_BIND": 7791,
    "BIGFLEET_COORDINATOR_METRICS_ADDR": 8790,
    "BIGFLEET_ALL_IN_ONE_SHARD_LISTEN": 7780,
    "BIGFLEET_ALL_IN_ONE_COORDINATOR_LISTEN": 7790,
    "BIGFLEET_ALL_IN_ONE_RAFT_BIND": 7791,
    "BIGFLEET_ALL_IN_ONE_SHARD_METRICS_ADDR": 8780,
    "BIGFLEET_ALL_IN_ONE_COORDINATOR_METRICS_ADDR": 8790,
    "BIGFLEET_ALL_IN_ONE_DASHBOARD_ADDR": 8760,
    "BIGFLEETCTL_COORDINATOR": 7790,
}


SERVERS = {
    # Servers that the pages start on this machine without any other; those with another one's name cannot run here.
    "shard.md": ("bigfleet shard --seed-machines 100 --local-bootstrap",),
    "dashboard.md": (
        "bigfleet shard --seed-machines 100 --dashboard-addr 127.0.0.1:8760",
        "bigfleet dashboard --shard-addr 127.0.0.1:7780",
    ),
    "fake-provider.md": (
        "bigfleet-fake-provider --inventory pools.yaml --control-addr 127.0.0.1:9001 --state ./state",
        "bigfleet-fake-provider --catalog realistic --idle 1000 --speculative 15000 --configured-per-cluster 250 --clusters 20",
        "bigfleet-fault-provider --seed-count 64 --transition-timeout 2s",
    ),
}
ANY_PORT = (
    *("BIGFLEET_SHARD_LISTEN", "BIGFLEET_SHARD_METRICS_ADDR", "BIGFLEET_DASHBOARD_LISTEN"),
    *(f"BIGFLEET_{kind}_PROVIDER_{flag}" for kind in ("FAKE", "FAULT") for flag in ("ADDR", "METRICS_ADDR")),
)


def play(script: list[str], directory: Path, environ: Mapping[str, str] | None = None) -> str:
    """Type blocks into one shell that ends at the first failure; return all that was said."""
    ports = {port: settled_port() for port in sorted({*DEFAULTS.values(), CONTROL})}
    whole = "\n".join(["set -euo pipefail", *script])
    for port, free in ports.items():
        whole = whole.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(directory),
        **{name: f"127.0.0.1:{ports[port]}" for name, port in DEFAULTS.items()},
        **(environ or {}),
    }
    said = directory / "said.txt"
    with said.open("wb") as stream:
        shell = subprocess.Popen(
            ["bash", "-c", whole],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        try:
            code = shell.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            _end(shell.pid)
            shell.wait()
    text = said.read_text(encoding="utf-8")
    logs = "\n".join(path.read_text(encoding="utf-8")[-2000:] for path in sorted(directory.glob("*.log")))
    assert code == 0, f"{text}\n{logs}"
    return text


def _end(session: int) -> None:
    """End whatever a shell has left behind; it has a process group of its own."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.rule("packaging#pages-run")
@pytest.mark.long  # CI does the same from a fresh clone: .ci/first-fleet
def test_a_newcomer_has_a_fleet_by_the_first_page_alone(tmp_path: Path) -> None:
    start, ask, *rest = blocks(DOCS / "getting-started.md", "bash")
    more = blocks(DOCS / "first-fleet.md", "bash")
    # Decisions every second in place of every five: the page says to wait, and a test waits no longer than it must.
    said = play([start, ask, *more, *rest], tmp_path, {"BIGFLEET_ALL_IN_ONE_CYCLE_INTERVAL": "1s"})
    assert "needs covered" in said
    assert "topology.bigfleet/rack" in said or "rack-" in said  # why the gang stands where it stands
    assert "shard-0" in said
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"said.txt", "snapshot.json"}, "the page says how to undo it"


@pytest.mark.rule("packaging#pages-run")
def test_the_restore_drill_and_the_steps_before_an_upgrade(tmp_path: Path) -> None:
    alone = [*blocks(DOCS / "coordinator.md", "bash"), "kill $!\nwait $!\nrm coordinator.log"]
    start, backup, *rest = blocks(DOCS / "operations.md", "bash")
    said = play([*alone, start, backup, *blocks(DOCS / "upgrade.md", "bash"), *rest], tmp_path)
    assert said.count("checksum:     good") == 2
    assert "commands:" in said
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"said.txt", "coord-data", "before.tar", "snapshot.json"}, "the drill clears up"


def test_the_servers_that_the_pages_start_do_start_answer_and_end(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, and the pages ask with it")
    script: list[str] = []
    for page, commands_ in SERVERS.items():
        shown = {shown.text for shown in commands(DOCS / page)}
        assert set(commands_) <= shown, page
        for command in commands_:
            # Each in a directory of its own, as a reader who tries one after the other would have it.
            here = tmp_path / str(len(script))
            here.mkdir()
            _write_files(DOCS / page, here)
            script.append(f"(cd {here} && exec {command}) > {here}.log 2>&1 & pids+=($!)")
    logs = [f"{number}.log" for number in range(len(script))]
    wait = f"for log in {' '.join(logs)}; do until grep -Eq 'listening|dashboard: http' $log; do sleep 0.1; done; done"
    asked = [
        shown.text
        for page in SERVERS
        for shown in commands(DOCS / page)
        if shown.program == "curl"
        and not any(verb in shown.text for verb in ("joining", "joined", "emptied"))
    ]
    assert len(asked) == 6
    # The dashboard beside a shard begins a moment after it.
    asked = [
        command.replace("curl -s", "curl -sSf --retry 20 --retry-connrefused --retry-delay 1")
        for command in asked
    ]
    end = 'for pid in "${pids[@]}"; do kill $pid; wait $pid; done'
    environ = dict.fromkeys(ANY_PORT, "127.0.0.1:0")
    said = play(
        ["pids=()", *script, wait, *(f"{command}; echo" for command in asked), end], tmp_path, environ
    )
    assert '"machinesByState"' in said
    assert "cluster" in said


def _write_files(page: Path, directory: Path) -> None:
    """Write the YAML blocks of a page that begin with a file's name."""
    for name, text in re.findall(
        r"^```yaml\n# ([\w.-]+)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        (directory / name).write_text(text, encoding="utf-8")
