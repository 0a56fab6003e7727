"""Nothing outlives the test run, however it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.errors import ComponentEndedError, ControlPlaneError
from tests.support.control_plane.options import ClusterOptions

pytestmark = pytest.mark.integration

DEADLINE_S = 60

# A runner at its worst: a cluster started from a thread that has ended since, a component that is paused, and a process
# forked off that still holds the other end of every component's pipe.
RUNNER = """
import json, os, pathlib, sys, time
from tests.support.control_plane.cluster import start_clusters
from tests.support.control_plane.options import ORDINARY
(cluster,) = start_clusters(pathlib.Path(sys.argv[1]), [ORDINARY])
cluster.scheduler.pause()
forked = os.fork()
if forked:
    told = {"pids": cluster.pids, "directory": str(cluster.directory), "port": cluster.port, "forked": forked}
    print(json.dumps(told), flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Tell whether a process still holds anything; one that ended and was not yet collected does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    # The first thread of a process that ends may be gone while others still hold its sockets.
    return len(threads) > 1 or stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def ended(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(is_alive(pid) for pid in pids)


def wait_until(fact: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def is_refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_a_killed_run_leaves_no_process_no_port_and_no_directory(testbed_binary: Path) -> None:
    command = [sys.executable, "-c", RUNNER, str(testbed_binary)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        try:
            assert runner.stdout is not None
            told = json.loads(runner.stdout.readline())
            sweeper, *components = told["pids"]
            assert len(components) == 5
            assert all(is_alive(pid) for pid in (sweeper, *components))
        finally:
            runner.kill()
    try:
        wait_until(ended(components), f"a component of {components} outlived its runner")
        assert is_refused(told["port"])
    finally:
        for pid in (told["forked"], *filter(is_alive, components)):
            os.kill(pid, signal.SIGKILL)
    wait_until(ended([sweeper]), "the sweeper outlived its runner")
    assert not Path(told["directory"]).exists()


def test_an_ordinary_end_leaves_nothing_either_and_a_second_one_does_no_harm(testbed_binary: Path) -> None:
    cluster = Cluster(testbed_binary)
    cluster.etcd.start()
    cluster.api_server.start()
    pids = cluster.pids
    assert len(pids) == 3
    assert all(is_alive(pid) for pid in pids)
    cluster.stop()
    cluster.stop()
    assert not any(is_alive(pid) for pid in pids)
    assert not cluster.directory.exists()
    assert is_refused(cluster.port)


def test_a_cluster_that_cannot_start_says_why_and_is_cleared_away(testbed_binary: Path) -> None:
    cluster = Cluster(testbed_binary, ClusterOptions(api_server_flags=("--no-such-flag",)))
    with pytest.raises(
        ComponentEndedError, match=r"kube-apiserver ended (?s:.*)unknown flag: --no-such-flag"
    ):
        cluster.start()
    assert cluster.etcd.pid is None
    assert not cluster.directory.exists()


def test_a_program_that_is_no_testbed_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ControlPlaneError, match="is no testbed"):
        Cluster(Path("/bin/true"))
