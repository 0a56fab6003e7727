"""Hostile frames against a shard process behind mutual TLS: each ends at most its own session, and holds up no other cluster.

The attackers have good certificates of clusters, the worst case; some have those of other roles.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count, cycle
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.aio.net import BidiStream, Channel, Code, RpcError
from bigfleet.shard.session.openings import PER_IDENTITY
from bigfleet.shard.session.service import FIRST_FRAME_BYTES
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_session import SESSION
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import shard_pb2 as pb
from tests.support.certificates import Authority
from tests.support.hostile_frames import (
    BAD_FIRST_FRAMES,
    BAD_LATER_FRAMES,
    FLOODS,
    SKIPPED_LATER_FRAMES,
    hello,
    rollup,
)
from tests.support.program import AwaitedProgram, running

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

SOON_S: Final = 30.0
"""For an answer that takes milliseconds; one of these frames used to take a minute."""
STALL_S: Final = 4.096
"""The longest stall of the event loop that is allowed, a bound of its histogram, far above what is seen (tenths of a second)."""
REFUSED: Final = {Code.INVALID_ARGUMENT, Code.INTERNAL}

Stream = BidiStream[bytes, pb.ShardMessage]


class Besieged:
    """A shard process, and certificates for those who dial it."""

    def __init__(self, shard: AwaitedProgram, authority: Authority) -> None:
        self.shard, self.authority = shard, authority
        self._channels: list[Channel] = []
        self._names = count()

    def dial(self, who: Identity | TlsFiles) -> Channel:
        """Return a channel with a certificate of its own."""
        files = who if isinstance(who, TlsFiles) else self.authority.issue(who, f"client-{next(self._names)}")
        net = GrpcNet(TlsStore(files, lambda _problem: None))
        channel = net.dial(f"localhost:{self.shard.ports['port']}")
        self._channels.append(channel)
        return channel

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    async def refused(self, reason: str) -> float:
        return await self.shard.metric(f'bigfleet_shard_sessions_refused_total{{reason="{reason}"}}')

    async def longest_stall_s(self) -> float:
        """The bound of its histogram below which every stall of the event loop was."""
        _, text = await self.shard.get("/metrics")
        name = "bigfleet_event_loop_lag_seconds_bucket"
        found = re.findall(rf'^{name}{{le="([^"]+)"}} (\S+)$', text, re.MULTILINE)
        counts = {float(bound): float(count) for bound, count in found}
        return min(bound for bound, count in counts.items() if count == counts[float("inf")])


@asynccontextmanager
async def besieged(directory: Path, *flags: str) -> AsyncIterator[Besieged]:
    authority = Authority(directory / "pki", datetime.now(UTC))
    ours = authority.issue(Identity.shard("shard-0"))
    tls = ("--tls-cert", str(ours.cert), "--tls-key", str(ours.key), "--tls-ca", str(ours.ca))
    listen = ("--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--log-format", "json")
    data = ("--data-dir", str(directory / "data"), "--cycle-interval", "500ms")
    async with running("bigfleet", "shard", *listen, *data, *tls, *flags) as shard:
        siege = Besieged(shard, authority)
        try:
            yield siege
        finally:
            await siege.close()


@pytest_asyncio.fixture
async def siege(tmp_path: Path) -> AsyncIterator[Besieged]:
    async with besieged(tmp_path) as made:
        yield made


async def end_of(stream: Stream) -> Code:
    """The status with which the shard ends a stream."""
    async with asyncio.timeout(SOON_S):
        try:
            while await stream.receive() is not None:
                pass
        except RpcError as error:
            return error.code
        return Code.OK


async def sent_first(channel: Channel, frame: bytes) -> Code:
    """The status that a stream with this first frame gets."""
    async with channel.bidi(SESSION, wait_for_ready=True) as stream:
        with suppress(RpcError):  # the stream may have ended before all of a large frame was sent
            await stream.send(frame)
        return await end_of(stream)


async def echo(stream: Stream, wanted: str) -> None:
    """Wait for an acknowledgement."""
    async with asyncio.timeout(SOON_S):
        while (message := await stream.receive()) is not None:
            if message.ack.echo == wanted:
                return
    raise AssertionError(f"the session ended before the acknowledgement of {wanted}")


async def opened(channel: Channel, cluster: str) -> Stream:
    stream = channel.bidi(SESSION, wait_for_ready=True)
    await stream.send(hello(cluster))
    await echo(stream, "hello")
    return stream


async def is_served(siege: Besieged, cluster: str = "honest") -> None:
    """An operator says hello, sends demand, and gets both acknowledged."""
    stream = await opened(siege.dial(Identity.cluster(cluster)), cluster)
    await stream.send(rollup(cluster, 3))
    await echo(stream, "rollup")
    stream.cancel()


async def gets_through(siege: Besieged) -> None:
    """An operator that connects again whenever the gRPC library cancels its stream, as real ones do, is served."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                return await is_served(siege)
            except RpcError as error:
                if error.code is not Code.CANCELLED:
                    raise


# Single frames


@pytest.mark.rule("shard#session-opening", "wire#frame-fields")
async def test_no_first_frame_holds_up_the_shard_or_is_taken(siege: Besieged) -> None:
    attacker = siege.dial(Identity.cluster("prod"))
    codes = {name: await sent_first(attacker, frame) for name, frame in BAD_FIRST_FRAMES.items()}
    assert {name: code for name, code in codes.items() if code not in REFUSED} == {}
    await is_served(siege)
    assert await siege.longest_stall_s() <= STALL_S
    large = sum(len(frame) > FIRST_FRAME_BYTES for frame in BAD_FIRST_FRAMES.values())
    assert await siege.refused("first_frame_large") == large > 5
    assert siege.shard.running.log.stat().st_size < 100_000


@pytest.mark.rule("shard#wrong-certificate", "shard#session-opening")
@pytest.mark.parametrize("name", ["2 MB of repeated hellos", "8 MB of unknown numbers"])
async def test_who_has_no_certificate_of_a_cluster_is_refused_without_a_look_at_the_frame(
    siege: Besieged, name: str
) -> None:
    for who in (ADMIN, Identity.shard("other")):
        channel = siege.dial(who)
        # A client that still writes when its stream ends may call that INTERNAL; the shard's count says what it was.
        assert await sent_first(channel, BAD_FIRST_FRAMES[name]) in {Code.PERMISSION_DENIED, Code.INTERNAL}
        assert await end_of(channel.bidi(SESSION, wait_for_ready=True)) is Code.PERMISSION_DENIED  # no frame
    assert await siege.refused("identity") == 4
    await is_served(siege)


@pytest.mark.rule("shard#two-lanes", "wire#frame-fields")
async def test_a_bad_later_frame_ends_its_own_session_alone(siege: Besieged) -> None:
    honest = await opened(siege.dial(Identity.cluster("honest")), "honest")
    attacker = siege.dial(Identity.cluster("prod"))
    for name, frame in BAD_LATER_FRAMES.items():
        stream = await opened(attacker, "prod")
        with suppress(RpcError):
            await stream.send(frame)
        assert await end_of(stream) in REFUSED, name
        await honest.send(rollup("honest", 3))
        await echo(honest, "rollup")
    assert await siege.longest_stall_s() <= STALL_S
    assert siege.shard.running.log.stat().st_size < 100_000


@pytest.mark.rule("wire#session-stream", "shard#rollup-malformed")
async def test_frames_that_mean_nothing_leave_the_session_open_and_its_order_kept(siege: Besieged) -> None:
    stream = await opened(siege.dial(Identity.cluster("prod")), "prod")
    for frame in SKIPPED_LATER_FRAMES.values():
        await stream.send(frame)
        await stream.send(hello("prod"))
        await echo(stream, "hello")
    await stream.send(rollup("prod", 3))
    await echo(stream, "rollup")
    assert await siege.longest_stall_s() <= STALL_S


# Silence


@pytest.mark.rule("shard#session-opening")
async def test_thousands_of_silent_streams_are_few_and_gone_after_their_time(tmp_path: Path) -> None:
    async with besieged(tmp_path, "--hello-timeout", "2s", "--max-silent-streams", "100") as siege:
        attackers = [siege.dial(Identity.cluster(f"c-{number}")) for number in range(20)]
        streams = [channel.bidi(SESSION, wait_for_ready=True) for channel in attackers for _ in range(100)]
        ends = [asyncio.ensure_future(end_of(stream)) for stream in streams]
        await siege.shard.until(lambda: any(end.done() for end in ends))
        await gets_through(siege)
        codes = Counter([await end for end in ends])
        # The library itself cancels some of those that come while more than a thousand wait to be taken up.
        assert set(codes) <= {Code.RESOURCE_EXHAUSTED, Code.INVALID_ARGUMENT, Code.CANCELLED}
        assert codes[Code.INVALID_ARGUMENT] <= 20 * PER_IDENTITY  # the others did not even have their time
        assert await siege.refused("crowded_out") == codes[Code.RESOURCE_EXHAUSTED] > 1000
        assert await siege.shard.metric("bigfleet_shard_silent_streams") == 0
        lines = siege.shard.lines("session_refused")
        assert len(lines) < 100
        await is_served(siege)


# Certificates that end


@pytest.mark.rule("shard#session-age", "wire#tls-ended")
async def test_a_session_ends_with_its_certificate_and_its_connection_opens_no_other(siege: Besieged) -> None:
    left = datetime.now(UTC) - siege.authority.now + timedelta(seconds=6)
    ending = siege.authority.issue_uris("ending", ["bigfleet://cluster/prod"], ends=left)
    channel = siege.dial(ending)
    stream = await opened(channel, "prod")
    assert await end_of(stream) is Code.UNAUTHENTICATED
    # The connection was made while the certificate was good, and is still there.
    assert await sent_first(channel, hello("prod")) is Code.PERMISSION_DENIED
    await is_served(siege, "prod")


@pytest.mark.rule("shard#session-age")
async def test_an_aged_session_ends_well_and_the_next_one_is_served(tmp_path: Path) -> None:
    async with besieged(tmp_path, "--max-session-age", "2s") as siege:
        channel = siege.dial(Identity.cluster("prod"))
        for _ in range(2):
            assert await end_of(await opened(channel, "prod")) is Code.OK
        assert await siege.shard.metric('bigfleet_shard_sessions_expired_total{reason="age"}') == 2


# One hostile cluster among fifty


async def attack(siege: Besieged, floods: Mapping[str, Sequence[bytes]], seconds: float) -> None:
    """Send all kinds in turn, each for its part of the time, as fast as the shard takes them; reconnect when thrown out."""
    channel = siege.dial(Identity.cluster("prod"))
    loop = asyncio.get_running_loop()
    for kind, frames in floods.items():
        until_s, waiting = loop.time() + seconds / len(floods), cycle(frames)
        stream: Stream | None = None  # a send that was given up ends its call
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while True:
                    try:
                        if kind == "first frames":
                            await sent_first(channel, next(waiting))
                            continue
                        stream = stream or await opened(channel, "prod")
                        await stream.send(next(waiting))
                    except (RpcError, AssertionError):
                        stream = None


class Honest:
    """Operators that each send a roll-up, wait for its acknowledgement, and go on."""

    def __init__(self, siege: Besieged, clusters: int) -> None:
        self._siege, self._clusters = siege, clusters
        self.waits_s: list[float] = []

    async def run(self, rounds: int, until_s: float = 0.0) -> None:
        """At least these rounds, and until the time given."""
        names = [f"honest-{number}" for number in range(self._clusters)]
        await asyncio.gather(*(self._operator(name, rounds, until_s) for name in names))

    async def _operator(self, cluster: str, rounds: int, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        stream = await opened(self._siege.dial(Identity.cluster(cluster)), cluster)
        sizes = cycle((30, 40))
        sent = 0
        while sent < rounds or loop.time() < until_s:
            began_s = loop.time()
            await stream.send(rollup(cluster, next(sizes)))
            await echo(stream, "rollup")
            self.waits_s.append(loop.time() - began_s)
            sent += 1
            await asyncio.sleep(0.5)
        stream.cancel()


@pytest.mark.rule("shard#ingest-share", "shard#session-log")
async def test_one_hostile_cluster_holds_up_none_of_fifty(siege: Besieged) -> None:
    honest = Honest(siege, 50)
    built = {
        kind: build() for kind, build in FLOODS.items()
    }  # before, as building holds up the honest ones here
    await asyncio.gather(attack(siege, built, 14.0), honest.run(rounds=10))
    assert len(honest.waits_s) == 500  # each was acknowledged
    assert await siege.longest_stall_s() <= STALL_S
    waits = await siege.shard.metric('bigfleet_shard_ingest_waits_total{what="rollup"}')
    assert waits > 0
    assert sum(len(siege.shard.lines(event)) for event in ("session_refused", "rollup_rejected")) < 50
    await is_served(siege, "late")
