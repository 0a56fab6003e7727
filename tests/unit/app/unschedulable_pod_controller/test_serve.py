"""The pod controller's program: what ends it at the start, and leading by a lease.

Rules: `operator#process`, `operator#u6`, `operator#pod-penalties`.
"""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import monotonic_s
from bigfleet.app import kubectl_bigfleet, unschedulable_pod_controller
from bigfleet.app.unschedulable_pod_controller.serve import lead
from bigfleet.kube.lease import Lease
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, ObjectKey
from bigfleet.obs.metrics import Metrics
from bigfleet.podcontroller.controller import PodController
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import KubeWorld, pod

main = unschedulable_pod_controller.main


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster is to be found."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.rule("operator#pod-penalties")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("gold: {interruptionPenalty: much}", "priority class 'gold': interruptionPenalty"),
        ("gold: {interruptionPenalty: '-1'}", "priority class 'gold': interruptionPenalty"),
        ("- gold", "found a list"),
        ("{", "not readable as YAML"),
        ("gold: {penalty: 1}", "found key 'penalty'"),
    ],
)
def test_a_bad_file_of_defaults_ends_the_program_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    path = tmp_path / "defaults.yaml"
    path.write_text(content)
    assert main(["--priority-class-defaults", str(path)]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.rule("operator#pod-penalties")
def test_a_missing_file_of_defaults_ends_the_program_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--priority-class-defaults={tmp_path}/none.yaml"]) == 1
    assert "none.yaml" in capsys.readouterr().err


def test_without_a_cluster_it_says_where_it_looked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "no way into a cluster" in capsys.readouterr().err
    assert kubectl_bigfleet.main(["needs"]) == 1
    assert "no way into a cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--qps=0"], "--qps"),
        (["--burst", "0"], "--burst"),
        (["--concurrency=0"], "--concurrency"),
        (["--resync-interval=ten"], "--resync-interval"),
        (["--no-such-flag"], "no-such-flag"),
    ],
)
def test_a_bad_flag_ends_the_program_with_2(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert words in capsys.readouterr().err


def test_flags_are_taken_with_one_dash_or_two_and_the_plugin_wants_its_cluster_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-qps=10", "--burst", "20", "-pod-events=false", "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert "pod-events: false" in shown
    assert kubectl_bigfleet.main(["-n", "shop", "why", "p", "--shard", "127.0.0.1:7780"]) == 2
    assert "--cluster-id" in capsys.readouterr().err


def controller_of(world: KubeWorld) -> PodController:
    metrics = Metrics(POD_CONTROLLER_METRICS, CollectorRegistry(), version="0", commit="0")
    return PodController(world.client, clock=world.clock, rng=world.rng, metrics=metrics)


@pytest.mark.rule("operator#u6")
def test_without_the_api_server_work_stops_before_the_lease_can_expire_and_begins_again_after() -> None:
    async def scene() -> None:
        world = KubeWorld()
        controller = controller_of(world)
        key = ObjectKey("default", "bigfleet-unschedulable-pod-controller")
        lease = Lease(world.client, key, "a", clock=world.clock, stream=world.rng.stream("lease"))
        tasks = {
            asyncio.ensure_future(controller.keep_caches()),
            asyncio.ensure_future(lead(lease, controller)),
        }
        await world.add(PODS, pod("one"))
        await world.eventually(lambda: world.stored(CAPACITY_REQUESTS))
        # The lease can no longer be renewed; everything else still works, so only the lease can stop it.
        world.transport.add(Fault(Trouble.BREAK, times=10**6, path="/leases"))
        lost_s = monotonic_s(world.clock)
        await world.clock.sleep(14.9)
        await world.add(PODS, pod("two"))
        await world.clock.sleep(60)
        assert len(world.stored(CAPACITY_REQUESTS)) == 1
        assert monotonic_s(world.clock) - lost_s > 15
        world.transport.heal()
        await world.eventually(lambda: len(world.stored(CAPACITY_REQUESTS)) == 2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(scene())


def test_a_standby_keeps_its_caches_and_writes_nothing() -> None:
    async def scene() -> None:
        world = KubeWorld()
        key = ObjectKey("default", "bigfleet-unschedulable-pod-controller")
        first, second = controller_of(world), controller_of(world)
        tasks = set()
        for controller, name in ((first, "a"), (second, "b")):
            lease = Lease(world.client, key, name, clock=world.clock, stream=world.rng.stream(name))
            tasks |= {
                asyncio.ensure_future(controller.keep_caches()),
                asyncio.ensure_future(lead(lease, controller)),
            }
            await world.eventually(lambda controller=controller: not controller.caches.not_ready())  # type: ignore[misc]
        await world.add(PODS, pod("one"))
        await world.eventually(lambda: world.stored(CAPACITY_REQUESTS))
        await world.clock.sleep(100)
        assert (
            world.transport.count(lambda call: call.method == "POST" and "capacityrequests" in call.path) == 1
        )
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(scene())
