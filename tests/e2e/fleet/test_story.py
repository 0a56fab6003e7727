"""The end-to-end stories (`operator#end-to-end`) with everything real but the machines: API servers, scheduler,
controllers, shard, operators."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigfleet.aio.identity import Identity
from tests.e2e.fleet.harness import BUDGETS, NAMESPACE, PODS, fleet, pool, start_fleet_clusters
from tests.support.certificates import Authority
from tests.support.control_plane.cluster import Cluster

pytestmark = pytest.mark.asyncio

TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.rule("operator#e1", "operator#e2", "operator#e18", "operator#e23", "operator#roles")
async def test_pending_pods_become_running_and_scaling_down_gives_machines_back_through_a_budget(
    clean_clusters: list[Cluster], tmp_path: Path
) -> None:
    async with fleet(clean_clusters[:1], tmp_path) as one:
        provider = one.start_provider([pool("metal", 4)])
        assert one.kubelets is not None
        one.kubelets.paused = True
        one.start_shard(provider)
        template = tmp_path / "join.tmpl"
        template.write_text("#!/bin/sh\njoin {{ .ClusterID }} --machine {{ .MachineID }} # ä\n")
        one.start_cluster_programs("prod-1", None, f"--bootstrap-template-file={template}")
        one.deploy("web", 4, cpu="3", nodeSelector={TYPE: "metal.8"})
        await one.until("two are on their way", lambda: one.phases() == ["Registered", "Registered"])
        for item in one.upcoming():
            assert item["spec"]["labels"][TYPE] == "metal.8"
            assert item["spec"]["resources"] == {"cpu": "8", "memory": "32Gi"}
            assert "nodeRef" not in item["status"]
        one.kubelets.paused = False
        await one.until("four pods run", lambda: len(one.running()) == 4)
        # E18: what the operator rendered arrived at the machine to the letter.
        assert one.kubelets.blobs == {
            machine: f"#!/bin/sh\njoin prod-1 --machine {machine} # ä\n".encode()
            for machine in (item["id"] for item in one.machines(state="Configured"))
        }
        assert len(one.requests()) == 4
        await one.until(
            "all acknowledged",
            lambda: {(item.get("status") or {}).get("phase") for item in one.requests()} == {"Acknowledged"},
        )
        await one.until("two are Ready", lambda: one.phases() == ["Ready", "Ready"])
        names = {item["status"]["nodeRef"]["name"] for item in one.upcoming()}
        assert names == {item["metadata"]["name"] for item in one.nodes()}
        spread = Counter(item["spec"]["nodeName"] for item in one.running())
        assert sorted(spread.values()) == [2, 2]

        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        }
        one.cluster.admin.post(BUDGETS, budget)
        # Left alone, Kubernetes may end both pods of one node, and there would be nothing for the budget to protect.
        for kept in {item["spec"]["nodeName"]: item["metadata"]["name"] for item in one.running()}.values():
            cost = {"controller.kubernetes.io/pod-deletion-cost": "100"}
            one.cluster.admin.patch(f"{PODS}/{kept}", {"metadata": {"annotations": cost}})
        one.scale("web", 2)
        await one.until("one pod on each node", lambda: len(one.pods()) == 2)
        assert len({item["spec"]["nodeName"] for item in one.pods()}) == 2
        await one.until("one is being reclaimed", lambda: "Draining" in one.phases())
        await one.until(
            "the budget says no",
            lambda: [
                event
                for event in one.cluster.audit_events("operator")
                if event.subresource == "eviction" and event.code == 429
            ],
        )
        assert len(one.running()) == 2
        assert len(one.machines(state="Draining")) == 1
        one.cluster.admin.patch(f"{BUDGETS}/web", {"spec": {"minAvailable": 1}})
        await one.until("one machine is back", lambda: len(one.machines(state="Idle")) == 3)
        await one.until("its object is gone", lambda: one.phases() == ["Ready"])
        await one.until("both pods run on the other", lambda: len(one.running()) == 2)
        assert len({item["spec"]["nodeName"] for item in one.running()}) == 1

        one.scale("web", 0)
        await one.until("all machines are back", lambda: len(one.machines(state="Idle")) == 4)
        await one.until("nothing is left", lambda: not one.upcoming() and not one.requests())
        assert one.refused() == []


@pytest.mark.rule("operator#e9")
async def test_a_gang_gathers_in_the_one_zone_that_holds_it(
    clean_clusters: list[Cluster], tmp_path: Path
) -> None:
    async with fleet(clean_clusters[:1], tmp_path) as one:
        provider = one.start_provider([pool("a", 3), pool("b", 4, zones=["zone-b"])])
        one.start_shard(provider)
        one.start_pod_controller("prod-1")
        term = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": ZONE}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        one.deploy("train", 4, cpu="7500m", affinity=affinity, nodeSelector={TYPE: "metal.8"})
        # A first roll-up with one pod of the gang could choose the other zone, and once that pod runs there, the scheduler
        # wants the others beside it for minutes.
        await one.until("the whole gang asks", lambda: len(one.requests()) == 4)
        one.start_operator("prod-1")
        await one.until("four pods run", lambda: len(one.running()) == 4)
        zones = {item["metadata"]["name"]: item["metadata"]["labels"][ZONE] for item in one.nodes()}
        assert {zones[item["spec"]["nodeName"]] for item in one.running()} == {"zone-b"}
        assert one.refused() == []


@pytest.mark.rule("operator#e4", "operator#e5")
async def test_a_cluster_of_higher_priority_takes_the_machines_of_another(
    clean_clusters: list[Cluster], tmp_path: Path
) -> None:
    async with fleet(clean_clusters, tmp_path) as one:
        provider = one.start_provider([pool("metal", 4)])
        one.start_shard(provider)
        one.start_cluster_programs("prod-1")
        one.start_cluster_programs("prod-2")
        one.deploy("batch", 4, cpu="7500m", priorityClassName="low", cluster_id="prod-1")
        await one.until("A holds all four", lambda: len(one.running("prod-1")) == 4)
        one.deploy("live", 4, cpu="7500m", priorityClassName="high", cluster_id="prod-2")
        await one.until("B holds all four", lambda: len(one.running("prod-2")) == 4, 240)
        await one.until("A holds none", lambda: not one.running("prod-1") and not one.upcoming("prod-1"))
        assert len(one.requests("prod-1")) == 4
        await one.until("all four are known as joined", lambda: one.phases("prod-2") == ["Ready"] * 4)
        assert Counter(item["cluster"] for item in one.machines(state="Configured")) == {"prod-2": 4}
        assert {item["metadata"]["name"] for item in one.upcoming("prod-2")} == {
            f"un-metal-{n}" for n in range(4)
        }
        assert one.refused() == []


@pytest.mark.rule("operator#e8")
async def test_inside_mutual_tls_the_right_certificate_works_and_anothers_does_not(
    clean_clusters: list[Cluster], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "pki", datetime.now(UTC))
    async with fleet(clean_clusters, tmp_path) as one:
        provider = one.start_provider([pool("metal", 2)], authority.issue(Identity.shard("provider")))
        one.start_shard(provider, tls=authority.issue(Identity.shard("shard-0")))
        one.start_cluster_programs("prod-1", authority.issue(Identity.cluster("prod-1")))
        stranger, _ = one.start_cluster_programs("prod-2", authority.issue(Identity.cluster("prod-9")))
        one.deploy("web", 1, cpu="6")
        await one.until("the pod runs", lambda: len(one.running()) == 1)
        await one.until("refused", lambda: stranger.lines("session_refused"))
        assert "PERMISSION_DENIED" in stranger.lines("session_refused")[0]["error"]
        assert stranger.http("/readyz")[0] == 503
        assert stranger.code is None


@pytest.mark.rule("operator#e21")
async def test_an_operator_killed_in_mid_drain_is_followed_by_one_that_finishes_it(
    clean_clusters: list[Cluster], tmp_path: Path
) -> None:
    async with fleet(clean_clusters[:1], tmp_path) as one:
        provider = one.start_provider([pool("metal", 2)])
        one.start_shard(provider)
        operator, controller = one.start_cluster_programs("prod-1")
        one.deploy("web", 2, cpu="7500m", nodeSelector={TYPE: "metal.8"})
        await one.until("two pods run", lambda: len(one.running()) == 2)
        (held, _) = sorted(item["metadata"]["name"] for item in one.running())
        path = f"{PODS}/{held}"
        # No longer the Deployment's, so scaling down leaves it, and a budget of its own holds it on its node.
        one.cluster.admin.patch(path, {"metadata": {"labels": {"app": "held"}}})
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "held"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}},
        }
        one.cluster.admin.post(BUDGETS, budget)
        controller.kill()
        for item in one.requests():
            one.cluster.admin.delete(
                f"/apis/bigfleet.lucy.sh/v1alpha1/namespaces/{NAMESPACE}/capacityrequests/{item['metadata']['name']}"
            )
        await one.until(
            "the budget says no",
            lambda: [e for e in one.cluster.audit_events("operator") if e.name == held and e.code == 429],
        )
        operator.kill()
        one.start_operator("prod-1")
        refused = len(one.cluster.audit_events("operator"))
        await one.until(
            "the next one asks too",
            lambda: [
                e for e in one.cluster.audit_events("operator")[refused:] if e.name == held and e.code == 429
            ],
        )
        assert held in {item["metadata"]["name"] for item in one.running()}
        one.cluster.admin.delete(f"{BUDGETS}/held")
        await one.until("both machines are back", lambda: len(one.machines(state="Idle")) == 2)
        await one.until("nothing is left", lambda: not one.upcoming() and not one.nodes())


@pytest.mark.rule("operator#e6")
@pytest.mark.long
async def test_twelve_machines_reach_ready_by_reconcile_and_surplus_drains_without_a_failure(
    clean_clusters: list[Cluster], tmp_path: Path
) -> None:
    async with fleet(clean_clusters[:1], tmp_path) as one:
        provider = one.start_provider([pool("metal", 12)])
        one.start_shard(provider)
        one.start_cluster_programs("prod-1")
        one.deploy("web", 12, cpu="7500m")
        await one.until("twelve run", lambda: len(one.running()) == 12, 240)
        await one.until("twelve are Ready", lambda: one.phases() == ["Ready"] * 12)
        one.scale("web", 2)
        await one.until("ten are back", lambda: len(one.machines(state="Idle")) == 10, 240)
        await one.until("two are left", lambda: one.phases() == ["Ready"] * 2)
        assert one.machines(state="Failed") == []


@pytest.mark.rule("operator#e3")
async def test_with_shard_and_operator_killed_in_turn_nothing_is_lost(
    clean_clusters: list[Cluster], tmp_path: Path
) -> None:
    async with fleet(clean_clusters[:1], tmp_path) as one:
        provider = one.start_provider([pool("metal", 4)])
        shard = one.start_shard(provider)
        operator, _ = one.start_cluster_programs("prod-1")
        one.deploy("web", 2, cpu="6")
        await one.until("two pods run", lambda: len(one.running()) == 2)
        before = {item["metadata"]["uid"] for item in one.running()}
        shard.kill()
        operator.kill()
        one.scale("web", 3)
        one.start_shard(provider, one.shard_port)
        one.start_cluster_programs("prod-1")
        await one.until("the third runs too", lambda: len(one.running()) == 3)
        assert before <= {item["metadata"]["uid"] for item in one.running()}
        await one.until("three are Ready", lambda: one.phases() == ["Ready"] * 3)
        assert len(one.requests()) == 3


@pytest.fixture
def three_clusters(clean_clusters: list[Cluster], testbed_binary: Path) -> Iterator[list[Cluster]]:
    (third,) = start_fleet_clusters(testbed_binary, 1)
    try:
        yield [*clean_clusters, third]
    finally:
        third.stop()


@pytest.mark.rule("operator#e3", "operator#e4")
@pytest.mark.long
async def test_three_clusters_outlive_their_shard_unchanged_and_nothing_crosses(
    three_clusters: list[Cluster], tmp_path: Path
) -> None:
    ids = ("prod-1", "prod-2", "prod-3")
    async with fleet(three_clusters, tmp_path) as one:
        provider = one.start_provider([pool("metal", 7)])
        shard = one.start_shard(provider)
        operators = {name: one.start_cluster_programs(name)[0] for name in ids}
        for number, name in enumerate(ids):
            one.deploy("web", 1 + number % 2, cpu="6", cluster_id=name)
        for number, name in enumerate(ids):
            await one.until(
                f"{name} is served",
                lambda one_id=name, count=1 + number % 2: (  # type: ignore[misc]
                    len(one.running(one_id)) == count
                    and one.phases(one_id) == ["Ready"] * count
                    and all(item["status"]["phase"] == "Acknowledged" for item in one.requests(one_id))
                ),
            )

        # E3: the shard is gone for longer than five seconds, and nobody notices.
        before = {name: one.state(name) for name in ids}
        shard.kill()
        dials = "bigfleet_operator_session_reconnects_total"
        for name in ids:
            await one.until("four dials", lambda one_id=name: one.metric(operators[one_id], dials) >= 4)  # type: ignore[misc]
        assert {name: one.state(name) for name in ids} == before
        acked = "bigfleet_operator_last_ack_timestamp_seconds"
        at = {name: one.metric(operators[name], acked) for name in ids}
        shard = one.start_shard(provider, one.shard_port)
        for name in ids:
            await one.until(
                "its demand is known again",
                lambda one_id=name: one.metric(operators[one_id], acked) > at[one_id],  # type: ignore[misc]
            )
        decided = one.metric(shard, "bigfleet_shard_cycle_duration_seconds_count")
        await one.until(
            "cycles", lambda: one.metric(shard, "bigfleet_shard_cycle_duration_seconds_count") > decided + 3
        )
        assert one.machines(state="Draining") == []
        assert {name: one.state(name) for name in ids} == before

        # E4: without its operator a cluster stays as it is, and the others are served.
        assert operators["prod-3"].end() == 0
        one.scale("web", 2, "prod-1")
        await one.until("another pod runs", lambda: len(one.running("prod-1")) == 2)
        await one.until("two are Ready", lambda: one.phases("prod-1") == ["Ready"] * 2)
        assert {name: one.state(name) for name in ids[1:]} == {name: before[name] for name in ids[1:]}
        held = {name: {item["id"] for item in one.machines(cluster=name)} for name in ids}
        assert [len(held[name]) for name in ids] == [2, 2, 1]
        for name in ids:
            assert {item["metadata"]["name"] for item in one.upcoming(name)} == {
                f"un-{machine}" for machine in held[name]
            }
        assert one.refused() == []
