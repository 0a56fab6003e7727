"""A provider over real gRPC: health, reflection, concurrency, big answers, stop under load.

Rules: `providers#health-reflection`; ADR-0058.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # ships no type marker
from grpc_reflection.v1alpha import reflection_pb2  # type: ignore[import-untyped]  # ships no type marker
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from bigfleet.aio.net import Code, RpcError, RpcServer
from bigfleet.aio.service import ServiceSpec
from bigfleet.model.machine import MachineState as S
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.contract import SERVICE, OperationKind
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.provider.kit.store import Volatile
from bigfleet.provider.metrics import PROVIDER_METRICS
from bigfleet.providerkit.scripted import ScriptedBackend
from bigfleet.transport.address import PLAINTEXT
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.health import CHECK

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

ServeKit = Callable[..., Awaitable[tuple[ProviderKit, RpcServer]]]
DialKit = Callable[..., RawProviderClient]
SOON_S = 30.0
REFLECTION = ServiceSpec(reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"])
INFO = REFLECTION.bidi(
    "ServerReflectionInfo", reflection_pb2.ServerReflectionRequest, reflection_pb2.ServerReflectionResponse
)


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not fact():  # noqa: ASYNC110  a fact of the kit without an event
            await asyncio.sleep(0.01)


@pytest.mark.rule("providers#health-reflection")
async def test_health_serves_and_reflection_lists_the_service(serve: ServeKit) -> None:
    _, server = await serve()
    channel = GrpcNet().dial(f"127.0.0.1:{server.port}")
    try:
        for name in ("", SERVICE):
            reply = await channel.unary(CHECK, health_pb2.HealthCheckRequest(service=name), timeout_s=SOON_S)
            assert reply.message.status == health_pb2.HealthCheckResponse.SERVING
        async with channel.bidi(INFO, timeout_s=SOON_S) as stream:
            await stream.send(reflection_pb2.ServerReflectionRequest(list_services="*"))
            answer: Any = await stream.receive()
            assert SERVICE in [service.name for service in answer.list_services_response.service]
    finally:
        await channel.close()


@pytest.mark.rule("providers#health-reflection")
@pytest.mark.long
async def test_a_quiet_caller_may_ping_every_five_seconds(serve: ServeKit) -> None:
    _, server = await serve()
    options = [
        ("grpc.keepalive_time_ms", 5_500),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=options) as channel:
        call: Any = channel.unary_unary(f"/{SERVICE}/List")
        assert await call(b"", timeout=SOON_S)
        # Six pings: a server that minds them closes the connection with the fourth.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(35):
                await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        assert channel.get_state() is grpc.ChannelConnectivity.READY


async def test_thirty_two_workers_of_one_shard_are_never_fenced_and_its_old_epoch_always_is(
    serve: ServeKit, dial: DialKit
) -> None:
    machines, workers = 64, 32
    kit, server = await serve(slots=machines, host=True)
    clients = [dial(server) for _ in range(4)]
    sequence = 0
    free = list(range(machines))

    async def work(worker: int) -> None:
        """Draw a number, then send: the sends of different workers overtake each other, as threads' would."""
        nonlocal sequence
        for _ in range(6):
            number = free.pop(0)  # at most one mutation per machine is in flight
            for kind in (OperationKind.CONFIGURE, OperationKind.DRAIN):
                sequence += 1
                token = FencingToken("shard-0", 2, sequence)
                for _ in range((worker * 7 + number) % 5):
                    await asyncio.sleep(0)
                client = clients[worker % len(clients)]
                if kind is OperationKind.CONFIGURE:
                    await client.configure(f"m-{number}", "c", token)
                else:
                    await client.drain(f"m-{number}", token)
                await until(lambda n=number: kit.machine(f"m-{n}").state in (S.CONFIGURED, S.IDLE))  # type: ignore[misc,union-attr]
            free.append(number)

    async with asyncio.timeout(120):
        await asyncio.gather(*(work(worker) for worker in range(workers)))
    assert sequence == workers * 12

    zombie = dial(server)
    used = [
        n for n in range(machines) if kit.state.fence.mark("shard-0", f"m-{n}", kit.state.table.row(f"m-{n}"))
    ]
    assert len(used) == machines
    for number in used:
        with pytest.raises(RpcError) as fenced:
            await zombie.configure(f"m-{number}", "c", FencingToken("shard-0", 1, 10**9))
        assert fenced.value.code is Code.FAILED_PRECONDITION


async def test_a_stop_under_load_answers_what_runs_and_the_state_loads(
    serve: ServeKit, dial: DialKit, tmp_path: Path
) -> None:
    kit, server = await serve(slots=200, store=Journal(tmp_path / "state"))
    client = dial(server)
    acked: dict[str, str] = {}

    async def load(start: int) -> None:
        for number in range(start, start + 50):
            try:
                acked[f"m-{number}"] = (await client.create(f"m-{number}")).operation_id
            except RpcError as ended:
                assert ended.code in (Code.UNAVAILABLE, Code.CANCELLED)  # noqa: PT017  the end of the server
                return

    loads = [asyncio.ensure_future(load(start)) for start in range(0, 200, 50)]
    await until(lambda: len(acked) >= 20)
    await kit.stop(grace_s=SOON_S)
    await asyncio.gather(*loads)
    again, server = await serve(slots=200, store=Journal(tmp_path / "state"))
    await until(lambda: again.state.transitional() == [])
    client = dial(server)
    for machine_id, operation_id in acked.items():
        machine = again.machine(machine_id)
        assert machine is not None
        assert machine.state is S.IDLE
        assert (await client.create(machine_id)).operation_id == operation_id


async def test_a_list_beyond_the_usual_limit_arrives_whole(serve: ServeKit, dial: DialKit) -> None:
    _, server = await serve(slots=60_000, host=True)
    listed = await dial(server).list()
    assert len(listed.machines) == 60_000
    assert listed.ByteSize() > 4 * 1024 * 1024


async def test_an_answer_beyond_the_limit_is_refused_with_both_numbers(
    serve: ServeKit, dial: DialKit
) -> None:
    _, server = await serve(slots=1000, limits=Limits(refresh=0, max_message_bytes=50_000))
    with pytest.raises(
        RpcError, match=r"the answer takes \d+ bytes, the message limit is 50000 bytes"
    ) as refused:
        await dial(server).list()
    assert refused.value.code is Code.RESOURCE_EXHAUSTED


async def test_serve_runs_until_it_is_stopped(tmp_path: Path) -> None:
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    kit = ProviderKit(ScriptedBackend(), store=Journal(tmp_path / "state"), name="acme")
    serving = asyncio.ensure_future(kit.serve("127.0.0.1:0", until=stop))
    await until(lambda: kit._running is not None and bool(kit._servers))
    stop.set_result(None)
    async with asyncio.timeout(SOON_S):
        await serving
    # The directory is free again.
    list(Journal(tmp_path / "state").open())


@pytest.mark.rule("packaging#plaintext-exposed", "packaging#warnings-at-start")
@pytest.mark.parametrize(("address", "exposed"), [(":0", 1), ("127.0.0.1:0", 0)])
async def test_serve_says_whether_others_reach_it_without_tls(address: str, exposed: int) -> None:
    metrics = Metrics(PROVIDER_METRICS, CollectorRegistry(), version="v", commit="c")
    with capture_logs() as logged:
        kit = ProviderKit(ScriptedBackend(), store=Volatile(), name="acme", metrics=metrics)
        serving = asyncio.ensure_future(kit.serve(address))
        await until(lambda: bool(kit._servers))
        serving.cancel()
        await asyncio.wait([serving])
    assert metrics.registry.get_sample_value("bigfleet_plaintext_exposed") == exposed
    assert [line["what"] for line in logged if line["event"] == "plaintext"] == [PLAINTEXT] * exposed
    # Its listener reports to the same metrics.
    limit = metrics.registry.get_sample_value("bigfleet_connections_limit", {"listener": "grpc"})
    assert limit is not None
    assert limit > 0


@pytest.mark.rule("providers#health-reflection")
async def test_an_idle_connection_is_closed_after_fifteen_minutes(serve: ServeKit) -> None:
    """Another test shows, with a shorter time, that every server keeps to its options."""
    kit, _ = await serve()
    assert kit.serve_options().max_connection_idle_s == 15 * 60
