"""`bigfleet-operator` as a process: exit codes, probes, TLS, metrics, shutdown."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import Identity
from bigfleet.kube.client import KubeClient
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS
from bigfleet.kube.roles import OPERATOR as ROLE
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsFiles, TlsStore
from tests.packaging_series import missing_series
from tests.support.certificates import Authority, replace_file, replace_pair
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.http import HttpFront
from tests.support.kube_api.world import capacity_request
from tests.support.program import RunningProgram
from tests.support.scripted_shard import ScriptedShard, node_state

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]


class Surroundings:
    """An API server in memory behind a real socket, and a scripted shard behind real gRPC."""

    def __init__(self, directory: Path, front: HttpFront, api: InMemoryApi) -> None:
        self.directory, self.front, self.api = directory, front, api
        self.shard = ScriptedShard()
        self.port = 0
        self.programs: list[RunningProgram] = []
        config = directory / "kubeconfig"
        config.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
            f"clusters: [{{name: x, cluster: {{server: '{front.url}'}}}}]\n"
            "users: [{name: x, user: {}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
        )

    def run(self, *flags: str, common: bool = True) -> RunningProgram:
        given = (
            "--cluster-id=prod-1",
            f"--shard-addr=127.0.0.1:{self.port}",
            f"--kubeconfig={self.directory / 'kubeconfig'}",
            "--metrics-addr=127.0.0.1:0",
            "--rollup-interval=500ms",
        )
        program = RunningProgram(
            "bigfleet-operator",
            *(given if common else ()),
            *flags,
            log=self.directory / f"operator-{len(self.programs)}.log",
            environ={"PATH": os.environ["PATH"], "HOME": str(self.directory), "NO_PROXY": "127.0.0.1"},
            python=("-W", "error"),
        )
        self.programs.append(program)
        return program

    async def until(self, what: str, condition: Callable[[], object], seconds: float = 60.0) -> None:
        end_s = asyncio.get_running_loop().time() + seconds
        while not await asyncio.to_thread(condition):
            assert asyncio.get_running_loop().time() < end_s, f"{what}\n{self.programs[-1].text()}"
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def around(tmp_path: Path) -> AsyncIterator[Surroundings]:
    api = InMemoryApi(SystemClock())
    async with HttpFront(api.transport(ROLE)).serving() as front:
        made = Surroundings(tmp_path, front, api)
        server = await GrpcNet().serve("127.0.0.1:0", [made.shard.bound()])
        made.port = server.port
        try:
            yield made
        finally:
            for program in made.programs:
                program.kill()
            await server.stop(0)


async def ended(program: RunningProgram) -> int:
    return await asyncio.to_thread(program.ended)


@pytest.mark.rule("operator#operator-metrics", "operator#probes", "operator#shutdown")
async def test_metrics_probes_and_a_quiet_end(around: Surroundings) -> None:
    program = around.run()
    await around.until("ready", lambda: program.http("/readyz")[0] == 200)
    assert program.http("/healthz")[0] == 200
    frames = [node_state(f"m-{number}", "Configured") for number in range(300)]
    around.shard.send(*frames)
    status, page = await asyncio.to_thread(program.http, "/metrics")
    assert status == 200
    for metric in OPERATOR_METRICS.metrics:
        assert f"# TYPE {metric.name.removesuffix('_total')}" in page or f"# TYPE {metric.name} " in page, (
            metric.name
        )
    await around.until("all written", lambda: 'noop"} 0' in program.http("/metrics")[1])
    assert await asyncio.to_thread(program.end) == 0
    assert "Unclosed" not in program.text()
    assert "Traceback" not in program.text()


@pytest.mark.rule("operator#refused-roll-up", "wire#rollup-limits")
async def test_a_cluster_learns_from_its_own_requests_that_a_real_shard_refused_its_demand(
    around: Surroundings,
) -> None:
    client = KubeClient(around.api.transport(), RateLimiter(SystemClock(), qps=1e6))
    for name, priority in (("low", 1), ("high", 2)):
        await client.create(CAPACITY_REQUESTS, capacity_request(name, priority=priority))
    flags = ("--listen=127.0.0.1:0", "--metrics-addr=0", "--log-format=json", "--max-rows-per-cluster=1")
    shard = RunningProgram("bigfleet", "shard", *flags, f"--data-dir={around.directory / 'shard'}")
    around.programs.append(shard)
    around.port = await asyncio.to_thread(shard.port, "port")
    operator = around.run()
    await around.until("refused", lambda: "rollup_refused 1.0" in operator.http("/metrics")[1])

    def said() -> list[str]:
        events = around.api.objects.of(EVENTS).values()
        return [event["message"] for event in events if event["reason"] == "RollUpRefused"]

    await around.until("both are told", lambda: len(said()) == 2)
    assert "found '2 rows', allowed is at most 1 (--max-rows-per-cluster)" in said()[0]


@pytest.mark.rule("operator#start-order")
async def test_a_taken_metrics_port_ends_the_process_and_0_opens_none(around: Surroundings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        program = around.run(f"--metrics-addr=127.0.0.1:{taken.getsockname()[1]}")
        assert await ended(program) == 1
        assert "in use" in program.text()
    quiet = around.run("--metrics-addr=0")
    await around.until("connected", lambda: around.shard.is_connected)
    assert quiet.port() == 0
    assert await asyncio.to_thread(quiet.end) == 0


async def test_a_cluster_that_cannot_be_seen_in_time_ends_the_process(around: Surroundings) -> None:
    around.front.tokens = set()
    program = around.run("--cache-sync-timeout=1s")
    assert await ended(program) == 1
    assert "not synchronised within 1 s" in program.text()


async def test_leader_elect_lets_one_work_and_the_other_take_over(around: Surroundings) -> None:
    first = around.run("--leader-elect")
    await around.until("the first works", lambda: len(around.shard.sessions) == 1)
    second = around.run("--leader-elect")
    await around.until("the second waits", lambda: "held by another" in second.http("/readyz")[1])
    assert len(around.shard.sessions) == 1
    assert await asyncio.to_thread(first.end) == 0
    await around.until("the second works", lambda: len(around.shard.sessions) == 2)
    await around.until("ready", lambda: second.http("/readyz")[0] == 200)


def tls_flags(files: TlsFiles) -> tuple[str, str, str]:
    return f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}"


@pytest_asyncio.fixture
async def secured(around: Surroundings) -> AsyncIterator[Authority]:
    """The shard with mutual TLS, in place of the plaintext one."""
    authority = Authority(around.directory / "pki", datetime.now(UTC))
    files = authority.issue(Identity.shard("shard-0"))
    server = await GrpcNet(TlsStore(files, print)).serve("127.0.0.1:0", [around.shard.bound()])
    around.port = server.port
    yield authority
    await server.stop(0)


@pytest.mark.rule("operator#refused-identity", "operator#e8", "packaging#certs", "packaging#process-metrics")
async def test_the_right_certificate_works(around: Surroundings, secured: Authority) -> None:
    program = around.run(*tls_flags(secured.issue(Identity.cluster("prod-1"))))
    await around.until("ready", lambda: program.http("/readyz")[0] == 200)
    assert around.shard.current.hellos[0].cluster_id == "prod-1"
    _, page = await asyncio.to_thread(program.http, "/metrics")
    assert missing_series(page, "operator", "cluster") == []


@pytest.mark.rule("operator#refused-identity", "operator#e8")
async def test_another_clusters_certificate_is_refused_and_the_process_lives_until_it_is_repaired(
    around: Surroundings, secured: Authority
) -> None:
    files = secured.issue(Identity.cluster("other"))
    program = around.run(*tls_flags(files))
    await around.until("refused", lambda: program.lines("session_refused"))
    (line, *_) = program.lines("session_refused")
    assert line["expected_identity"] == "bigfleet://cluster/prod-1"
    assert "PERMISSION_DENIED" in line["error"]
    # The first attempt may have come before anybody listened.
    assert max(end["wait_s"] for end in program.lines("session_ended")) >= 30
    assert program.http("/readyz")[0] == 503
    assert program.http("/healthz")[0] == 200
    assert around.shard.sessions == []


@pytest.mark.rule("operator#certificate-rotation")
async def test_a_rotated_certificate_is_presented_at_the_next_dial_and_a_bad_pair_is_not(
    around: Surroundings, secured: Authority
) -> None:
    files = secured.issue(Identity.cluster("prod-1"))
    program = around.run(*tls_flags(files))
    await around.until("connected", lambda: len(around.shard.sessions) == 1)
    other = secured.issue(Identity.cluster("other"))
    replace_file(files.key, other.key)  # half of a rotation: the pair does not fit, the old one is used
    around.shard.current.close()
    await around.until("connected again", lambda: len(around.shard.sessions) == 2)
    assert program.lines("tls_problem")
    replace_pair(files, other)
    around.shard.current.close()
    await around.until("refused as other", lambda: program.lines("session_refused"))
    assert "bigfleet://cluster/other" in program.lines("session_refused")[0]["error"]


async def test_a_shard_of_another_authority_is_a_tls_error_told_as_such(
    around: Surroundings, secured: Authority
) -> None:
    other = Authority(around.directory / "other", datetime.now(UTC))
    program = around.run(*tls_flags(other.issue(Identity.cluster("prod-1"))))
    await around.until("refused", lambda: program.lines("session_refused"))
    assert program.http("/readyz")[0] == 503
