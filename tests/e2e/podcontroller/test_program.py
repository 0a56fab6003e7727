"""The pod controller and the kubectl plugin as programs, under exactly their rights.

Rules: `operator#roles`, `operator#operator-metrics`, `operator#probes`, `operator#start-order`, `operator#shutdown`,
`operator#e23`.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bigfleet.kube.roles import POD_CONTROLLER
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import pod
from tests.support.program import RunningProgram

PROGRAM = "bigfleet-unschedulable-pod-controller"
UPC = "upc"
Shop = Any  # the namespace of conftest.py, which tests cannot import from there
Start = Callable[..., RunningProgram]
WAITS: dict[str, Any] = {"nodeSelector": {"no": "node"}}


@pytest.fixture
def start(audited: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start the program; it is killed at the end of the test if it still runs."""
    running: list[RunningProgram] = []

    def run(*flags: str, user: str = UPC) -> RunningProgram:
        whole = (
            f"--kubeconfig={audited.kubeconfig(user)}",
            *("--metrics-addr=127.0.0.1:0", "--log-format=json", "--qps=500", "--burst=500"),
            *flags,
        )
        environ = {
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "NO_PROXY": "127.0.0.1",
            "PYTHONASYNCIODEBUG": "0",
        }
        log = tmp_path / f"{len(running)}.log"
        # Warnings are shown, so that a connection that was not closed is seen.
        running.append(RunningProgram(PROGRAM, *whole, log=log, environ=environ, python=("-W", "always")))
        return running[-1]

    yield run
    for program in running:
        program.kill()


def is_ready(program: RunningProgram) -> Callable[[], bool]:
    return lambda: program.http("/readyz")[0] == 200


def used(audited: Cluster) -> set[tuple[str, str, str]]:
    """Return every right that the program has used, from the audit log."""
    return {
        (event.group, event.resource + (f"/{event.subresource}" if event.subresource else ""), event.verb)
        for event in audited.audit_events(UPC)
    }


@pytest.mark.rule("operator#roles", "operator#e23")
def test_it_uses_every_verb_of_its_role_and_is_denied_nothing(
    start: Start, shop: Shop, audited: Cluster
) -> None:
    taken = audited.admin.post(shop.pods_path, pod("taken", **WAITS))["metadata"]["uid"]
    foreign = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": f"cr-pod-taken-{taken[:13]}"},
        "spec": {"priority": 1, "resources": {}},
    }
    audited.admin.post(shop.crs_path, foreign)
    note = {"bigfleet.lucy.sh/interruption-penalty": "much"}
    audited.admin.post(shop.pods_path, pod("noted", annotations=note, **WAITS))
    audited.admin.post(shop.pods_path, pod("done", **WAITS))
    program = start("--leader-elect")
    audited.wait("requests", lambda: len(shop.requests()) == 4)
    # E13: a finished pod loses its request. A changed pod changes it, a deleted request comes back, and says so again.
    audited.admin.patch(f"{shop.pods_path}/done/status", {"status": {"phase": "Succeeded"}})
    audited.admin.patch(
        f"{shop.pods_path}/taken",
        {"metadata": {"annotations": {"bigfleet.lucy.sh/reclamation-penalty": "2"}}},
    )
    audited.wait("the event is written", lambda: shop.events("noted"))
    first = shop.request_of("noted")["metadata"]["name"]
    audited.admin.delete(f"{shop.crs_path}/{first}")
    audited.wait("requests", lambda: len(shop.requests()) == 3 and shop.request_of("noted"))
    audited.wait("the event is counted", lambda: shop.events("noted")[0]["count"] == 2)
    assert shop.request_of("taken")["metadata"]["name"] == f"cr-pod-taken-{taken}"
    rules = (*POD_CONTROLLER.cluster, *POD_CONTROLLER.own_namespace)
    role = {(rule.group, name, verb) for rule in rules for name in rule.resources for verb in rule.verbs}
    audited.wait("every right was used", lambda: role <= used(audited))
    assert used(audited) <= role
    # Elsewhere a namespace of an earlier test may be ending, which refuses new objects in the same words.
    here = ("", "default", shop.name)
    denied = [event for event in audited.audit_events(UPC) if event.code in (401, 403)]
    assert [event for event in denied if event.namespace in here] == []
    assert program.end() == 0


@pytest.mark.rule("operator#shutdown")
def test_sigterm_ends_it_with_0_and_nothing_is_left_open(start: Start, shop: Shop, audited: Cluster) -> None:
    for number in range(20):
        audited.admin.post(shop.pods_path, pod(f"p{number}", **WAITS))
    program = start()
    program.wait("ready", is_ready(program))
    assert program.end(signal.SIGTERM) == 0
    assert complaints(program) == []


@pytest.mark.rule("operator#shutdown")
@pytest.mark.parametrize("moment", ["before it was ready", "while it worked"])
def test_sigterm_ends_it_with_0_while_the_api_server_is_silent(
    start: Start, shop: Shop, audited: Cluster, moment: str
) -> None:
    program = start("--qps=5", "--burst=1", "--shutdown-grace=500ms")
    if moment == "while it worked":
        program.wait("ready", is_ready(program))
        for number in range(20):
            audited.admin.post(shop.pods_path, pod(f"p{number}", **WAITS))
        audited.wait("it has begun", shop.requests)
    else:
        program.port()
    audited.api_server.pause()
    try:
        assert program.end(signal.SIGTERM) == 0
    finally:
        audited.api_server.resume()
    assert complaints(program) == []


def complaints(program: RunningProgram) -> list[str]:
    """Return the lines of a program about resources that it did not close."""
    words = ("Unclosed", "unclosed", "ResourceWarning", "never retrieved", "Traceback", "never awaited")
    written = program.log.read_text(encoding="utf-8").splitlines()
    return [line for line in written if any(word in line for word in words)]


def test_killed_at_any_moment_it_converges_to_one_request_each(
    start: Start, shop: Shop, audited: Cluster
) -> None:
    for number in range(30):
        audited.admin.post(shop.pods_path, pod(f"p{number}", **WAITS))
    program = start("--qps=20", "--burst=1")  # slowly, so that the kill comes in the middle
    audited.wait("it has begun", lambda: len(shop.requests()) >= 5)
    program.kill()
    assert len(shop.requests()) < 30
    start()
    audited.wait("one each", shop.one_each)


@pytest.mark.rule("operator#operator-metrics", "operator#probes")
def test_probes_and_metrics_say_how_it_is(start: Start, shop: Shop, audited: Cluster) -> None:
    audited.api_server.pause()
    try:
        program = start()
        status, reasons = program.http("/readyz")
        assert (status, reasons) == (
            503,
            "pods: first list not complete\ncapacityrequests: first list not complete\n",
        )
        assert program.http("/healthz") == (200, "ok\n")
    finally:
        audited.api_server.resume()
    program.wait("ready", is_ready(program))
    audited.admin.post(shop.pods_path, pod("p", **WAITS))
    audited.wait("request", shop.one_each)
    status, page = program.http("/metrics")
    assert status == 200
    for metric in POD_CONTROLLER_METRICS.metrics:
        for values in metric.fixed_series():
            labels = ",".join(
                f'{name}="{value}"' for name, value in zip(metric.label_names, values, strict=True)
            )
            assert f"{metric.name}{{{labels}}}" in page
    assert 'bigfleet_unschedulable_pod_controller_reconciles_total{outcome="error"} 0.0' in page
    assert 'bigfleet_build_info{commit="unknown",component="pod-controller"' in page


@pytest.mark.rule("operator#start-order")
def test_a_taken_port_ends_it_and_0_opens_none(start: Start, shop: Shop, audited: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        program = start(f"--metrics-addr=127.0.0.1:{taken.getsockname()[1]}")
        assert program.ended() == 1
        assert "cannot listen" in program.text()
    silent = start("--metrics-addr=0")
    audited.admin.post(shop.pods_path, pod("p", **WAITS))
    audited.wait("request", shop.one_each)
    assert silent.port() == 0
    assert silent.end() == 0


def test_a_role_that_lacks_everything_is_told_and_does_not_make_it_ready(start: Start) -> None:
    program = start(user="nobody")
    program.wait(
        "it says so", lambda: [line for line in program.lines("list_watch_failed") if "403" in line["error"]]
    )
    assert program.http("/readyz")[0] == 503
    assert program.code is None


# ---- the plugin


@pytest.fixture
def plugin(audited: Cluster, testbed_binary: Path, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Run `kubectl bigfleet …` with the kubectl of the testbed; return exit code, stdout and stderr."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "kubectl-bigfleet"
    root = Path(__file__).resolve().parents[3]
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{root}/cmd/kubectl-bigfleet" "$@"\n')
    script.chmod(0o755)

    def run(*arguments: str) -> tuple[int, str, str]:
        environ = {
            "PATH": f"{folder}:{os.defpath}",
            "HOME": str(tmp_path),
            "NO_PROXY": "127.0.0.1",
            "KUBECONFIG": str(audited.kubeconfig()),
        }
        done = subprocess.run(
            (str(testbed_binary), "kubectl", "bigfleet", *arguments),
            env=environ,
            cwd=root,
            text=True,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_the_plugin_lists_needs_and_nodes_and_tells_why_a_pod_waits(
    plugin: Callable[..., tuple[int, str, str]],
    start: Start,
    shop: Shop,
    audited: Cluster,
    new_name: Callable[[], str],
) -> None:
    zone = new_name()
    for name in ("cart-0", "cart-1"):
        audited.admin.post(shop.pods_path, pod(name, nodeSelector={"zone": zone}))
    start()
    audited.wait("requests", shop.one_each)
    request = shop.request_of("cart-0")
    shop.acknowledge(request)
    upcoming = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "UpcomingNode",
        "metadata": {"name": f"un-{zone}"},
        "spec": {"resources": {"cpu": "8", "memory": "32Gi"}, "labels": {"zone": zone}},
    }
    path = "/apis/bigfleet.lucy.sh/v1alpha1/upcomingnodes"
    audited.admin.post(path, upcoming)
    audited.admin.patch(f"{path}/un-{zone}/status", {"status": {"phase": "Registered"}})
    audited.wait(
        "the event is written", lambda: [e for e in shop.events("cart-0") if e["reason"] == "BringingNode"]
    )

    code, out, err = plugin("needs", "-n", shop.name)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[:7] == ["2", "1", "0", "cpu", "2,", "memory", "2Gi"]
    code, out, _ = plugin("needs", "-A", "-o", "json")
    assert code == 0
    assert any(shop.name in row["namespaces"] for row in json.loads(out)["needs"])

    code, out, _ = plugin("upcoming")
    assert code == 0
    assert f"un-{zone}" in out
    assert "Registered" in out

    for name in ("cart-0", request["metadata"]["name"]):
        code, out, err = plugin("why", name, "-n", shop.name)
        assert (code, err) == (0, "")
        assert f"so:            a node that may serve it is on its way: un-{zone}" in out
        assert f"BringingNode: BigFleet is bringing a node: un-{zone}" in out
        assert re.search(r"nodes (are )?available", out)
    code, out, _ = plugin("why", "cart-0", "-n", shop.name, "-o", "json")
    assert json.loads(out)["nodes_for_it"] == [f"un-{zone} Registered"]

    code, _, err = plugin("why", "nobody", "-n", shop.name)
    assert code == 4
    assert "found neither a pod nor a CapacityRequest" in err
    code, _, err = plugin("needs", "--kubeconfig", str(audited.kubeconfig("nobody")))
    assert code == 6
    assert "403 Forbidden" in err
