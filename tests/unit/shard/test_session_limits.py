"""How long a session lives, how many there are, and what they cost, on virtual time (`shard#session-age`,
`shard#session-opening`, `shard#ingest-share`)."""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import NANOSECONDS
from bigfleet.aio.identity import Identity
from bigfleet.aio.ids import SystemIds
from bigfleet.aio.net import BidiStream, Channel, Code, RpcError, RpcRefusedError
from bigfleet.demo.session_peer import SESSION, SessionPeer
from bigfleet.demo.virtual_fleet import SHARD_HOST, SHARD_PORT
from bigfleet.model.machine import MachineState
from bigfleet.obs.limited_log import LimitedLog
from bigfleet.obs.logs import build_logger
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.shard.session.openings import PER_IDENTITY
from bigfleet.shard.session.operator_session import OperatorSession
from bigfleet.shard.session.rollup_lanes import READ_ASIDE_BYTES, RollupLanes
from bigfleet.shard.session.service import OPENED_ASIDE_BYTES
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import shard_pb2 as pb
from bigfleet.wire.session_frames import Hello
from tests.support.blob_answers import no_blob
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

HOUR_S = 3600.0
IDLE = pool("idle", 4, state=MachineState.IDLE)

Story = Callable[[ObservedFleet], Awaitable[None]]
Stream = BidiStream[pb.OperatorMessage, pb.ShardMessage]


def play(story: Story, **options: Any) -> None:
    """Tell a story about a shard with some idle machines."""

    async def tell() -> None:
        async with ObservedFleet((IDLE,), **{"fake": FakeOptions(sync=True), **options}) as world:
            await story(world)

    run_virtual(tell())


def channel(world: ObservedFleet, cluster: str, *, ends_ns: int | None = None, host: str = "") -> Channel:
    net = world.network.host(host or cluster, Identity.cluster(cluster), certificate_ends_ns=ends_ns)
    return net.dial(f"{SHARD_HOST}:{SHARD_PORT}")


async def end_of(stream: Stream) -> Code:
    """The status with which the shard ends a stream."""
    try:
        while await stream.receive() is not None:
            pass
    except RpcError as error:
        return error.code
    return Code.OK


def refused(world: ObservedFleet, reason: str) -> float:
    return world.metric("bigfleet_shard_sessions_refused_total", reason=reason)


# Before the Hello


@pytest.mark.rule("shard#session-opening")
def test_a_stream_that_says_nothing_ends_at_its_deadline() -> None:
    async def story(world: ObservedFleet) -> None:
        began_ns = world.clock.monotonic_ns()
        stream = channel(world, "prod").bidi(SESSION)
        assert await end_of(stream) is Code.INVALID_ARGUMENT
        assert (world.clock.monotonic_ns() - began_ns) / NANOSECONDS == pytest.approx(10, abs=0.5)
        assert refused(world, "no_hello") == 1
        assert world.metric("bigfleet_shard_silent_streams") == 0

    play(story)


@pytest.mark.rule("shard#session-opening")
def test_of_too_many_silent_streams_the_oldest_goes_and_a_newcomer_is_served() -> None:
    async def story(world: ObservedFleet) -> None:
        quiet = [channel(world, f"quiet-{number}").bidi(SESSION) for number in range(10)]
        await world.pass_time(1)
        operator = await world.operator("prod")
        await operator.until(lambda: "hello" in operator.echoes())
        assert await end_of(quiet[0]) is Code.RESOURCE_EXHAUSTED
        assert await end_of(quiet[-1]) is Code.INVALID_ARGUMENT  # it had its whole time
        assert refused(world, "crowded_out") == 1
        assert refused(world, "no_hello") == 9

    play(story, max_silent_streams=10, secured=True)


@pytest.mark.rule("shard#session-opening")
def test_silent_streams_of_one_certificate_crowd_out_each_other_only() -> None:
    async def story(world: ObservedFleet) -> None:
        patient = channel(world, "patient").bidi(SESSION)
        await world.pass_time(0.1)
        many = channel(world, "greedy")
        streams = [many.bidi(SESSION) for _ in range(PER_IDENTITY + 3)]
        codes = [await end_of(stream) for stream in streams]
        assert codes == [Code.RESOURCE_EXHAUSTED] * 3 + [Code.INVALID_ARGUMENT] * PER_IDENTITY
        assert await end_of(patient) is Code.INVALID_ARGUMENT

    play(story, max_silent_streams=PER_IDENTITY + 2, secured=True)


@pytest.mark.rule("shard#session-opening", "shard#wrong-certificate")
def test_a_certificate_of_no_cluster_is_refused_before_a_frame_is_read() -> None:
    async def story(world: ObservedFleet) -> None:
        net = world.network.host("stranger", Identity.shard("other"))
        stream = net.dial(f"{SHARD_HOST}:{SHARD_PORT}").bidi(SESSION)
        assert await end_of(stream) is Code.PERMISSION_DENIED  # although nothing was sent
        assert refused(world, "identity") == 1

    play(story, secured=True)


@pytest.mark.rule("shard#session-opening")
@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        pytest.param("x" * 300, "cluster_id", id="long id"),
        pytest.param("x" * 70_000, "first_frame_large", id="64 KiB"),
    ],
)
def test_a_hello_longer_than_any_is_refused(cluster: str, reason: str) -> None:
    async def story(world: ObservedFleet) -> None:
        stream = channel(world, "prod").bidi(SESSION)
        await stream.send(pb.OperatorMessage(hello=pb.Hello(cluster_id=cluster)))
        assert await end_of(stream) is Code.INVALID_ARGUMENT
        assert refused(world, reason) == 1
        assert len(world.run.log.getvalue()) < 20_000

    play(story)


@pytest.mark.rule("shard#session-opening")
def test_beyond_the_greatest_number_of_sessions_newcomers_are_refused_and_returning_ones_are_not() -> None:
    async def story(world: ObservedFleet) -> None:
        for cluster in ("one", "two"):
            operator = await world.operator(cluster)
            await operator.until(lambda operator=operator: "hello" in operator.echoes())  # type: ignore[misc]
        third = await world.operator("three")
        await third.until(lambda: third.is_over)
        assert third.ended is not None
        assert third.ended.code is Code.RESOURCE_EXHAUSTED
        again = await world.operator("one", host="elsewhere")
        await again.until(lambda: "hello" in again.echoes())
        assert refused(world, "full") == 1

    play(story, max_sessions=2)


# Ends


@pytest.mark.rule("shard#session-age")
def test_a_session_ends_with_its_certificate_and_a_renewed_one_opens_the_next() -> None:
    async def story(world: ObservedFleet) -> None:
        ends_ns = world.clock.wall_ns() + round(HOUR_S * NANOSECONDS)
        peer = SessionPeer(channel(world, "prod", ends_ns=ends_ns), "prod", world.clock)
        await peer.connect()
        await world.pass_time(HOUR_S - 10)
        assert not peer.is_over
        await peer.until(lambda: peer.is_over)
        assert peer.ended is not None
        assert peer.ended.code is Code.UNAUTHENTICATED
        assert 0 <= world.clock.wall_ns() - ends_ns < NANOSECONDS
        assert world.metric("bigfleet_shard_sessions_expired_total", reason="certificate") == 1
        renewed = SessionPeer(channel(world, "prod", host="renewed"), "prod", world.clock)
        await renewed.connect()
        await renewed.until(lambda: "hello" in renewed.echoes())
        await peer.close()
        await renewed.close()

    play(story, secured=True)


@pytest.mark.rule("shard#session-age")
def test_sessions_that_opened_together_end_for_their_age_one_after_another_and_well() -> None:
    async def story(world: ObservedFleet) -> None:
        operators = [await world.operator(f"c-{number}") for number in range(20)]
        await world.pass_time(0.8 * HOUR_S - 10)
        assert not any(operator.is_over for operator in operators)
        over = []
        for _ in range(int(0.2 * HOUR_S) + 20):
            over.append(sum(operator.is_over for operator in operators))
            await world.pass_time(1)
        assert all(operator.is_over and operator.ended is None for operator in operators)
        assert max(after - before for before, after in pairwise(over)) <= 4
        assert world.metric("bigfleet_shard_sessions_expired_total", reason="age") == 20

    play(story, max_session_age_s=HOUR_S)


@pytest.mark.rule("shard#session-age")
def test_an_aged_session_lives_on_while_a_request_waits_but_not_for_ever() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod", answer=no_blob)
        await operator.demand(need(cpu=4))
        await operator.until(lambda: bool(operator.requests))
        began_ns = world.clock.monotonic_ns()
        await operator.until(lambda: operator.is_over, within_s=1000)
        assert 100 < (world.clock.monotonic_ns() - began_ns) / NANOSECONDS < 200

    # The request waits longer than any session may.
    play(story, max_session_age_s=100, bootstrap_timeout_s=1000)


# Shares


@pytest.mark.rule("shard#ingest-share")
def test_an_operator_that_floods_waits_and_no_other_one_does() -> None:
    async def story(world: ObservedFleet) -> None:
        greedy = await world.operator("greedy")
        hello = pb.OperatorMessage(hello=pb.Hello(cluster_id="greedy"))
        with suppress(TimeoutError):
            for _ in range(20_000):
                await greedy.send(hello)
                if world.metric("bigfleet_shard_ingest_waits_total", what="frame"):
                    break
        assert world.metric("bigfleet_shard_ingest_waits_total", what="frame") > 0
        began_ns = world.clock.monotonic_ns()
        operator = await world.operator("prod")
        await operator.demand(need(cpu=4))
        await operator.until(lambda: "rollup" in operator.echoes())
        assert world.clock.monotonic_ns() - began_ns < NANOSECONDS

    play(story)


@pytest.mark.rule("shard#ingest-share")
@pytest.mark.parametrize(("share", "waits"), [(0.2, False), (0.01, True)])
def test_the_share_is_a_setting(share: float, waits: bool) -> None:
    async def story(world: ObservedFleet) -> None:
        # Each session costs a twentieth of a second; at one a second a fifth pays for all of them, a hundredth does not.
        for number in range(30):
            operator = await world.operator("prod", host=f"host-{number}")
            await operator.until(lambda operator=operator: "hello" in operator.echoes())  # type: ignore[misc]
            await world.pass_time(1)
        assert (world.metric("bigfleet_shard_ingest_waits_total", what="frame") > 0) is waits

    play(story, ingest_share=share)


@pytest.mark.rule("shard#two-lanes")
def test_a_large_frame_is_opened_in_a_thread_and_a_usual_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the frame is opened shows in no answer and in no time that a test may measure."""
    opened: list[int] = []
    in_thread = asyncio.to_thread

    async def noted(function: Callable[..., object], *given: object) -> object:
        opened.extend(len(data) for data in given if isinstance(data, bytes))
        return await in_thread(function, *given)

    async def story(world: ObservedFleet) -> None:
        monkeypatch.setattr("bigfleet.shard.session.service.asyncio.to_thread", noted)
        operator = await world.operator("prod")
        sizes = (OPENED_ASIDE_BYTES // 2, 2 * OPENED_ASIDE_BYTES)
        for size in sizes:
            answer = pb.BootstrapBlobResponse(request_id="no such request", user_data=b"x" * size)
            await operator.send(pb.OperatorMessage(bootstrap_response=answer))
            echoes = len(operator.echoes())
            await operator.send(pb.OperatorMessage(hello=pb.Hello(cluster_id="prod")))
            await operator.until(lambda echoes=echoes: len(operator.echoes()) > echoes)  # type: ignore[misc]
        assert [size > sizes[1] for size in opened] == [True]

    play(story)


@pytest.mark.rule("shard#session-log")
def test_bad_frames_of_one_cluster_are_all_counted_and_few_are_logged() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod")
        for _ in range(300):
            await operator.send(pb.OperatorMessage())
        metric = "bigfleet_shard_frames_without_payload_total"
        await world.until(lambda: world.metric(metric) == 300)
        assert len(world.lines("frame_without_payload")) == 5

    play(story)


@pytest.mark.rule("shard#ingest-share", "shard#session-closing")
def test_a_roll_up_that_waits_for_its_share_goes_with_its_session() -> None:
    async def story(world: ObservedFleet) -> None:
        log = build_logger(level="error", form="json", stream=StringIO(), now=lambda: datetime.now(UTC))
        lanes = RollupLanes(
            world.shard.intake,
            world.shard.sessions,
            share=0.2,
            clock=world.clock,
            metrics=Metrics(SHARD_METRICS, CollectorRegistry(), version="test", commit="test"),
            log=LimitedLog(log, world.clock, about="cluster"),
        )
        session = OperatorSession("prod", clock=world.clock, ids=SystemIds(), outbox_limit=10)
        lane, data = lanes.lane(session), bytes(READ_ASIDE_BYTES + 1)
        lanes.charge("prod", lanes.now_s() - 100)  # it may be read in some minutes
        before = sys.getrefcount(data)
        lane.put(data)
        await world.pass_time(1)
        assert sys.getrefcount(data) == before + 1
        session.end(RpcRefusedError(Code.UNAVAILABLE, "the session ended"))
        await world.pass_time(1)
        assert sys.getrefcount(data) == before

    play(story)


@pytest.mark.rule("shard#session-closing")
def test_a_frame_that_ended_its_session_is_gone_without_a_collection() -> None:
    """Cycles among older objects are collected once an hour, and a frame may have many megabytes."""
    cluster = "other" * 1000

    async def story(world: ObservedFleet) -> None:
        stream = channel(world, "prod").bidi(SESSION)
        await stream.send(pb.OperatorMessage(hello=pb.Hello(cluster_id="prod")))
        await world.pass_time(1)
        await stream.send(pb.OperatorMessage(hello=pb.Hello(cluster_id=cluster)))
        assert await end_of(stream) is Code.INVALID_ARGUMENT
        await world.pass_time(1)
        assert not any(isinstance(item, Hello) and item.cluster == cluster for item in gc.get_objects())

    gc.disable()
    try:
        play(story)
    finally:
        gc.enable()
