"""The in-memory API server does what the real one does where our code depends on it."""

import asyncio
import json

import pytest

from bigfleet.kube.client import Selection
from bigfleet.kube.crds.capacity_request import CAPACITY_REQUEST
from bigfleet.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidObjectError,
    NotFoundError,
)
from bigfleet.kube.eviction import EvictionVerdict, evict
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS, NODES, PODS, UPCOMING_NODES, ObjectKey
from bigfleet.kube.roles import OPERATOR
from bigfleet.kube.transport import ApiCall, Document
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.world import KubeWorld, capacity_request, pod

KEY = ObjectKey("shop", "cr-1")


def test_a_created_object_gets_its_metadata_and_loses_its_status() -> None:
    async def main() -> None:
        world = KubeWorld()
        document = {**capacity_request("cr-1"), "status": {"phase": "Acknowledged"}}
        document["spec"]["unknown"] = 1
        created = await world.client.create(CAPACITY_REQUESTS, document)
        assert "status" not in created
        assert "unknown" not in created["spec"]
        metadata = created["metadata"]
        assert metadata["creationTimestamp"] == "2030-01-01T00:00:00Z"
        assert (metadata["generation"], len(metadata["uid"])) == (1, 36)
        with pytest.raises(AlreadyExistsError):
            await world.client.create(CAPACITY_REQUESTS, document)

    run_virtual(main())


def test_a_name_may_be_generated() -> None:
    async def main() -> None:
        world = KubeWorld()
        document = capacity_request("x")
        document["metadata"] = {"generateName": "cr-", "namespace": "shop"}
        answer = await world.transport.send(
            ApiCall(
                "POST",
                CAPACITY_REQUESTS.path(namespace="shop"),
                body={**document, "kind": "CapacityRequest", "apiVersion": "bigfleet.lucy.sh/v1alpha1"},
            )
        )
        assert isinstance(answer.body, dict)
        assert answer.body["metadata"]["name"].startswith("cr-")

    run_virtual(main())


def test_spec_and_status_are_written_apart() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add(CAPACITY_REQUESTS, capacity_request("cr-1"))
        both: Document = {"spec": {"priority": 7}, "status": {"phase": "Pending"}}
        after = await world.client.merge_patch(CAPACITY_REQUESTS, KEY, both)
        assert after["spec"]["priority"] == 7
        assert "status" not in after
        assert after["metadata"]["generation"] == 2
        after = await world.client.merge_patch(
            CAPACITY_REQUESTS, KEY, {**both, "spec": {"priority": 9}}, subresource="status"
        )
        assert (after["spec"]["priority"], after["status"]["phase"]) == (7, "Pending")
        assert after["metadata"]["generation"] == 2

    run_virtual(main())


def test_a_write_that_changes_nothing_makes_no_version() -> None:
    async def main() -> None:
        world = KubeWorld()
        created = await world.add(CAPACITY_REQUESTS, capacity_request("cr-1"))
        after = await world.client.merge_patch(CAPACITY_REQUESTS, KEY, {"spec": {"priority": 100}})
        assert after["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]

    run_virtual(main())


@pytest.mark.parametrize(
    ("field", "error"), [("resourceVersion", ConflictError), ("uid", InvalidObjectError)]
)
def test_a_patch_that_names_another_state_is_refused(field: str, error: type[Exception]) -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add(CAPACITY_REQUESTS, capacity_request("cr-1"))
        with pytest.raises(error):
            await world.client.merge_patch(
                CAPACITY_REQUESTS, KEY, {"metadata": {field: "1"}, "spec": {"priority": 1}}
            )

    run_virtual(main())


def test_a_replacement_of_an_old_version_conflicts() -> None:
    async def main() -> None:
        world = KubeWorld()
        old = await world.add(CAPACITY_REQUESTS, capacity_request("cr-1"))
        await world.client.merge_patch(CAPACITY_REQUESTS, KEY, {"spec": {"priority": 1}})
        with pytest.raises(ConflictError):
            await world.client.replace(CAPACITY_REQUESTS, old)

    run_virtual(main())


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"priority": "high"}, "spec.priority"),
        ({"priority": True}, "spec.priority"),
        ({"resources": None}, "spec.resources"),
        ({"resources": {"cpu": "much"}}, "spec.resources.cpu"),
        ({"resources": {"cpu": 1.5}}, "spec.resources.cpu"),
        ({"requirements": [{"key": "a"}]}, "spec.requirements[0].operator"),
        ({"requirements": [{"key": "a" * 318, "operator": "In"}]}, "spec.requirements[0].key"),
        ({"requirements": [{"key": "a", "operator": "Exists"}] * 65}, "spec.requirements"),
        ({"resources": {f"r{n}": 1 for n in range(65)}}, "spec.resources"),
    ],
)
def test_a_document_that_breaks_its_schema_is_refused_with_the_field(spec: Document, field: str) -> None:
    async def main() -> None:
        world = KubeWorld()
        document = capacity_request("cr-1", **spec)
        if document["spec"]["resources"] is None:
            del document["spec"]["resources"]
        with pytest.raises(InvalidObjectError) as caught:
            await world.client.create(CAPACITY_REQUESTS, document)
        assert field in [cause.field for cause in caught.value.causes]

    run_virtual(main())


def test_a_finalizer_holds_the_object_until_it_is_taken_off() -> None:
    async def main() -> None:
        world = KubeWorld()
        document = capacity_request("cr-1")
        document["metadata"]["finalizers"] = ["example.com/wait"]
        await world.add(CAPACITY_REQUESTS, document)
        await world.client.delete(CAPACITY_REQUESTS, KEY)
        held = await world.client.get(CAPACITY_REQUESTS, KEY)
        assert held["metadata"]["deletionTimestamp"]
        await world.client.merge_patch(CAPACITY_REQUESTS, KEY, {"metadata": {"finalizers": None}})
        with pytest.raises(NotFoundError):
            await world.client.get(CAPACITY_REQUESTS, KEY)

    run_virtual(main())


def test_what_a_pod_owned_goes_with_it_unless_the_collector_stands_still() -> None:
    async def main() -> None:
        world = KubeWorld()
        for name in ("a", "b"):
            owner = await world.add(PODS, pod(name))
            owned = capacity_request(f"cr-{name}")
            owned["metadata"]["ownerReferences"] = [{"uid": owner["metadata"]["uid"], "kind": "Pod"}]
            await world.add(CAPACITY_REQUESTS, owned)
        await world.client.delete(PODS, ObjectKey("shop", "a"))
        assert [str(key) for key in world.api.objects.of(CAPACITY_REQUESTS)] == ["shop/cr-b"]
        world.api.collects_garbage = False
        await world.client.delete(PODS, ObjectKey("shop", "b"))
        assert len(world.api.objects.of(CAPACITY_REQUESTS)) == 1

    run_virtual(main())


def test_an_evicted_pod_may_linger_until_its_kubelet_is_done() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.api.pods_linger = True
        item = await world.add(PODS, pod("web-0"))
        key = ObjectKey("shop", "web-0")
        assert (await evict(world.client, key, item["metadata"]["uid"])).verdict is EvictionVerdict.ACCEPTED
        assert (await world.client.get(PODS, key))["metadata"]["deletionTimestamp"]
        world.api.finish_pod(key)
        assert (await evict(world.client, key, item["metadata"]["uid"])).verdict is EvictionVerdict.GONE

    run_virtual(main())


def test_nothing_is_created_in_a_namespace_that_ends() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.api.terminating.add("shop")
        with pytest.raises(ForbiddenError) as caught:
            await world.client.create(CAPACITY_REQUESTS, capacity_request("cr-1"))
        assert caught.value.has_cause("NamespaceTerminating")

    run_virtual(main())


def test_a_role_allows_what_it_says_and_nothing_else() -> None:
    async def main() -> None:
        world = KubeWorld(role=OPERATOR)
        await world.add(PODS, pod("web-0"))
        assert len(await world.client.list_all(Selection(PODS))) == 1
        with pytest.raises(ForbiddenError, match='cannot delete resource "pods"'):
            await world.client.delete(PODS, ObjectKey("shop", "web-0"))
        with pytest.raises(ForbiddenError, match="cannot get"):
            await world.client.get(NODES, ObjectKey("", "n"))
        with pytest.raises(ForbiddenError, match="cannot watch"):
            async with world.client.watch(Selection(EVENTS), resource_version="1", timeout_s=10):
                pass

    run_virtual(main())


def test_a_kind_that_is_not_installed_is_not_found_until_it_is() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.api = InMemoryApi(world.clock, definitions=())
        world.transport._transport = world.api.transport()
        with pytest.raises(NotFoundError):
            await world.client.list_all(Selection(CAPACITY_REQUESTS))
        world.api.install(CAPACITY_REQUEST)
        assert await world.client.list_all(Selection(CAPACITY_REQUESTS)) == []

    run_virtual(main())


def test_pages_show_one_moment_whatever_happens_between_them() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add_requests(5)
        selection = Selection(CAPACITY_REQUESTS)
        first = await world.client.list_page(selection, limit=2)
        await world.client.delete(CAPACITY_REQUESTS, ObjectKey("shop", "cr-00003"))
        await world.client.merge_patch(
            CAPACITY_REQUESTS, ObjectKey("shop", "cr-00004"), {"spec": {"priority": 1}}
        )
        await world.add(CAPACITY_REQUESTS, capacity_request("cr-00002a"))
        second = await world.client.list_page(selection, limit=9, token=first.next_token)
        assert [item["metadata"]["name"] for item in second.items] == ["cr-00002", "cr-00003", "cr-00004"]
        assert second.items[-1]["spec"]["priority"] == 100
        assert second.resource_version == first.resource_version
        world.api.objects.compact()
        with pytest.raises(GoneError):
            await world.client.list_page(selection, limit=9, token=first.next_token)

    run_virtual(main())


def test_a_watch_with_a_selector_shows_comings_and_goings() -> None:
    async def main() -> None:
        world = KubeWorld()
        selection = Selection(PODS, fields="spec.nodeName=n1")
        version = str(world.api.objects.version)
        seen: list[str] = []

        async def look() -> None:
            async with world.client.watch(selection, resource_version=version, timeout_s=300) as lines:
                async for line in lines:
                    kind = line.split(b'"')[3].decode()
                    seen.append(kind)

        looking = asyncio.ensure_future(look())
        await world.add(PODS, pod("a"))
        await world.client.merge_patch(PODS, ObjectKey("shop", "a"), {"spec": {"nodeName": "n1"}})
        await world.client.merge_patch(PODS, ObjectKey("shop", "a"), {"spec": {"x": "y"}})
        await world.client.merge_patch(PODS, ObjectKey("shop", "a"), {"spec": {"nodeName": "n2"}})
        await world.client.delete(PODS, ObjectKey("shop", "a"))
        await world.clock.sleep(61)
        assert seen == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
        await looking
        assert world.clock.monotonic_ns() == pytest.approx(300e9, rel=0.01)

    run_virtual(main())


def test_what_a_caller_does_to_an_answer_does_not_reach_the_cluster() -> None:
    async def main() -> None:
        world = KubeWorld()
        document: Document = {"metadata": {"name": "un-1"}, "spec": {"resources": {}, "labels": {"a": "1"}}}
        created = await world.client.create(UPCOMING_NODES, document)
        created["spec"]["labels"]["a"] = "2"
        document["spec"]["labels"]["a"] = "3"
        assert (await world.client.get(UPCOMING_NODES, ObjectKey("", "un-1")))["spec"]["labels"] == {"a": "1"}

    run_virtual(main())


def test_a_watch_shows_what_happens_while_it_gives_its_lines_away() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add_requests(3)
        seen: list[str] = []
        opened = world.client.watch(Selection(CAPACITY_REQUESTS), resource_version="1", timeout_s=5)
        async with opened as lines:
            async for line in lines:
                event = json.loads(line)
                seen.append(f"{event['type']} {event['object']['metadata']['name']}")
                if len(seen) == 1:
                    # Between the first line and the second, which is on its way already.
                    await world.add(CAPACITY_REQUESTS, capacity_request("late"))
                if len(seen) == 4:
                    break
        assert seen == [*(f"ADDED cr-0000{number}" for number in range(3)), "ADDED late"]

    run_virtual(main())
