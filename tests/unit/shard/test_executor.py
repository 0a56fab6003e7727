"""Details of carrying an action out that need a shard around them (`shard#bootstrap`)."""

import pytest

from bigfleet.demo.session_peer import good_blob
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import shard_pb2
from tests.support.blob_answers import no_blob
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 4, state=S.IDLE)


def short_lived(request: shard_pb2.BootstrapRequest) -> shard_pb2.BootstrapBlobResponse:
    """A blob that is good for a second."""
    answer = good_blob(request)
    answer.ttl_seconds = 1
    return answer


@pytest.mark.rule("shard#blob-expired")
def test_a_blob_that_expired_before_its_use_is_fetched_again() -> None:
    async def story() -> None:
        # One worker: while it is busy elsewhere, a blob that has come gets old.
        async with ObservedFleet(
            (IDLE, pool("m", 1)), FakeOptions(sync=True), execute_concurrency=1
        ) as world:
            operator = await world.operator(answer=no_blob)
            await operator.demand(need(cpu=4))
            await operator.until(lambda: len(operator.requests) == 1)
            other = await world.operator("other")
            world.fake.latency("configure-call", "5s")
            await other.demand(need("other", cpu=4))
            await world.until(lambda: bool(world.fake.calls(rpc="Configure")))
            operator.answer = good_blob
            late = short_lived(operator.requests[0])
            await operator.send(shard_pb2.OperatorMessage(bootstrap_response=late))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
            assert [request.machine_id for request in operator.requests] == ["idle-0", "idle-0"]

    run_virtual(story())


def test_a_stub_blob_needs_no_operator() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), FakeOptions(sync=True), local_bootstrap=True) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=4))
            await world.until(lambda: world.shard.inventory.count_by_state()[S.CONFIGURED] == 1)
            assert not operator.requests

    run_virtual(story())
