"""One stream to the shard: hello, cadence, liveness, what ends it and what does not."""

import asyncio
import itertools

import pytest

from bigfleet.aio.net import Code
from bigfleet.kube.resources import UPCOMING_NODES
from bigfleet.kube.transport import ApiResponse
from bigfleet.operator.core.bootstrap import TemplateRenderer
from bigfleet.v1alpha1 import shard_pb2
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.scripted_shard import ack, blob_request, node_state, reclaim
from tests.unit.operator.world import CLUSTER, World, play


@pytest.mark.rule("operator#hello-first")
def test_the_first_frame_is_hello_with_cluster_and_version() -> None:
    async def scene(world: World) -> None:
        (hello,) = world.shard.current.hellos
        assert (hello.cluster_id, hello.protocol_version) == (CLUSTER, "v1alpha1")

    play(scene)


@pytest.mark.rule("operator#rollup-cadence")
@pytest.mark.parametrize("interval_s", [10.0, 0.5])
def test_a_rollup_at_once_and_then_at_each_interval(interval_s: float) -> None:
    async def scene(world: World) -> None:
        began_s = world.now_s
        await world.eventually(lambda: len(world.shard.current.rollups) == 6)
        assert world.now_s - began_s == pytest.approx(5 * interval_s, abs=0.2)
        await world.stop_shard()
        await world.start_shard()
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        await world.connected()
        assert len(world.shard.current.rollups) == 1

    play(scene, rollup_interval_s=interval_s)


@pytest.mark.rule("operator#reconnect-delays")
def test_with_no_shard_the_waits_grow_to_half_a_minute() -> None:
    async def scene(world: World) -> None:
        dials: list[float] = []
        operator = world.start_operator()
        inner = operator._session

        def noted() -> object:
            dials.append(world.now_s)
            return inner()

        operator._session = noted  # type: ignore[method-assign,assignment]
        await world.stop_shard()
        await world.eventually(lambda: len(dials) == 14, 300)
        waits = [later - sooner for sooner, later in itertools.pairwise(dials)]
        for wait_s, least_s in zip(waits, [min(0.5 * 1.5**turn, 30) for turn in range(13)], strict=True):
            assert least_s <= wait_s <= least_s * 1.2 + 0.01

    play(scene, connect=False)


@pytest.mark.rule("operator#reconnect-delays", "operator#session-activities")
def test_a_session_that_ends_after_its_first_acknowledged_rollup_is_dialled_again_soon() -> None:
    async def scene(world: World) -> None:
        for _ in range(8):  # each of them short, as while a shard crashes again and again
            await world.eventually(lambda: world.shard.is_connected and world.shard.current.rollups, 2)
            world.shard.current.close()
            await world.eventually(lambda: not world.shard.is_connected)
        await world.connected()
        before = world.value("session_reconnects_total")
        world.shard.current.close()
        await world.eventually(lambda: not world.shard.is_connected)
        began_s = world.now_s
        await world.connected()
        assert world.now_s - began_s <= 0.5 * 1.2 + 0.1
        assert world.value("session_reconnects_total") == before + 1

    play(scene)


@pytest.mark.rule("operator#s2")
def test_a_shard_that_closes_after_each_hello_is_not_stormed() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_rollups = False
        world.shard.current.close()
        await world.eventually(lambda: not world.shard.is_connected)
        for _ in range(11):
            await world.eventually(lambda: world.shard.is_connected, 60)
            await world.clock.sleep(1)
            world.shard.current.close()
            await world.eventually(lambda: not world.shard.is_connected)
        began_s = world.now_s
        await world.eventually(lambda: world.shard.is_connected, 60)
        assert world.now_s - began_s >= 29

    play(scene)


@pytest.mark.rule("operator#replaced-session", "operator#s1")
def test_two_operators_that_take_the_session_from_each_other_wait_ever_longer() -> None:
    async def scene(world: World) -> None:
        for _ in range(12):
            await world.eventually(lambda: world.shard.is_connected and world.shard.current.rollups, 60)
            world.shard.current.end_with(Code.ABORTED)
            await world.eventually(lambda: not world.shard.is_connected)
        began_s = world.now_s
        await world.eventually(lambda: world.shard.is_connected, 60)
        assert world.now_s - began_s >= 29

    play(scene)


@pytest.mark.rule("operator#frame-dispatch")
def test_an_unknown_frame_and_a_raising_handler_leave_the_session_up() -> None:
    async def scene(world: World) -> None:
        assert world.operator is not None

        async def raises(*_: object) -> None:
            raise RuntimeError("a defect")

        world.operator.dispatch._states.handle = raises  # type: ignore[method-assign,assignment]
        world.shard.send(shard_pb2.ShardMessage(), ack("nonsense"), node_state("m", "Configured"))
        world.shard.send(blob_request("r1"))
        await world.eventually(lambda: "r1" in world.shard.current.blobs)
        await world.clock.sleep(30)
        assert len(world.shard.sessions) == 1

    play(scene)


@pytest.mark.rule("operator#receive-never-waits")
def test_with_32_writes_hanging_a_bootstrap_request_is_answered_at_once() -> None:
    async def scene(world: World) -> None:
        world.transport.add(Fault(Trouble.SILENCE, times=1000, method="POST", path="upcomingnodes"))
        world.shard.send(*(node_state(f"m-{number}", "Configuring") for number in range(100)))
        await world.eventually(lambda: world.value("dispatch_inflight") == 32)
        began_s = world.now_s
        world.shard.send(blob_request("r1", "m-1"))
        await world.eventually(lambda: "r1" in world.shard.current.blobs)
        assert world.now_s - began_s <= 0.1
        assert world.calls("POST", "upcomingnodes") == 32

    play(scene)


@pytest.mark.rule("operator#liveness")
def test_a_silent_shard_is_left_after_a_minute_with_one_more_hello() -> None:
    async def scene(world: World) -> None:
        await world.clock.sleep(3)
        world.shard.acks_hello = world.shard.acks_rollups = False
        began_s = world.now_s
        reconnects = world.value("session_reconnects_total")
        await world.eventually(lambda: world.value("session_reconnects_total") > reconnects, 120)
        assert 55 <= world.now_s - began_s <= 62
        world.shard.acks_hello = world.shard.acks_rollups = True
        await world.eventually(lambda: len(world.shard.sessions) == 2, 120)

    play(scene, rollup_interval_s=1000.0)


@pytest.mark.rule("wire#keepalive")
def test_a_shard_behind_a_partition_is_left_after_fifteen_seconds_and_found_again_after_it() -> None:
    async def scene(world: World) -> None:
        await world.clock.sleep(3)
        world.network.partition(["operator"], ["shard-0"])
        began_s = world.now_s
        reconnects = world.value("session_reconnects_total")
        await world.eventually(lambda: world.value("session_reconnects_total") > reconnects, 120)
        assert world.now_s - began_s == pytest.approx(15, abs=0.1)
        world.network.heal()
        await world.eventually(lambda: len(world.shard.sessions) == 2, 120)

    play(scene, rollup_interval_s=1000.0)


@pytest.mark.rule("operator#liveness")
def test_exactly_one_extra_hello_asks_for_a_sign_of_life() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_hello = False
        await world.eventually(lambda: len(world.shard.sessions) == 2, 120)
        assert len(world.shard.sessions[0].hellos) == 2

    play(scene, rollup_interval_s=1000.0)


def test_a_shard_that_answers_the_extra_hello_is_kept() -> None:
    async def scene(world: World) -> None:
        await world.clock.sleep(300)
        assert len(world.shard.sessions) == 1
        assert len(world.shard.current.hellos) >= 8

    play(scene, rollup_interval_s=1000.0)


@pytest.mark.rule("operator#missing-acks")
def test_a_shard_that_acks_no_rollup_but_speaks_is_kept_for_ten_minutes() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_rollups = False
        for _ in range(60):
            world.shard.send(node_state("m", "Configured"))
            await world.clock.sleep(10)
        assert len(world.shard.sessions) == 1

    play(scene)


@pytest.mark.rule("operator#refused-identity")
def test_a_refusing_shard_is_asked_every_half_minute_and_the_process_lives() -> None:
    async def scene(world: World) -> None:
        world.shard.refuses_with = Code.PERMISSION_DENIED
        operator = world.start_operator()
        await world.eventually(lambda: world.value("session_reconnects_total") >= 1)
        before, began_s = world.value("session_reconnects_total"), world.now_s
        await world.eventually(lambda: world.value("session_reconnects_total") >= before + 2, 100)
        assert 60 <= world.now_s - began_s <= 75
        assert any("PERMISSION_DENIED" in reason for reason in operator.not_ready())
        assert world.running is not None
        assert not world.running.done()
        world.shard.refuses_with = None
        await world.connected()
        assert operator.not_ready() == []

    play(scene, connect=False)


@pytest.mark.rule("operator#bootstrap-answer")
def test_a_thousand_requests_at_once_are_all_answered() -> None:
    async def scene(world: World) -> None:
        began_s = world.now_s
        world.shard.send(*(blob_request(f"r{number}") for number in range(1000)))
        await world.eventually(lambda: len(world.shard.current.blobs) == 1000, 30)
        assert world.now_s - began_s <= 25

    play(scene)


@pytest.mark.rule("operator#bootstrap-answer", "operator#e18")
def test_a_render_error_is_answered_and_the_session_lives() -> None:
    async def scene(world: World) -> None:
        world.renderer = TemplateRenderer(CLUSTER, "{{index .Requirements 0}}")
        world.start_operator()
        await world.connected()
        world.shard.send(blob_request("r1"))
        await world.eventually(lambda: "r1" in world.shard.current.blobs)
        assert "out of range" in world.shard.current.blobs["r1"].error
        assert world.shard.current.blobs["r1"].user_data == b""

    play(scene, connect=False)


@pytest.mark.rule("operator#probes")
def test_ready_after_sync_and_hello_and_no_more_a_minute_after_the_session_went() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_hello = False
        operator = world.start_operator()
        assert any("not synchronised" in reason for reason in operator.not_ready())
        await world.eventually(lambda: world.shard.is_connected)
        assert operator.not_ready() == ["no session with the shard: not connected yet"]
        world.shard.acks_hello = True
        await world.eventually(lambda: operator.not_ready() == [], 120)
        await world.stop_shard()
        await world.clock.sleep(55)
        assert operator.not_ready() == []
        await world.clock.sleep(10)
        assert operator.not_ready() != []

    play(scene, connect=False, silence_s=5.0)


@pytest.mark.rule("operator#s1")
def test_an_operator_that_is_replaced_backs_off_and_comes_back() -> None:
    async def scene(world: World) -> None:
        world.shard.current.close()
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        assert world.value("session_reconnects_total") == 1
        world.shard.send(reclaim("i1", "nowhere"))
        await world.eventually(lambda: bool(world.shard.current.reclaim_acks))
        assert world.shard.current.reclaim_acks[0].nodes_started == 0

    play(scene)


@pytest.mark.rule("operator#s3")
def test_an_answer_of_a_dead_session_dies_with_it() -> None:
    async def scene(world: World) -> None:
        world.shard.send(blob_request("r1"))
        world.shard.current.close()
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        await world.clock.sleep(30)
        assert "r1" not in world.shard.current.blobs

    play(scene)


@pytest.mark.rule("operator#shutdown")
def test_a_stop_leaves_no_task_behind() -> None:
    async def scene(world: World) -> None:
        world.transport.add(
            Fault(ApiResponse(500, "no"), times=1000, path=UPCOMING_NODES.plural, method="POST")
        )
        world.shard.send(node_state("m", "Configured"))
        await world.clock.sleep(5)
        await world.stop_operator()
        await world.clock.sleep(0)
        names = [task.get_coro().__qualname__ for task in asyncio.all_tasks() if task.get_coro() is not None]  # type: ignore[union-attr]
        assert not [name for name in names if "operator" in name.lower() or "Lanes" in name]

    play(scene)
