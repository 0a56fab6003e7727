"""`bigfleet shard` as a process over real sockets: demand to machine, restart, signals, probes, refusals to start."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # ships no type marker

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Code
from bigfleet.demo.session_peer import BlobAnswer, SessionPeer, good_blob
from bigfleet.model.machine import MachineState
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.health import CHECK
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import capacity_pb2, shard_pb2
from tests.packaging_series import missing_series
from tests.support.blob_answers import no_blob
from tests.support.builders import need
from tests.support.certificates import Authority, replace_file, replace_pair
from tests.support.program import AwaitedProgram, http_get, outcome, running

pytestmark = pytest.mark.integration

S = MachineState
POOLS = """
pools:
  - {name: idle, count: 4, state: Idle, instance_type: m6i.large, zones: [zone-a], resources: {cpu: 4}}
  - {name: m, count: 4, instance_type: m6i.large, zones: [zone-a], resources: {cpu: 4}, price_per_hour: 1.0}
"""
FREE = ("--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--log-format", "json")


@asynccontextmanager
async def provider(tmp_path: Path, *flags: str) -> AsyncIterator[AwaitedProgram]:
    """A fake provider process that keeps its state."""
    pools = tmp_path / "pools.yaml"
    pools.write_text(POOLS)
    listen = ("--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--control-addr", "127.0.0.1:0")
    where = ("--inventory", str(pools), "--state", str(tmp_path / "state"), "--log-format", "json")
    async with running("bigfleet-fake-provider", *listen, *where, *flags) as program:
        yield program


def shard_flags(tmp_path: Path, fake: AwaitedProgram, *flags: str) -> tuple[str, ...]:
    where = ("--provider-addr", f"127.0.0.1:{fake.ports['port']}", "--data-dir", str(tmp_path / "data"))
    return ("shard", *FREE, *where, "--cycle-interval", "500ms", *flags)


def operator(
    shard: AwaitedProgram,
    cluster: str = "prod",
    *,
    answer: BlobAnswer = good_blob,
    tls: TlsStore | None = None,
) -> SessionPeer:
    net = GrpcNet(tls)
    target = f"{'localhost' if tls else '127.0.0.1'}:{shard.ports['port']}"
    return SessionPeer(net.dial(target), cluster, SystemClock(), answer=answer)


@pytest.mark.rule("shard#restart", "shard#killed")
@pytest.mark.asyncio
@pytest.mark.parametrize("sync", [True, False], ids=["synchronous", "asynchronous"])
async def test_demand_becomes_a_machine_and_survives_kill_minus_nine(tmp_path: Path, sync: bool) -> None:
    async with provider(tmp_path, *(["--sync"] if sync else [])) as fake:
        flags = shard_flags(tmp_path, fake)
        async with running("bigfleet", *flags) as shard:
            async with operator(shard) as peer:
                await peer.demand(need(cpu=8))
                await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) == 2)
                served = peer.in_state(S.CONFIGURED)
            await shard.end(signal.SIGKILL)
        async with running("bigfleet", *flags) as again, operator(again) as peer:
            await peer.until(lambda: "resync" in peer.echoes())
            assert peer.in_state(S.CONFIGURED) == served
            assert peer.acks[0].shard_epoch == 2
            await peer.demand(need(cpu=4))
            await peer.until(lambda: len(peer.instructions) == 1)
            assert await again.end() == 0


@pytest.mark.rule("packaging#component-ends", "shard#sigterm")
@pytest.mark.asyncio
async def test_sigterm_rolls_back_a_blob_wait_and_exits_zero_within_its_grace(tmp_path: Path) -> None:
    async with provider(tmp_path) as fake:
        shard = await AwaitedProgram.start("bigfleet", *shard_flags(tmp_path, fake, "--shutdown-grace", "5s"))
        async with operator(shard, answer=no_blob) as peer:
            await peer.demand(need(cpu=8))
            await peer.until(lambda: bool(peer.requests))
            assert await shard.end() == 0
            await peer.until(lambda: peer.is_over)
        assert shard.lines("stopping")


@pytest.mark.rule("shard#provider-unreachable-at-start")
@pytest.mark.asyncio
async def test_probes_tell_readiness_and_its_reasons_and_metrics(tmp_path: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a provider that is away
        port = taken.getsockname()[1]
        flags = ("shard", *FREE, "--provider-addr", f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "data"))
        async with running("bigfleet", *flags, "--cycle-interval", "200ms", "--actuation-paused") as shard:
            await shard.until(lambda: bool(shard.lines("reconcile_failed")))
            assert (await shard.get("/healthz"))[0] == 200
            status, body = await shard.get("/readyz")
            assert status == 503
            assert body.splitlines() == [
                "the provider has not been listed yet",
                "actuation is paused by --actuation-paused",
            ]
            assert await shard.metric("bigfleet_shard_actuation_paused") == 1
            channel = GrpcNet().dial(f"127.0.0.1:{shard.ports['port']}")
            asked = health_pb2.HealthCheckRequest(service="bigfleet.v1alpha1.Shard")
            answer = (await channel.unary(CHECK, asked, timeout_s=10)).message
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING  # `shard#grpc-health`
            await channel.close()
            assert shard.lines("actuation_paused")


@pytest.mark.rule("shard#in-process-fake")
@pytest.mark.asyncio
async def test_the_fake_inside_serves_and_says_that_nothing_is_real(tmp_path: Path) -> None:
    flags = ("shard", *FREE, "--data-dir", str(tmp_path / "data"), "--seed-machines", "20")
    async with running("bigfleet", *flags, "--cycle-interval", "500ms") as shard, operator(shard) as peer:
        assert shard.lines("in_process_fake")
        await peer.demand(need(cpu=1))
        await peer.until(lambda: len(peer.in_state(S.CONFIGURED)) >= 1)
        status, body = await shard.get("/readyz")
        assert (status, body.splitlines()[0]) == (200, "ok")
        assert "no machine is real" in body


@pytest.mark.rule("shard#rollup-large")
@pytest.mark.asyncio
async def test_a_roll_up_far_larger_than_four_mebibytes_is_taken(tmp_path: Path) -> None:
    flags = ("shard", *FREE, "--data-dir", str(tmp_path / "data"))
    async with running("bigfleet", *flags) as shard, operator(shard) as peer:
        rows = [
            capacity_pb2.CapacityNeed(priority=row, aggregate_resources={"cpu": "1"}, group="g" * 1000)
            for row in range(20_000)
        ]
        rollup = capacity_pb2.ClusterCapacityNeeds(cluster_id="prod", needs=rows)
        assert rollup.ByteSize() > 20_000_000
        await peer.send(shard_pb2.OperatorMessage(rollup=rollup))
        await peer.until(lambda: "rollup" in peer.echoes())


@pytest.mark.rule("shard#provider-unreachable-later")
@pytest.mark.asyncio
async def test_a_call_to_a_provider_that_is_away_is_undone_over_real_sockets(tmp_path: Path) -> None:
    async with (
        provider(tmp_path) as fake,
        running("bigfleet", *shard_flags(tmp_path, fake)) as shard,
        operator(shard) as peer,
    ):
        await peer.until(lambda: "resync" in peer.echoes())
        await fake.end(signal.SIGKILL)
        await peer.demand(need(cpu=4))
        await peer.until(lambda: S.IDLE in peer.states("idle-0"))
        assert peer.states("idle-0")[:2] == [S.CONFIGURING, S.IDLE]
        assert not peer.in_state(S.FAILED)
        assert (await shard.get("/readyz"))[0] == 200


async def called(fake: AwaitedProgram, rpc: str) -> None:
    """Wait until the provider has begun to serve a call."""
    async with asyncio.timeout(30):
        while rpc not in (await http_get(fake.ports["control_port"], f"/calls?rpc={rpc}"))[1]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


# Mutual TLS


def tls_flags(files: TlsFiles) -> tuple[str, ...]:
    return ("--tls-cert", str(files.cert), "--tls-key", str(files.key), "--tls-ca", str(files.ca))


def store(files: TlsFiles) -> TlsStore:
    return TlsStore(files, lambda _problem: None)


@pytest.mark.rule(
    "shard#tls", "packaging#process-metrics", "shard#wrong-certificate", "shard#rotation-half-done"
)
@pytest.mark.asyncio
async def test_identity_is_exact_and_a_mismatched_pair_keeps_serving(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki", datetime.now(UTC))
    ours = authority.issue(Identity.shard("shard-0"))
    flags = ("shard", *FREE, "--data-dir", str(tmp_path / "data"), *tls_flags(ours))
    async with running("bigfleet", *flags) as shard:
        right = store(authority.issue(Identity.cluster("prod")))
        async with operator(shard, tls=right) as peer:
            await peer.until(lambda: "hello" in peer.echoes())
        refused = {
            "another cluster": authority.issue(Identity.cluster("other")),
            "a shard": authority.issue(Identity.shard("shard-9")),
            "two identities": authority.issue_uris("two", ["bigfleet://cluster/prod", "bigfleet://admin"]),
            "none": authority.issue_uris("none", []),
        }
        for files in refused.values():
            async with operator(shard, tls=store(files)) as peer:
                await peer.until(lambda peer=peer: peer.is_over)  # type: ignore[misc]  # bound now
                assert peer.ended is not None
                assert peer.ended.code is Code.PERMISSION_DENIED
        rejected = await shard.metric("bigfleet_shard_session_identity_rejected_total")
        assert rejected == len(refused)
        assert missing_series((await shard.get("/metrics"))[1], "shard", "shard") == []
        replace_file(ours.key, authority.issue(Identity.shard("shard-1")).key)  # half a rotation
        async with operator(shard, tls=right) as peer:
            await peer.until(lambda: "hello" in peer.echoes())
        replace_pair(ours, authority.issue(Identity.shard("shard-0"), "renewed"))
        async with operator(shard, tls=right) as peer:
            await peer.until(lambda: "hello" in peer.echoes())


# Refusals to start: one clear line, the proper code, nothing half-written


@pytest.mark.rule("shard#epoch-corrupt", "shard#port-taken")
@pytest.mark.asyncio
async def test_what_cannot_be_had_at_start_is_one_line_and_exit_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "epoch").write_text("seven")
    usual = ("shard", "--metrics-addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--log-level", "error")
    code, text = await outcome("bigfleet", *usual, "--data-dir", str(data))
    assert (code, "allowed is a decimal number" in text, len(text.splitlines())) == (1, True, 1)
    assert (data / "epoch").read_text() == "seven"

    code, text = await outcome("bigfleet", *usual, "--data-dir", "/proc/nowhere")
    assert (code, len(text.splitlines())) == (1, 1)
    assert text.startswith("bigfleet: --data-dir: ")
    assert "/proc/nowhere" in text

    good = tmp_path / "good"
    audit = ("--audit-log", str(tmp_path / "missing" / "audit.log"))
    code, text = await outcome("bigfleet", *usual, "--data-dir", str(good), *audit)
    assert (code, "--audit-log: open" in text.splitlines()[-1]) == (1, True)

    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flag in ("--listen", "--metrics-addr"):
            code, text = await outcome("bigfleet", *usual, flag, address, "--data-dir", str(good))
            told = f"the port is in use by another process; {flag} takes another address"
            assert (code, told in text.splitlines()[-1]) == (1, True)

    async with running("bigfleet", "shard", *FREE, "--data-dir", str(good)):
        code, text = await outcome("bigfleet", *usual, "--data-dir", str(good))
        assert (code, "is another shard running on it" in text) == (1, True)


@pytest.mark.rule("shard#second-signal")
@pytest.mark.asyncio
async def test_a_second_signal_forfeits_the_grace(tmp_path: Path) -> None:
    async with provider(tmp_path, "--latency", "configure-call=30s") as fake:
        shard = await AwaitedProgram.start(
            "bigfleet", *shard_flags(tmp_path, fake, "--shutdown-grace", "50s")
        )
        async with operator(shard) as peer:
            await peer.demand(need(cpu=4))
            await called(fake, "Configure")
            shard.running.send(signal.SIGTERM)
            await shard.until(lambda: bool(shard.lines("stopping")))
            assert await shard.end(signal.SIGTERM) == 0
        assert shard.lines("hurried")
