"""`bigfleet dashboard` as a process: its flags, its refusals, certificates.

Rules: `dashboard#process`, `dashboard#security`, `dashboard#who-may-read`, `dashboard#upstream-identity`.
"""

import asyncio
import http.client
import json
import re
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import READONLY, Identity
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.bigfleet import main
from bigfleet.dashboard.service import Dashboard, DashboardOptions
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.shard.read.read_service import ReadService
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.resolve import system_resolve
from bigfleet.transport.tls import TlsFiles, TlsStore
from tests.integration.dashboard.world import situation
from tests.support.certificates import Authority
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.http import HttpFront
from tests.support.program import RunningProgram
from tests.support.shard_views import StaticShard

pytestmark = pytest.mark.integration


def ask(program: RunningProgram, path: str, **headers: str) -> tuple[int, Any]:
    (port,) = program.wait(
        "it prints its address", lambda: re.findall(r"dashboard: http://127.0.0.1:(\d+)/", program.text())
    )
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        return answer.status, json.loads(body) if path.startswith("/api") else body
    finally:
        connection.close()


@asynccontextmanager
async def a_shard(files: TlsFiles | None = None) -> AsyncIterator[str]:
    shard = StaticShard("shard-7")
    shard.complete(situation(), computed_at_ns=time.time_ns())
    watching = CycleFollower(shard, DecisionLog(), log=structlog.get_logger())
    net = GrpcNet(TlsStore(files, pytest.fail)) if files else GrpcNet()
    services = [ReadService(shard).bound(), InsightService(shard, watching, StatusSources()).bound()]
    server = await net.serve("127.0.0.1:0", services)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop(0)


def run(directory: Path, *flags: str) -> RunningProgram:
    return RunningProgram(
        "bigfleet", "dashboard", "--listen=127.0.0.1:0", *flags, log=directory / "log", environ={}
    )


def test_a_shard_given_by_address_appears_under_its_own_name_and_clusters_by_context(tmp_path: Path) -> None:
    async def play() -> None:
        async with a_shard() as address, HttpFront(InMemoryApi(SystemClock()).transport()).serving() as front:
            contexts = {
                "clusters": [{"name": "c", "cluster": {"server": front.url}}],
                "contexts": [{"name": name, "context": {"cluster": "c"}} for name in ("east", "west")],
            }
            (tmp_path / "kubeconfig").write_text(json.dumps(contexts))
            await asyncio.to_thread(look, address)

    def look(address: str) -> None:
        flags = (f"--shard-addr={address}", f"--kubeconfig={tmp_path / 'kubeconfig'}")
        with run(tmp_path, *flags) as program:
            program.wait("the shard is seen", lambda: ask(program, "/api/v1/x/status")[1]["machines"])
            assert ask(program, "/api/v1/needs?shard=shard-7")[1]["shardId"] == "shard-7"
            assert "shard-7" in ask(program, "/shards")[1]
            assert [row["id"] for row in ask(program, "/api/v1/clusters")[1]["clusters"]] == ["east", "west"]
            reply = ask(program, "/api/v1/config")[1]
            assert (reply["prometheusWired"], reply["kubeconfigWired"]) == (True, True)
            assert program.end() == 0
            assert "Traceback" not in program.text()

    asyncio.run(play())


@pytest.mark.rule("dashboard#who-may-read")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--listen=0.0.0.0:0",), "--listen: found 0.0.0.0:0, allowed is a loopback address"),
        (("--kubeconfig=/nowhere",), "--kubeconfig: "),
        (("--tls-cert=a.pem",), "--tls-"),
        (("--https-cert=a.pem",), "--https-cert, --https-key: found one of them"),
        (
            ("--https-cert=a.pem", "--https-key=a.pem"),
            "--https-cert: found without a way to authenticate readers",
        ),
        (("--https-client-ca=a.pem",), "--https-client-ca: found without --https-cert"),
        (
            ("--trusted-proxy=proxy.example",),
            "--trusted-proxy: found 'proxy.example', allowed is an IP address",
        ),
        (("--prometheus-url=ftp://x",), "prometheus"),
        (("--prometheus-url=http://x", "--scrape=a=http://b"), "found both, allowed is one of them"),
    ],
    ids=[
        "item 24 not loopback",
        "kubeconfig",
        "partial TLS",
        "partial HTTPS",
        "HTTPS for everybody",
        "certificates without HTTPS",
        "proxy by name",
        "no URL",
        "two sources of metrics",
    ],
)
def test_a_wrong_flag_ends_the_start_with_a_sentence(
    flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dashboard", *flags]) == 2
    reply = capsys.readouterr().err
    assert words in reply
    assert "Traceback" not in reply


@pytest.mark.rule("dashboard#who-may-read")
def test_under_https_no_reader_gets_in_without_token_or_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", datetime.now(UTC))
    own, reader = authority.issue(READONLY, "own"), authority.issue(READONLY, "reader")
    (tmp_path / "token").write_text("right\n")
    listener = (f"--https-cert={own.cert}", f"--https-key={own.key}", f"--https-client-ca={own.ca}")

    def read(program: RunningProgram, context: ssl.SSLContext, **headers: str) -> int:
        (port,) = program.wait(
            "it prints its address",
            lambda: re.findall(r"dashboard: https://127.0.0.1:(\d+)/", program.text()),
        )
        connection = http.client.HTTPSConnection("127.0.0.1", int(port), timeout=60, context=context)
        try:
            connection.request("GET", "/api/v1/x/status", headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def trust(files: TlsFiles | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(own.ca))
        context.check_hostname = False  # the certificates of the fleet name roles
        if files is not None:
            context.load_cert_chain(files.cert, files.key)
        return context

    with run(tmp_path, *listener, f"--token-file={tmp_path / 'token'}") as program:
        assert read(program, trust()) == 401
        assert read(program, trust(), Authorization="Bearer right") == 200
        assert read(program, trust(reader)) == 200
        assert program.end() == 0
        assert "right" not in program.text()


@pytest.mark.rule("dashboard#upstream-identity")
def test_a_readonly_certificate_reads_and_anothers_refusal_is_reported(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", datetime.now(UTC))
    server = authority.issue(Identity.shard("shard-7"), "server")

    def look(address: str, files: TlsFiles) -> dict[str, Any]:
        flags = (f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}")
        with run(tmp_path, f"--shard-addr={address}", *flags) as program:
            program.wait("it was asked", lambda: ask(program, "/api/v1/x/status")[1]["shards"])
            reply: dict[str, Any] = ask(program, "/api/v1/x/status")[1]
            return reply

    async def refused(address: str, files: TlsFiles) -> str:
        """What a dashboard with this certificate says of the shard."""
        net = GrpcNet(TlsStore(files, pytest.fail))
        options = DashboardOptions(port=0, shards={"shard-7": address})
        dashboard = Dashboard(
            options, clock=SystemClock(), net=net, resolve=system_resolve, disk=SystemDisk()
        )
        await dashboard.fleet.watcher.once()
        await dashboard.fleet.watcher.close()
        return dashboard.fleet.picture.shards[0].error

    async def play() -> None:
        async with a_shard(server) as address:
            good = await asyncio.to_thread(look, address, authority.issue(READONLY, "reader"))
            assert (good["needs"], good["shardsWithoutCurrentNumbers"]) == (3, 0)
            other = authority.issue(Identity.shard("shard-9"), "other")
            assert "refused this dashboard's certificate" in await refused(address, other)

    asyncio.run(play())
