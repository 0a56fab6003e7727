"""One request per pod on a real control plane, with real owners, garbage collection, resize and gates.

Rules: `operator#pod-controller`, `operator#e13`, `operator#e14`, `operator#e15`, `operator#e16`, `operator#e17`,
`operator#e24`, `operator#e25`, `operator#one-request-per-pod`, `operator#life-finished`, `operator#life-deleted`,
`operator#life-update`, `operator#life-gated`, `operator#life-by-hand`, `operator#pod-affinity`, `operator#life-stamp`,
`operator#take-over`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.kube.transport import ApiCall, ApiResponse
from bigfleet.podcontroller.core.penalties import read_defaults
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import node, pod
from tests.support.kube_api.faults import Fault, FaultyTransport, Trouble

pytestmark = pytest.mark.asyncio

Run = Callable[..., Any]  # the fixtures of conftest.py
Until = Callable[..., Awaitable[Any]]
Shop = Any


def template(app: str, **spec: Any) -> dict[str, Any]:
    body = pod("unnamed", labels={"app": app}, **spec)
    return {"metadata": {"labels": {"app": app}}, "spec": body["spec"]}


def workload(kind: str, app: str, **spec: Any) -> dict[str, Any]:
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": app}}}
    group = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": app}, "spec": {**selector, **spec}}


@pytest.mark.rule("operator#one-request-per-pod", "operator#e14")
async def test_deployments_statefulsets_daemonsets_and_jobs_have_one_request_per_pod(
    controller: Run, shop: Shop, audited: Cluster, until: Until, new_name: Callable[[], str]
) -> None:
    name = new_name()
    mine = {"example/for": name}
    bound = {"nodeSelector": mine}
    apps, batch = f"/apis/apps/v1/namespaces/{shop.name}", f"/apis/batch/v1/namespaces/{shop.name}"
    audited.admin.post("/api/v1/nodes", node(name, labels=mine, cpu="64"))
    never = {"nodeSelector": {"example/for": "nobody"}}
    async with controller():
        for path, body in (
            (
                f"{apps}/deployments",
                workload("Deployment", "web", replicas=4, template=template("web", **never)),
            ),
            (
                f"{apps}/statefulsets",
                workload("StatefulSet", "db", replicas=2, template=template("db", **bound)),
            ),
            (f"{apps}/daemonsets", workload("DaemonSet", "agent", template=template("agent", **bound))),
        ):
            await asyncio.to_thread(audited.admin.post, path, body)
        await until("all pods are there", lambda: len(shop.pods()) == 7)
        await until("one request each", shop.one_each)
        by_uid = {item["metadata"]["uid"]: item for item in shop.pods()}
        for request in shop.requests():
            (owner,) = request["metadata"]["ownerReferences"]
            of = by_uid[owner["uid"]]
            assert owner == {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": of["metadata"]["name"],
                "uid": of["metadata"]["uid"],
                "controller": True,
            }
            assert request["metadata"]["labels"]["bigfleet.lucy.sh/owned-by-pod"] == of["metadata"]["uid"]
            assert request["status"] == {"phase": "Pending"}
            assert request["spec"]["resources"] == {"cpu": "1", "memory": "1Gi"}
        # Scaled down, the requests go with their pods; scaled up, they come.
        for replicas in (1, 3):
            patch = {"spec": {"replicas": replicas}}
            await asyncio.to_thread(audited.admin.patch, f"{apps}/deployments/web", patch)
            await until(f"{replicas} replicas", lambda count=replicas: len(shop.pods()) == 3 + count)
            await until("one request each", shop.one_each)
        job = workload("Job", "batch", template=template("batch", restartPolicy="Never", **bound))
        await asyncio.to_thread(audited.admin.post, f"{batch}/jobs", job)
        await until(
            "the job is done", lambda: [p for p in shop.pods() if p["status"]["phase"] == "Succeeded"]
        )
        await until("a finished pod has no request", shop.one_each)
        assert len(shop.pods()) == 7


@pytest.mark.rule("operator#u2")
async def test_a_statefulset_pod_of_the_same_name_gets_a_request_of_its_own(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    apps = f"/apis/apps/v1/namespaces/{shop.name}/statefulsets"
    body = workload("StatefulSet", "db", replicas=1, template=template("db", nodeSelector={"no": "node"}))
    async with controller():
        await asyncio.to_thread(audited.admin.post, apps, body)
        await until("the first is there", lambda: shop.pods() and shop.one_each())
        first = shop.pods()[0]["metadata"]["uid"]
        await asyncio.to_thread(audited.admin.delete, f"{shop.pods_path}/db-0?gracePeriodSeconds=0")
        await until("the new pod is there", lambda: [p for p in shop.pods() if p["metadata"]["uid"] != first])
        await until("one request each", shop.one_each)


@pytest.mark.rule("operator#life-finished", "operator#life-deleted", "operator#e13")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_loses_its_request_while_it_remains(
    controller: Run, shop: Shop, audited: Cluster, until: Until, phase: str
) -> None:
    audited.admin.post(shop.pods_path, pod("p", nodeSelector={"no": "node"}))
    audited.admin.post(shop.pods_path, pod("early", nodeSelector={"no": "node"}))
    audited.admin.patch(f"{shop.pods_path}/early/status", {"status": {"phase": phase}})
    async with controller():
        await until("one request", shop.one_each)
        assert len(shop.requests()) == 1
        await asyncio.to_thread(
            audited.admin.patch, f"{shop.pods_path}/p/status", {"status": {"phase": phase}}
        )
        await until("no request", lambda: not shop.requests())
        assert len(shop.pods()) == 2


@pytest.mark.rule("operator#u1")
async def test_a_pod_that_finished_while_no_controller_ran_loses_its_request_at_the_start(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    for name in ("p", "q"):
        audited.admin.post(shop.pods_path, pod(name, nodeSelector={"no": "node"}))
    async with controller():
        await until("requests", lambda: len(shop.requests()) == 2)
    audited.admin.patch(f"{shop.pods_path}/p/status", {"status": {"phase": "Succeeded"}})
    async with controller():
        await until("the finished one has none", lambda: len(shop.requests()) == 1 and shop.one_each())


@pytest.mark.rule("operator#u3")
async def test_storms_of_429_500_and_lost_answers_lose_nothing_and_double_nothing(
    controller: Run, shop: Shop, audited: Cluster, until: Until, transport_to: Callable[..., Any]
) -> None:
    transport = FaultyTransport(transport_to(), SystemClock())
    busy = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "slow down"}
    storms = [
        transport.add(
            Fault(ApiResponse(429, busy), times=40, method="POST", path=f"{shop.name}/capacityrequests")
        ),
        transport.add(
            Fault(Trouble.LOSE_ANSWER, times=10, method="POST", path=f"{shop.name}/capacityrequests")
        ),
        transport.add(Fault(ApiResponse(500, "<html>"), times=10, method="PATCH", path=shop.name)),
        transport.add(Fault(Trouble.CUT, times=5, watch=True, path="capacityrequests")),
    ]
    for number in range(20):
        audited.admin.post(shop.pods_path, pod(f"p{number}", nodeSelector={"no": "node"}))
    async with controller(transport=transport):
        await until("one request each", lambda: len(shop.requests()) == 20)
        labels = [
            request["metadata"]["labels"]["bigfleet.lucy.sh/owned-by-pod"] for request in shop.requests()
        ]
        assert len(set(labels)) == 20
    assert [storm.hits for storm in storms[:2]] == [40, 10]


@pytest.mark.rule("operator#life-update", "operator#e25")
async def test_a_resized_pod_is_followed_and_stays_acknowledged(
    controller: Run, shop: Shop, audited: Cluster, until: Until, new_name: Callable[[], str]
) -> None:
    name = new_name()
    audited.admin.post("/api/v1/nodes", node(name, labels={"example/for": name}))
    audited.admin.post(shop.pods_path, pod("p", nodeSelector={"example/for": name}))
    async with controller():
        await until("request", shop.one_each)
        await until("runs", lambda: shop.pods()[0]["status"]["phase"] == "Running")
        await asyncio.to_thread(shop.acknowledge, shop.request_of("p"))
        # A kubelet that can resize says so by telling what a container has; the one that is played here does not.
        status = {**shop.pods()[0]["status"]["containerStatuses"][0], "resources": {"requests": {"cpu": "1"}}}
        patch = {"status": {"containerStatuses": [status]}}
        await asyncio.to_thread(audited.admin.patch, f"{shop.pods_path}/p/status", patch)
        resources = {"requests": {"cpu": "2", "memory": "1536Mi"}}
        patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        await asyncio.to_thread(
            audited.admin.patch,
            f"{shop.pods_path}/p/resize",
            patch,
            content_type="application/strategic-merge-patch+json",
        )
        await until(
            "the request follows",
            lambda: shop.request_of("p")["spec"]["resources"] == {"cpu": "2", "memory": "1536Mi"},
        )
        assert shop.request_of("p")["status"]["phase"] == "Acknowledged"


@pytest.mark.rule("operator#life-gated", "operator#e25")
async def test_a_gated_pod_gets_its_request_when_the_last_gate_is_removed(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    audited.admin.post(shop.pods_path, pod("gated", schedulingGates=gates, nodeSelector={"no": "node"}))
    audited.admin.post(shop.pods_path, pod("free", nodeSelector={"no": "node"}))
    async with controller():
        await until("the free one has its request", lambda: shop.request_of("free"))
        for left in ([{"name": "example.com/b"}], None):
            assert len(shop.requests()) == 1
            patch = {"spec": {"schedulingGates": left}}
            await asyncio.to_thread(audited.admin.patch, f"{shop.pods_path}/gated", patch)
        await until("the gated one has its request", lambda: len(shop.requests()) == 2)


@pytest.mark.rule("operator#life-by-hand")
async def test_a_request_deleted_by_hand_is_created_again_and_requests_of_others_are_left_alone(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    audited.admin.post(shop.pods_path, pod("p", nodeSelector={"no": "node"}))
    spec = {"priority": 1, "resources": {}}
    foreign = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": "by-hand"},
        "spec": spec,
    }
    before = audited.admin.post(shop.crs_path, foreign)
    async with controller():
        await until("request", lambda: shop.request_of("p"))
        first = shop.request_of("p")["metadata"]
        await asyncio.to_thread(audited.admin.delete, f"{shop.crs_path}/{first['name']}")
        await until(
            "back",
            lambda: (shop.request_of("p") or {"metadata": first})["metadata"]["uid"] != first["uid"],
            5,
        )
        assert audited.admin.get(f"{shop.crs_path}/by-hand") == before


@pytest.mark.rule("operator#one-request-per-pod")
async def test_twenty_restarts_and_two_replicas_never_make_a_second_request(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    def never_two() -> bool:
        labels = [r["metadata"]["labels"]["bigfleet.lucy.sh/owned-by-pod"] for r in shop.requests()]
        return len(labels) == len(set(labels))

    for turn in range(20):
        async with controller() as running:
            await asyncio.to_thread(
                audited.admin.post, shop.pods_path, pod(f"p{turn}", nodeSelector={"no": "node"})
            )
            # Cut off at ever later moments of its start.
            for _ in range(turn):
                await asyncio.sleep(0)
            if turn % 5 == 4:
                await until("synchronised", lambda running=running: not running.caches.not_ready())
        assert never_two()
    async with controller(), controller():
        for turn in range(10):
            await asyncio.to_thread(
                audited.admin.post, shop.pods_path, pod(f"q{turn}", nodeSelector={"no": "node"})
            )
        await until("one request each", lambda: len(shop.requests()) == 30 and shop.one_each())


class AckFirst(FaultyTransport):
    """Acknowledges each request right before the controller writes its first phase."""

    def __init__(self, transport: Any, clock: Any, acknowledge: Callable[[str], None]) -> None:
        super().__init__(transport, clock)
        self._acknowledge = acknowledge
        self.conflicts = 0

    async def send(self, call: ApiCall) -> ApiResponse:
        stamps = call.method == "PATCH" and call.path.endswith("/status")
        if stamps:
            await asyncio.to_thread(self._acknowledge, call.path)
        answer = await super().send(call)
        self.conflicts += stamps and answer.status == 409
        return answer


@pytest.mark.rule("operator#life-stamp")
async def test_a_late_stamp_never_undoes_acknowledged(
    controller: Run, shop: Shop, audited: Cluster, until: Until, transport_to: Callable[..., Any]
) -> None:
    def acknowledge(path: str) -> None:
        if shop.name in path:
            audited.admin.patch(
                path, {"status": {"phase": "Acknowledged", "acknowledgedAt": "2026-11-17T12:00:00Z"}}
            )

    transport = AckFirst(transport_to(), SystemClock(), acknowledge)
    audited.admin.post(shop.pods_path, pod("p", nodeSelector={"no": "node"}))
    async with controller(transport=transport):
        await until("stamped too late", lambda: transport.conflicts)
        await until("request", lambda: shop.request_of("p"))
        assert shop.request_of("p")["status"]["phase"] == "Acknowledged"


@pytest.mark.rule(
    "operator#pod-requirements",
    "operator#pod-amounts",
    "operator#pod-penalties",
    "operator#pod-affinity",
    "operator#e15",
    "operator#e16",
    "operator#e17",
)
async def test_every_word_of_a_pod_reaches_a_request_that_the_server_takes(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    gold = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"{shop.name}-gold"[-60:].lstrip("-")},
        "value": 1000,
    }
    audited.admin.post("/apis/scheduling.k8s.io/v1/priorityclasses", gold)
    class_name = gold["metadata"]["name"]  # type: ignore[index]
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    gt = {"key": "cores", "operator": "Gt", "values": ["8"]}
    together = {
        "labelSelector": {"matchLabels": {"app": "x"}},
        "topologyKey": "rack",
        "matchLabelKeys": ["rev"],
        "namespaces": ["b", "a"],
    }
    soft = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    hard = {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    whole = pod(
        "p",
        labels={"app": "x", "rev": "7"},
        annotations={
            "bigfleet.lucy.sh/interruption-penalty": "500m",
            "bigfleet.lucy.sh/reclamation-penalty": "-3",
        },
        priorityClassName=class_name,
        nodeSelector={"disk": "ssd", "arch": "arm64"},
        affinity={
            "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [zone, gt]}]}},
            "podAffinity": {required: [together]},
        },
        topologySpreadConstraints=[{**soft, "labelSelector": {}}, {**hard, "labelSelector": {}}],
    )
    audited.admin.post(shop.pods_path, whole)
    defaults = read_defaults({class_name: {"reclamationPenalty": "4"}}, "defaults")
    async with controller(defaults=defaults):
        await until("request", lambda: shop.request_of("p"))
        request = shop.request_of("p")
        # With the label of the pod, as the server merged it into the selector.
        selector = {
            "matchLabels": {"app": "x"},
            "matchExpressions": [{"key": "rev", "operator": "In", "values": ["7"]}],
        }
        assert request["spec"] == {
            "priority": 1000,
            "requirements": [
                zone,
                {"key": "cores", "operator": "Exists"},
                {"key": "arch", "operator": "In", "values": ["arm64"]},
                {"key": "disk", "operator": "In", "values": ["ssd"]},
            ],
            "resources": {"cpu": "1", "memory": "1Gi"},
            "interruptionPenalty": "500m",
            "reclamationPenalty": "4",
            "topologySpread": [hard],
            "coLocation": {"topologyKey": "rack", "labelSelector": selector},
        }, json.dumps(request["spec"], indent=1)
        assert request["metadata"]["annotations"] == {"bigfleet.lucy.sh/co-location-scope": "a,b;"}
        await until(
            "the bad annotation has its event",
            lambda: [e for e in shop.events("p") if e["reason"] == "DemandNotExact"],
        )


@pytest.mark.rule("operator#take-over", "operator#e24")
async def test_requests_left_by_the_original_are_adopted_without_a_second_one(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    made = audited.admin.post(shop.pods_path, pod("p", nodeSelector={"no": "node"}))
    uid = made["metadata"]["uid"]
    left = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {
            "generateName": "cr-pod-p-",
            "labels": {"bigfleet.lucy.sh/owned-by-pod": uid},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
            ],
        },
        "spec": {
            "priority": 0,
            "requirements": [{"key": "no", "operator": "In", "values": ["node"]}],
            "resources": {"cpu": "1", "memory": "1Gi"},
        },
    }
    old = audited.admin.post(shop.crs_path, left)
    shop.acknowledge(old)
    before = audited.admin.get(f"{shop.crs_path}/{old['metadata']['name']}")
    audited.admin.post(shop.pods_path, pod("q", nodeSelector={"no": "node"}))
    async with controller():
        await until("the other has its request", lambda: shop.request_of("q"))
        assert audited.admin.get(f"{shop.crs_path}/{old['metadata']['name']}") == before
        assert len(shop.requests()) == 2


@pytest.mark.rule("operator#u4")
@pytest.mark.long  # the namespace controller takes its time
async def test_a_namespace_that_ends_makes_no_noise(
    controller: Run, shop: Shop, audited: Cluster, until: Until
) -> None:
    audited.admin.post(shop.pods_path, {**pod("p", nodeSelector={"no": "node"})})
    audited.admin.patch(f"{shop.pods_path}/p", {"metadata": {"finalizers": ["example.com/wait"]}})
    async with controller() as running:
        await until("request", lambda: shop.request_of("p"))
        await asyncio.to_thread(audited.admin.delete, f"/api/v1/namespaces/{shop.name}")
        await until(
            "the request is gone, the pod is not",
            lambda: not shop.requests() and audited.admin.find(f"{shop.pods_path}/p"),
        )
        await until("nothing is left to do", lambda: running.is_idle)
        await asyncio.to_thread(
            audited.admin.patch, f"{shop.pods_path}/p", {"metadata": {"finalizers": None}}
        )


async def test_pods_hear_of_their_request_and_of_a_node_on_its_way(
    controller: Run, shop: Shop, audited: Cluster, until: Until, new_name: Callable[[], str]
) -> None:
    zone = new_name()
    audited.admin.post(shop.pods_path, pod("p", nodeSelector={"zone": zone}))
    upcoming = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "UpcomingNode",
        "metadata": {"name": f"un-{zone}"},
        "spec": {"resources": {}, "labels": {"zone": zone, "node.kubernetes.io/instance-type": "g5"}},
    }
    path = "/apis/bigfleet.lucy.sh/v1alpha1/upcomingnodes"
    async with controller():
        await until("request", lambda: shop.request_of("p"))
        await asyncio.to_thread(shop.acknowledge, shop.request_of("p"))
        await until(
            "the event is written",
            lambda: [e for e in shop.events("p") if e["reason"] == "CapacityRequested"],
        )
        await asyncio.to_thread(audited.admin.post, path, upcoming)
        status = {"status": {"phase": "Registered"}}
        await asyncio.to_thread(audited.admin.patch, f"{path}/un-{zone}/status", status)
        await until(
            "the event is written", lambda: [e for e in shop.events("p") if e["reason"] == "BringingNode"]
        )
        described = await asyncio.to_thread(audited.kubectl, "describe", "pod", "-n", shop.name, "p")
        assert f"BigFleet is bringing a node: un-{zone} (g5)" in described
