"""E10, E11 and E19 on the real API server, and a roll-up of the largest size. Figures are reported, not asserted."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from bigfleet.aio.net import DialOptions
from bigfleet.kube.transport import ApiCall, ApiResponse
from bigfleet.model.quantity import parse_quantity
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_session import SESSION
from bigfleet.v1alpha1 import capacity_pb2, shard_pb2
from tests.e2e.operator.harness import UPCOMING, Bench, front
from tests.support.scripted_shard import ScriptedShard, blob_request, node_state

pytestmark = [pytest.mark.asyncio, pytest.mark.long]

Evidence = Callable[[str, Mapping[str, object]], None]
REQUESTS = 1500
PROFILES, OF_EACH = 10, 1000
MACHINES, BLOBS = 1000, 100
MIB = 2**20


@pytest.mark.rule("operator#e11")
async def test_fifteen_hundred_requests_are_acknowledged(world: Bench, evidence: Evidence) -> None:
    for number in range(REQUESTS):
        world.add_request(f"r{number:04d}", priority=number % 7)
    world.start("--ack-concurrency=64")
    await world.connected()
    began = time.monotonic()
    series = "bigfleet_operator_acknowledged_total"
    await world.until("99 %", lambda: world.metric(series) >= 0.99 * REQUESTS, 600)
    assert len(world.shard.current.rollups[-1].needs) == 7
    took_s = round(time.monotonic() - began, 1)
    evidence("operator-volume.jsonl", {"case": "E11", "requests": REQUESTS, "acknowledged_s": took_s})


@pytest.mark.rule("operator#e10")
async def test_ten_thousand_requests_of_ten_profiles_are_ten_rows_and_equal_bytes(world: Bench) -> None:
    def add(number: int) -> None:
        profile, size = number % PROFILES, number // PROFILES % 4 + 1
        resources = {"cpu": f"{size}00m", "memory": f"{size}Gi"}
        world.add_request(f"r{number:05d}", priority=profile, resources=resources)

    with ThreadPoolExecutor(8) as hands:
        list(hands.map(add, range(PROFILES * OF_EACH)))
    world.start()
    await world.connected()
    await world.until("a second roll-up", lambda: len(world.shard.current.rollups) > 1)
    one, other = world.shard.current.rollups[:2]
    assert [need.priority for need in one.needs] == sorted(range(PROFILES), reverse=True)
    for need in one.needs:
        # Sizes 1 to 4 in turn, 250 of each in every profile.
        assert parse_quantity(need.aggregate_resources["cpu"]) == parse_quantity("250")
        assert parse_quantity(need.aggregate_resources["memory"]) == parse_quantity("2500Gi")
        assert dict(need.min_unit) == {"cpu": "400m", "memory": "4Gi"}
    for rollup in (one, other):
        rollup.ClearField("timestamp_unix_nanos")
    assert one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


class OneAtATime:
    """Counts the concurrent writes of each UpcomingNode."""

    def __init__(self, send: Callable[[ApiCall], Awaitable[ApiResponse]]) -> None:
        self._send, self._under_way = send, Counter[str]()
        self.at_once: set[str] = set()

    async def __call__(self, call: ApiCall) -> ApiResponse:
        if call.method == "GET" or not call.path.startswith(UPCOMING):
            return await self._send(call)
        name = call.path.removesuffix("/status").rpartition("/")[2]
        if call.method == "POST":
            name = (call.body or {})["metadata"]["name"]
        self._under_way[name] += 1
        if self._under_way[name] > 1:
            self.at_once.add(name)
        try:
            return await self._send(call)
        finally:
            self._under_way[name] -= 1


async def burst(world: Bench, evidence: Evidence, way: str) -> None:
    """Send three states of each of a thousand machines, then ask for blobs, and wait for the last states."""
    await world.connected()
    began = time.monotonic()
    for state in ("Creating", "Configuring", "Configured"):
        world.shard.send(
            *(node_state(f"m-{number:04d}", state, resources={"cpu": "8"}) for number in range(MACHINES))
        )
    world.shard.send(*(blob_request(f"r{number}") for number in range(BLOBS)))
    await world.until("all blobs", lambda: len(world.shard.current.blobs) == BLOBS)
    blobs_s = round(time.monotonic() - began, 2)

    def phases() -> Counter[str]:
        items = world.cluster.admin.get(UPCOMING)["items"]
        return Counter((item.get("status") or {}).get("phase", "") for item in items)

    await world.until("the last states", lambda: phases() == {"Ready": MACHINES}, 600)
    ready_s = round(time.monotonic() - began, 1)
    figures = {"case": "E19", "way": way, "machines": MACHINES, "blobs_s": blobs_s, "ready_s": ready_s}
    evidence("operator-volume.jsonl", figures)


@pytest.mark.rule("operator#e19")
async def test_a_thousand_machines_through_three_states_have_one_write_at_a_time_each(
    world: Bench, evidence: Evidence
) -> None:
    async with front(world) as (server, config):
        watch = OneAtATime(server.transport.send)
        server.transport.send = watch  # type: ignore[method-assign]
        world.start(kubeconfig=config)
        await burst(world, evidence, "through the proxy of the test")
        assert watch.at_once == set()


@pytest.mark.rule("operator#e19")
async def test_a_thousand_machines_through_three_states_and_blobs_do_not_wait(
    world: Bench, evidence: Evidence
) -> None:
    world.start()
    await burst(world, evidence, "direct")


@pytest.mark.rule("operator#message-limit")
async def test_a_rollup_of_200_mib_passes_the_limits() -> None:
    shard = ScriptedShard()
    net = GrpcNet()
    server = await net.serve("127.0.0.1:0", [shard.bound()])
    rollup = capacity_pb2.ClusterCapacityNeeds(cluster_id="prod-1")
    for number in range(200):
        rollup.needs.add(group=f"{number:03d}" + "x" * (MIB - 64))
    frame = shard_pb2.OperatorMessage(rollup=rollup).SerializeToString()
    assert len(frame) > 199 * MIB
    channel = net.dial(f"127.0.0.1:{server.port}", DialOptions())
    try:
        async with channel.bidi(SESSION) as stream:
            hello = shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="prod-1"))
            await stream.send(hello.SerializeToString())
            await stream.send(frame)
            async with asyncio.timeout(120):
                while not shard.current.rollups if shard.sessions else True:
                    await stream.receive()
        assert len(shard.current.rollups[0].needs) == 200
    finally:
        await channel.close()
        await server.stop(0)
