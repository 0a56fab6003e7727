"""The coordinator client over real sockets: plaintext, mutual TLS, and a coordinator that goes and comes back.

Rules: `shard#coordinator-client`, `shard#failures`, `wire#identity`, `coordinator#identity-gates`,
`coordinator#shard-client`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import ADMIN, Identity, Role
from bigfleet.aio.net import Call
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.coordlink.link import CoordinatorLink
from bigfleet.model.instruction import AssignDomain, Domain, Instruction, Outcome, ReportAnswer
from bigfleet.model.situation import Situation
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.views import TermMark
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.transport.gates import allow_exact
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.resolve import system_resolve
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.builders import machine
from tests.support.certificates import Authority
from tests.support.scripted_coordinator import ScriptedCoordinator
from tests.support.shard_views import StaticShard

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]
DEADLINE_S = 60.0
RACK = Domain("rack", "r1")


class GatedCoordinator(ScriptedCoordinator):
    """Lets in exactly the shard that a report is about, as the real one does."""

    @allow_exact(Role.SHARD, lambda request: request.shard_id)
    async def report_shard(self, request: pb.ShardReport, call: Call) -> pb.ReportAck:
        return await super().report_shard(request, call)


def tls(files: TlsFiles) -> TlsStore:
    return TlsStore(files, print)


@contextlib.asynccontextmanager
async def running(port: int, data_dir: Path, net: GrpcNet) -> AsyncIterator[tuple[CoordinatorLink, TermMark]]:
    shard, mark = StaticShard(), TermMark()
    shard.complete(Situation(0.0, (machine("m-1"), machine("m-2"))))
    link = CoordinatorLink(
        shard,
        mark,
        f"localhost:{port}",
        data_dir=data_dir,
        net=net,
        resolve=system_resolve,
        clock=SystemClock(),
        disk=SystemDisk(),
        metrics=Metrics(SHARD_METRICS, CollectorRegistry(), version="test", commit="test"),
        log=structlog.get_logger(),
        interval_s=0.05,
    )
    task = asyncio.create_task(link.run())
    try:
        yield link, mark
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not fact():  # noqa: ASYNC110  a fact of the link that no event announces
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "mutual TLS"])
async def test_report_obey_and_ack_over_the_wire(tmp_path: Path, secured: bool) -> None:
    coordinator = GatedCoordinator(SystemClock())
    order = Instruction(9, 1, "i-1", AssignDomain(RACK))
    coordinator.answers(ReportAnswer(9, acknowledged=True, instructions=(order,)))
    coordinator.usually(ReportAnswer(9, acknowledged=True))
    server_net, shard_net = GrpcNet(), GrpcNet()
    if secured:
        authority = Authority(tmp_path / "pki", datetime.now(UTC))
        server_net = GrpcNet(tls(authority.issue(ADMIN)))
        shard_net = GrpcNet(tls(authority.issue(Identity.shard("shard-0"))))
    server = await server_net.serve("127.0.0.1:0", [coordinator.bound()])
    async with running(server.port, tmp_path, shard_net) as (link, mark):
        await until(lambda: any(report.acks for report in coordinator.reports))
        assert (mark.value, link.domains.listed()) == (9, (RACK,))
    await server.stop(0)
    (ack,) = next(report.acks for report in coordinator.reports if report.acks)
    assert (ack.instruction_id, ack.outcome) == ("i-1", Outcome.ACCEPTED)
    first = coordinator.reports[0]
    assert first.summary is not None
    assert first.summary.total_machines == 2
    assert (tmp_path / "coordinator-term").read_text() == "9\n"


@pytest.mark.rule("shard#coordinator-identity-refused")
async def test_the_certificate_of_another_shard_is_refused_and_the_link_goes_on(tmp_path: Path) -> None:
    """Identity refused."""
    authority = Authority(tmp_path / "pki", datetime.now(UTC))
    coordinator = GatedCoordinator(SystemClock())
    server = await GrpcNet(tls(authority.issue(ADMIN))).serve("127.0.0.1:0", [coordinator.bound()])
    stranger = GrpcNet(tls(authority.issue(Identity.shard("shard-9"))))
    async with running(server.port, tmp_path, stranger) as (link, mark):
        await until(lambda: link.status.failures >= 3)
        assert "PERMISSION_DENIED" in link.status.last_error
        assert (mark.value, coordinator.reports) == (0, [])
    await server.stop(0)


async def test_a_coordinator_that_comes_back_on_its_port_is_found_again(tmp_path: Path) -> None:
    """Down, failing over."""
    coordinator = ScriptedCoordinator(SystemClock())
    server = await GrpcNet().serve("127.0.0.1:0", [coordinator.bound()])
    port = server.port
    async with running(port, tmp_path, GrpcNet()) as (link, _):
        await until(lambda: len(coordinator.reports) >= 1)
        await server.stop(0)
        await until(lambda: link.status.failures >= 1)
        heard = len(coordinator.reports)
        server = await GrpcNet().serve(f"127.0.0.1:{port}", [coordinator.bound()])
        await until(lambda: len(coordinator.reports) > heard and link.status.failures == 0)
    await server.stop(0)
