"""Calls carry what they must, and a refused login is renewed once."""

import pytest

from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import MalformedAnswerError, NotFoundError, UnauthorizedError
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import CAPACITY_REQUESTS, NODES, PODS, UPCOMING_NODES, ObjectKey
from bigfleet.kube.transport import ApiCall, ApiResponse
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault
from tests.support.kube_api.world import KubeWorld, capacity_request, pod

REFUSED = ApiResponse(401, {"code": 401, "reason": "Unauthorized"})


def test_a_login_refused_once_is_renewed_and_the_call_made_again() -> None:
    async def main() -> None:
        world = KubeWorld()
        transport = world.api.transport()
        world.transport._transport = transport
        world.transport.add(Fault(REFUSED, times=1))
        assert await world.client.list_all(Selection(NODES)) == []
        assert transport.renewals == 1

    run_virtual(main())


def test_a_login_refused_twice_is_raised_and_not_tried_again() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.transport.add(Fault(REFUSED, times=100))
        with pytest.raises(UnauthorizedError):
            await world.client.list_all(Selection(NODES))
        assert len(world.transport.calls) == 2

    run_virtual(main())


def test_a_list_follows_its_pages_to_the_end() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add_requests(7)
        await world.add(CAPACITY_REQUESTS, capacity_request("x", "shop-b"))
        found = await world.client.list_all(Selection(CAPACITY_REQUESTS), limit=3)
        names = [item["metadata"]["name"] for item in found]
        assert names == [*(f"cr-0000{n}" for n in range(7)), "x"]
        assert len(world.transport.calls) == 3
        inside = await world.client.list_all(Selection(CAPACITY_REQUESTS, namespace="shop-b"))
        assert [item["metadata"]["name"] for item in inside] == ["x"]

    run_virtual(main())


def test_a_list_that_expires_between_its_pages_is_had_in_one_answer() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add_requests(7)
        world.transport.add(Fault(ApiResponse(410, {"code": 410}), times=100, query="continue"))
        assert len(await world.client.list_all(Selection(CAPACITY_REQUESTS), limit=3)) == 7
        assert [call.query.get("limit") for _, call in world.transport.calls] == ["3", "3", None]

    run_virtual(main())


def test_selectors_reach_the_server() -> None:
    async def main() -> None:
        world = KubeWorld()
        for number, node in enumerate(("n1", "n2", "n1")):
            await world.add(PODS, pod(f"p{number}", node=node, app="web" if number else "db"))
        on_n1 = await world.client.list_all(Selection(PODS, fields="spec.nodeName=n1"))
        assert [item["metadata"]["name"] for item in on_n1] == ["p0", "p2"]
        web = await world.client.list_all(Selection(PODS, labels="app in (web,api),!gone"))
        assert [item["metadata"]["name"] for item in web] == ["p1", "p2"]

    run_virtual(main())


def test_a_created_object_bears_its_kind_and_a_deletion_its_uid() -> None:
    async def main() -> None:
        world = KubeWorld()
        document = {"metadata": {"name": "un-1"}, "spec": {"resources": {}}}
        created = await world.client.create(UPCOMING_NODES, document)
        assert (created["kind"], created["apiVersion"]) == ("UpcomingNode", "bigfleet.lucy.sh/v1alpha1")
        key = ObjectKey("", "un-1")
        await world.client.delete(UPCOMING_NODES, key, uid=created["metadata"]["uid"])
        assert world.transport.calls[-1][1].body == {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": created["metadata"]["uid"]},
        }
        with pytest.raises(NotFoundError):
            await world.client.get(UPCOMING_NODES, key)

    run_virtual(main())


@pytest.mark.parametrize("body", ["<html>", 7, ["x"], {"items": 3}, {}])
def test_a_success_that_is_no_list_is_no_list(body: object) -> None:
    async def main() -> None:
        world = KubeWorld()
        world.transport.add(Fault(ApiResponse(200, body)))
        with pytest.raises(MalformedAnswerError):
            await world.client.list_all(Selection(NODES))

    run_virtual(main())


@pytest.mark.parametrize(("header", "seconds"), [("Retry-After", 7.0), ("retry-after", 7.0), ("Other", None)])
def test_the_patience_asked_for_is_read_from_the_header(header: str, seconds: float | None) -> None:
    async def main() -> None:
        world = KubeWorld()
        world.transport.add(Fault(ApiResponse(429, "later", {header: "7"})))
        with pytest.raises(Exception, match="later") as caught:
            await world.client.get(NODES, ObjectKey("", "n"))
        assert getattr(caught.value, "retry_after_s", "none") == seconds

    run_virtual(main())


def test_closing_the_client_closes_its_transport() -> None:
    async def main() -> None:
        world = KubeWorld()
        transport = world.api.transport()
        await KubeClient(transport, RateLimiter(world.clock)).close()
        assert transport.is_closed

    run_virtual(main())


def test_an_error_names_the_call() -> None:
    assert ApiCall("GET", "/api/v1/nodes/x").title == "GET /api/v1/nodes/x"
