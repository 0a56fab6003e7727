"""Every answer to an eviction has its meaning: `operator#drain-rounds`."""

import pytest

from bigfleet.kube.eviction import EvictionResult, EvictionVerdict, evict
from bigfleet.kube.resources import PODS, ObjectKey
from bigfleet.kube.transport import ApiResponse, Document
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.objects import BUDGETS
from tests.support.kube_api.world import KubeWorld, pod

KEY = ObjectKey("shop", "web-0")


def budget(name: str, allowed: int) -> Document:
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def refusal(status: int, reason: str = "", message: str = "no", cause: str = "") -> ApiResponse:
    causes = [{"reason": cause, "message": message}] if cause else []
    body = {"code": status, "reason": reason, "message": message, "details": {"causes": causes}}
    return ApiResponse(status, body)


@pytest.mark.parametrize(
    ("what", "verdict"),
    [
        pytest.param(refusal(404, "NotFound"), EvictionVerdict.GONE, id="already gone"),
        pytest.param(refusal(409, "Conflict"), EvictionVerdict.REPLACED, id="another pod has the name"),
        pytest.param(refusal(429, cause="DisruptionBudget"), EvictionVerdict.BUDGET, id="budget exhausted"),
        pytest.param(refusal(429), EvictionVerdict.TEMPORARY, id="server busy"),
        pytest.param(ApiResponse(429, "slow down"), EvictionVerdict.TEMPORARY, id="server busy, as text"),
        pytest.param(refusal(500), EvictionVerdict.TEMPORARY, id="server error"),
        pytest.param(ApiResponse(503, "<html>"), EvictionVerdict.TEMPORARY, id="a gateway's page"),
        pytest.param(Trouble.BREAK, EvictionVerdict.TEMPORARY, id="no connection"),
        pytest.param(
            refusal(500, "InternalError", "This pod has more than one PodDisruptionBudget, which the ..."),
            EvictionVerdict.SEVERAL_BUDGETS,
            id="several budgets match",
        ),
        pytest.param(
            refusal(403, cause="NamespaceTerminating"), EvictionVerdict.TERMINATING, id="namespace ends"
        ),
        pytest.param(refusal(403, cause="DisruptionBudget"), EvictionVerdict.BUDGET, id="negative allowance"),
        pytest.param(refusal(403, "Forbidden"), EvictionVerdict.FORBIDDEN, id="missing permission"),
        pytest.param(refusal(422, "Invalid"), EvictionVerdict.FORBIDDEN, id="never to be accepted"),
    ],
)
def test_an_answer_means(what: ApiResponse | Trouble, verdict: EvictionVerdict) -> None:
    async def main() -> None:
        world = KubeWorld()
        world.transport.add(Fault(what))
        assert (await evict(world.client, KEY, "uid-1")).verdict is verdict

    run_virtual(main())


def test_a_budget_is_spent_and_then_blocks() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add(BUDGETS, budget("web", 1))
        pods = [await world.add(PODS, pod(f"web-{number}", app="web")) for number in range(2)]
        answers = [
            await evict(world.client, ObjectKey("shop", item["metadata"]["name"]), item["metadata"]["uid"])
            for item in pods
        ]
        assert [answer.verdict for answer in answers] == [EvictionVerdict.ACCEPTED, EvictionVerdict.BUDGET]
        assert [str(key) for key in world.api.objects.of(PODS)] == ["shop/web-1"]

    run_virtual(main())


def test_two_budgets_on_one_pod_are_told_apart_from_a_passing_failure() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add(BUDGETS, budget("a", 1))
        await world.add(BUDGETS, budget("b", 1))
        item = await world.add(PODS, pod("web-0", app="web"))
        answer = await evict(world.client, KEY, item["metadata"]["uid"])
        assert answer.verdict is EvictionVerdict.SEVERAL_BUDGETS
        assert answer.label == "500-several-budgets"

    run_virtual(main())


def test_another_pod_of_the_same_name_is_never_evicted() -> None:
    async def main() -> None:
        world = KubeWorld()
        await world.add(PODS, pod("web-0"))
        assert (await evict(world.client, KEY, "the-old-one")).verdict is EvictionVerdict.REPLACED
        assert KEY in world.api.objects.of(PODS)

    run_virtual(main())


def test_an_eviction_goes_before_everything_else_and_carries_its_uid() -> None:
    async def main() -> None:
        world = KubeWorld()
        item = await world.add(PODS, pod("web-0"))
        assert await evict(world.client, KEY, item["metadata"]["uid"]) == EvictionResult(
            EvictionVerdict.ACCEPTED, 201
        )
        (_, call), *_ = world.transport.calls
        assert (call.method, call.path) == ("POST", "/api/v1/namespaces/shop/pods/web-0/eviction")
        assert call.body is not None
        assert call.body["apiVersion"] == "policy/v1"
        assert call.body["deleteOptions"] == {"preconditions": {"uid": item["metadata"]["uid"]}}

    run_virtual(main())
