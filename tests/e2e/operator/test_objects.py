"""The operator's objects on the real API server: requests, UpcomingNodes, hints, node references."""

import asyncio
import hashlib

import pytest

from bigfleet.kube.crds.definitions import DEFINITIONS
from tests.e2e.kube_crds.lax import original
from tests.e2e.operator.harness import CLUSTER, GROUP, HINTS, UPCOMING, Bench
from tests.support.scripted_shard import blob_request, hint, node_state, reclaim

pytestmark = pytest.mark.asyncio


@pytest.mark.rule("operator#acknowledgement")
async def test_a_request_is_acknowledged_once_it_was_sent_with_one_patch_ever(world: Bench) -> None:
    world.add_request("good")
    world.start()
    await world.connected()
    await world.until(
        "acknowledged", lambda: world.request("good").get("status", {}).get("phase") == "Acknowledged"
    )
    status = world.request("good")["status"]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Reported", "True", "InRollUp")
    assert status["acknowledgedAt"].endswith("Z")
    rollups = len(world.shard.current.rollups)
    await world.until("more roll-ups", lambda: len(world.shard.current.rollups) > rollups + 3)
    assert world.calls("patch", "capacityrequests", "status").count("good") == 1
    shown = world.cluster.kubectl("get", "crs", "-n", world.namespace)
    assert "InRollUp" in shown
    assert "Acknowledged" in shown


MANY = [{"key": "a", "operator": "Exists"}] * 10_000
REFUSED: dict[str, dict[str, object]] = {
    "the operator Same": {"requirements": [{"key": "a", "operator": "Same"}]},
    "ten thousand requirements": {"requirements": MANY},
    "a negative amount": {"resources": {"cpu": "-1"}},
    "an endless amount": {"resources": {"cpu": "9" * 200}},
    "no number": {"resources": {"cpu": "NaN"}},
    "a hundred resources": {"resources": {f"r{number}": "1" for number in range(100)}},
    "a negative penalty": {"interruptionPenalty": "-5"},
    "a priority beyond all": {"priority": 2**40},
    "no skew": {"topologySpread": [{"topologyKey": "z", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]},
}
STORED: dict[str, tuple[dict[str, object], str]] = {
    "bad-key": ({"requirements": [{"key": "a b", "operator": "Exists"}]}, "InvalidRequirement"),
    "bad-value": (
        {"requirements": [{"key": "a", "operator": "In", "values": ["x y"]}]},
        "InvalidRequirement",
    ),
    "bad-selector": (
        {"coLocation": {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "x y"}}}},
        "InvalidSelector",
    ),
    "absurd": ({"resources": {"cpu": "1e90"}}, "InvalidQuantity"),
}
STORED_BEFORE_OUR_RULES: dict[str, tuple[dict[str, object], str]] = {
    "old-same": ({"requirements": [{"key": "a", "operator": "Same"}]}, "InvalidOperator"),
    "old-many": ({"requirements": MANY}, "InvalidRequirement"),
    "old-negative": ({"resources": {"cpu": "-1"}}, "InvalidQuantity"),
    "old-resources": ({"resources": {f"r{number}": "1" for number in range(100)}}, "InvalidQuantity"),
    "old-skew": (
        {"topologySpread": [{"topologyKey": "z", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]},
        "InvalidSpread",
    ),
}
MANY_LABELS = {
    f"example.com/{number:05d}-{'x' * 50}": "y" * 60 for number in range(5_000)
}  # what etcd just takes


def request_body(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": name},
        "spec": {"priority": 1, "resources": {"cpu": "1"}, **spec},
    }


def store_before_our_rules(world: Bench) -> None:
    """Install a definition without our rules for the body; afterwards ours is back."""
    (ours,) = (one.manifest() for one in DEFINITIONS if one.kind == "CapacityRequest")
    worst = request_body("probe", requirements=MANY)
    world.cluster.install_crds([original(ours)])
    try:
        for name, (spec, _) in STORED_BEFORE_OUR_RULES.items():
            # The server may serve the stricter schema for a moment longer.
            body = request_body(name, **spec)
            world.cluster.wait(
                f"{name} is stored",
                lambda document=body: (
                    world.cluster.admin.call("POST", world.requests, document).status  # type: ignore[misc]
                    in (201, 409)
                ),
            )
    finally:
        world.cluster.install_crds([ours])
        world.cluster.wait(
            "our rules in force",
            lambda: not world.cluster.admin.call("POST", f"{world.requests}?dryRun=All", worst).ok,
        )


@pytest.mark.rule("operator#left-out-requests", "operator#s7")
async def test_whatever_an_attacker_writes_is_refused_or_marked_and_all_others_are_sent(
    world: Bench,
) -> None:
    await asyncio.to_thread(store_before_our_rules, world)
    world.add_request("good")
    operator = world.start()
    await world.connected()
    for why, spec in REFUSED.items():
        answer = await asyncio.to_thread(
            world.cluster.admin.call, "POST", world.requests, request_body("bad", **spec)
        )
        assert answer.status in (400, 413, 422), why
    for name, (spec, _) in STORED.items():
        world.add_request(name, **spec)
    labelled = request_body("labelled")
    labelled["metadata"] = {"name": "labelled", "labels": MANY_LABELS}
    await asyncio.to_thread(world.cluster.admin.post, world.requests, labelled)
    world.add_request("late", priority=7)

    def reasons() -> dict[str, tuple[str, str]]:
        items = world.cluster.admin.get(world.requests)["items"]
        conditions = {
            item["metadata"]["name"]: (item.get("status") or {}).get("conditions") for item in items
        }
        return {name: (found[0]["status"], found[0]["reason"]) for name, found in conditions.items() if found}

    bad = {**STORED, **STORED_BEFORE_OUR_RULES}
    wanted = {
        **{name: ("False", reason) for name, (_, reason) in bad.items()},
        **dict.fromkeys(("good", "labelled", "late"), ("True", "InRollUp")),
    }
    await world.until("every request has its condition", lambda: reasons() == wanted)
    needs = world.shard.current.rollups[-1].needs
    assert sorted((need.priority, dict(need.aggregate_resources)["cpu"]) for need in needs) == [
        (1, "1"),
        (7, "500m"),
        (100, "500m"),
    ]
    await world.until(
        "the events",
        lambda: (
            {reason for _, reason in bad.values()}
            <= set(world.cluster.kubectl("get", "events", "-n", world.namespace).split())
        ),
    )
    assert len(world.shard.sessions) == 1
    assert world.metric("process_resident_memory_bytes") < 512 * 2**20
    assert operator.http("/readyz")[0] == 200


@pytest.mark.rule("operator#e9", "operator#gang-rows")
async def test_gangs_are_rows_of_their_own_by_namespace_selector_and_key(world: Bench) -> None:
    other = world.cluster.make_namespace(f"{world.namespace[:40]}-two")
    elsewhere = f"{GROUP}/namespaces/{other}/capacityrequests"

    def gang(app: str, key: str = "rack") -> dict[str, object]:
        return {"coLocation": {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}}

    try:
        for number in range(2):
            world.add_request(f"equal-{number}", **gang("train"))
        world.add_request("selector", **gang("other"))
        world.add_request("key", **gang("train", "zone"))
        world.add_request("plain")
        body = {**request_body("namespace"), "spec": world.request("equal-0")["spec"]}
        world.cluster.admin.post(elsewhere, body)
        world.start()
        await world.connected()
        await world.until("all are seen", lambda: len(world.shard.current.rollups[-1].needs) == 5)
        rows = world.shard.current.rollups[-1].needs
        assert len({need.group for need in rows}) == 5
        assert sorted(need.aggregate_resources["cpu"] for need in rows) == [
            "1",
            "500m",
            "500m",
            "500m",
            "500m",
        ]
        for need in rows:
            same = [item for item in need.requirements if not item.values]
            assert len(same) == bool(need.group)
    finally:
        world.cluster.admin.delete(elsewhere)
        world.cluster.admin.delete(f"/api/v1/namespaces/{other}")


@pytest.mark.rule("operator#reclaim-unresolved", "operator#e20")
async def test_an_entry_that_is_no_node_is_counted_recorded_and_not_started(world: Bench) -> None:
    world.start()
    await world.connected()
    world.shard.send(node_state("m-1", "Configured", provider_id="i-1"))
    await world.until("Ready", lambda: world.phase("m-1") == "Ready")
    world.shard.send(reclaim("i1", "m-1"))
    await world.until("the ack", lambda: world.acks() == [("i1", 0)])
    assert world.metric('bigfleet_operator_reclaims_total{outcome="unresolved"}') == 1
    await world.until("an event", lambda: "ReclaimUnresolved" in world.cluster.kubectl("get", "events", "-A"))


@pytest.mark.rule("operator#node-identity", "operator#e20")
async def test_a_node_named_after_its_host_is_referenced_and_drained_without_our_label(world: Bench) -> None:
    world.start()
    await world.connected()
    nodes = "/api/v1/nodes"
    world.cluster.admin.post(nodes, {"metadata": {"name": "i-77.compute.internal"}})
    try:
        world.shard.send(node_state("m-77", "Configured", provider_id="aws:///zone/i-77"))
        await world.until("Ready", lambda: world.phase("m-77") == "Ready")
        world.shard.send(reclaim("i77", "m-77"))
        await world.until("the ack", lambda: ("i77", 1) in world.acks())
        await world.until("Drained", lambda: world.phase("m-77") == "Drained")
        assert world.cluster.admin.get(f"{nodes}/i-77.compute.internal")["spec"]["unschedulable"] is True
    finally:
        world.cluster.admin.delete(f"{nodes}/i-77.compute.internal")


@pytest.mark.rule("operator#no-rollup-before-sync")
async def test_with_the_definition_missing_no_rollup_is_sent_and_then_it_is_without_a_restart(
    world: Bench,
) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    path = f"{crds}/upcomingnodes.bigfleet.lucy.sh"
    definition = world.cluster.admin.get(path)
    world.cluster.admin.delete(path)
    await world.until("it is gone", lambda: world.cluster.admin.call("GET", UPCOMING).status == 404)
    operator = world.start()
    await world.until("it looks", lambda: operator.lines("list_watch_failed"))
    assert operator.http("/readyz")[0] == 503
    assert world.shard.sessions == []
    fresh = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
    world.cluster.admin.post(crds, {**fresh, "metadata": {"name": definition["metadata"]["name"]}})
    await world.connected()
    await world.until("ready", lambda: operator.http("/readyz")[0] == 200)


@pytest.mark.rule(
    "operator#phases", "operator#un-spec", "operator#un-merge-patch", "operator#available-capacity"
)
async def test_objects_take_their_shape_from_frames(world: Bench) -> None:
    world.start("--orphan-sweep=false")
    await world.connected()
    for state, phase in (
        ("Configuring", "Registered"),
        ("Configured", "Ready"),
        ("Draining", "Draining"),
        ("Failed", "Failed"),
    ):
        world.shard.send(node_state("m-1", state, last_error="boom"))
        await world.until(phase, lambda wanted=phase: world.phase("m-1") == wanted)  # type: ignore[misc]
    assert (world.upcoming("m-1") or {})["spec"] == {"resources": {}}
    labels = {"a": "1", "b": "2"}
    world.shard.send(
        node_state("m-1", "Configuring", labels=labels, resources={"cpu": "8", "nvidia.com/gpu": "1"})
    )
    await world.until("labels", lambda: (world.upcoming("m-1") or {})["spec"].get("labels") == labels)
    await world.until("no error", lambda: not world.error("m-1"))
    world.shard.send(
        node_state("m-1", "Configured", labels={"b": "2"}, resources={"cpu": "8"}, provider_id="p-1")
    )
    await world.until("Ready", lambda: world.phase("m-1") == "Ready")
    assert (world.upcoming("m-1") or {})["spec"] == {"labels": {"b": "2"}, "resources": {"cpu": "8"}}
    key = "available:p=1|ipb=0|rpb=0|reqs=zone:1:a;|spr="
    world.shard.send(hint(key.removeprefix("available:"), 3, cost=0.096))
    name = f"ac-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    await world.until("the hint", lambda: world.cluster.admin.find(f"{HINTS}/{name}"))
    assert world.cluster.admin.get(f"{HINTS}/{name}")["spec"]["cost"] == "0.096"
    assert "0.096" in world.cluster.kubectl("get", "avc")
    world.shard.send(node_state("m-1", "Idle"))
    await world.until("gone", lambda: world.phase("m-1") == "gone")


@pytest.mark.rule("operator#node-identity")
@pytest.mark.parametrize("how", ["label", "provider id"])
async def test_the_node_is_noted_when_it_joins(world: Bench, how: str) -> None:
    world.start()
    await world.connected()
    world.shard.send(node_state("m-1", "Configured", provider_id="i-1"))
    await world.until("Ready", lambda: world.phase("m-1") == "Ready")
    options = (
        {"labels": {"bigfleet.lucy.sh/machine-id": "m-1"}}
        if how == "label"
        else {"provider_id": "aws:///z/i-1"}
    )
    world.add_node("ip-10-0-0-1", **options)
    await world.until("noted", lambda: (world.upcoming("m-1") or {})["status"].get("nodeRef"))
    reference = (world.upcoming("m-1") or {})["status"]["nodeRef"]
    assert reference == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "ip-10-0-0-1",
        "uid": world.node("ip-10-0-0-1")["metadata"]["uid"],
    }
    assert "ip-10-0-0-1" in world.cluster.kubectl("get", "upn")


@pytest.mark.rule("operator#sweep-with-marker", "operator#e7")
async def test_after_an_absence_objects_equal_the_bound_machines_and_nothing_else_is_written(
    world: Bench,
) -> None:
    operator = world.start()
    await world.connected()
    frames = [node_state(f"m-{number}", "Configured", resources={"cpu": "8"}) for number in range(6)]
    world.shard.send(*frames)
    await world.until("six", lambda: all(world.phase(f"m-{number}") == "Ready" for number in range(6)))
    operator.kill()
    writes = len(world.calls("patch", "upcomingnodes")) + len(world.calls("patch", "upcomingnodes", "status"))
    world.shard.replay = frames[:4]
    world.start()
    await world.connected(2)
    await world.until("two are gone", lambda: world.phase("m-4") == world.phase("m-5") == "gone")
    assert [world.phase(f"m-{number}") for number in range(4)] == ["Ready"] * 4
    after = len(world.calls("patch", "upcomingnodes")) + len(world.calls("patch", "upcomingnodes", "status"))
    assert after == writes


@pytest.mark.rule("operator#bootstrap-answer", "operator#e18")
async def test_a_template_reaches_the_shard_unchanged_and_no_log(world: Bench) -> None:
    template = world.directory / "join.tmpl"
    template.write_text("#cloud-config\ntoken: hush-hush\nnode: {{.MachineID}} of {{.ClusterID}}\n")
    operator = world.start(f"--bootstrap-template-file={template}", "--log-level=debug", "--bootstrap-ttl=90")
    await world.connected()
    world.shard.send(blob_request("r-1", "m-1"))
    await world.until("the blob", lambda: "r-1" in world.shard.current.blobs)
    blob = world.shard.current.blobs["r-1"]
    assert blob.user_data == f"#cloud-config\ntoken: hush-hush\nnode: m-1 of {CLUSTER}\n".encode()
    assert blob.ttl_seconds == 90
    assert "hush-hush" not in operator.log.read_text()
    assert await asyncio.to_thread(operator.end) == 0
    assert "hush-hush" not in operator.log.read_text()


@pytest.mark.rule("operator#roles")
async def test_with_a_lease_it_works_under_the_role_of_its_own_namespace(world: Bench) -> None:
    world.start("--leader-elect")
    await world.connected()
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/bigfleet-operator"
    assert world.cluster.admin.get(leases)["spec"]["holderIdentity"]
    world.cluster.admin.delete(leases)


@pytest.mark.rule("operator#take-over", "operator#e24")
async def test_objects_that_the_original_left_are_taken_over_without_a_rewrite(world: Bench) -> None:
    body = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "UpcomingNode",
        "metadata": {"name": "un-m-1"},
        "spec": {"resources": {"cpu": "8000m"}, "labels": {"zone": "a"}},
    }
    world.cluster.admin.post(UPCOMING, body)
    status = {"phase": "Ready", "provisioningStartTime": "2026-06-01T00:00:00Z", "providerID": "i-1"}
    world.cluster.admin.patch(f"{UPCOMING}/un-m-1/status", {"status": status})
    world.add_request("cr-pod-web-x7k2p")
    world.cluster.admin.patch(
        f"{world.requests}/cr-pod-web-x7k2p/status",
        {"status": {"phase": "Acknowledged", "acknowledgedAt": "2026-06-01T00:00:00Z"}},
    )
    before = (world.upcoming("m-1") or {})["metadata"]["resourceVersion"]
    request = world.request("cr-pod-web-x7k2p")["metadata"]["resourceVersion"]
    world.shard.replay = [
        node_state("m-1", "Configured", labels={"zone": "a"}, resources={"cpu": "8"}, provider_id="i-1")
    ]
    world.start()
    await world.connected()
    assert [dict(need.aggregate_resources) for need in world.shard.current.rollups[0].needs] == [
        {"cpu": "500m"}
    ]
    noop = 'bigfleet_operator_upcoming_node_writes_total{op="status_update",outcome="noop"}'
    await world.until("looked at", lambda: world.metric(noop) >= 1)
    assert (world.upcoming("m-1") or {})["metadata"]["resourceVersion"] == before
    assert world.request("cr-pod-web-x7k2p")["metadata"]["resourceVersion"] == request
