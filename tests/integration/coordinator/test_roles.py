"""What a coordinator does with a wrong identity under real mutual TLS, and the tool's certificates.

Rules: `coordinator#bigfleetctl`, `coordinator#wrong-identity`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.aio.net import Code, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.dashboard.service import Dashboard, DashboardOptions
from bigfleet.transport.coordinator import (
    ASSIGN_DOMAIN,
    JOIN_RAFT_CLUSTER,
    LIST_DOMAIN_ASSIGNMENTS,
    LIST_SHARD_REPORTS,
    LIST_SHARDS,
    REMOVE_SHARD,
    REPORT_SHARD,
    UNASSIGN_DOMAIN,
)
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.resolve import system_resolve
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.coordinator.harness import Running, bigfleetctl, running
from tests.packaging_series import missing_series
from tests.support.certificates import Authority

pytestmark = pytest.mark.integration

EMPTY: dict[UnaryMethod[Any, Any], object] = {
    ASSIGN_DOMAIN: pb.AssignDomainRequest(),
    UNASSIGN_DOMAIN: pb.UnassignDomainRequest(),
    REMOVE_SHARD: pb.RemoveShardRequest(),
    JOIN_RAFT_CLUSTER: pb.JoinRaftClusterRequest(),
    LIST_SHARDS: pb.ListShardsRequest(),
    LIST_DOMAIN_ASSIGNMENTS: pb.ListDomainAssignmentsRequest(),
    LIST_SHARD_REPORTS: pb.ListShardReportsRequest(),
    REPORT_SHARD: pb.ShardReport(shard_id="s-1"),
}


@dataclass
class Secured:
    """One replica under mutual TLS, and certificates of every kind."""

    running: Running
    files: dict[str, TlsFiles]

    def code(self, holder: str, method: UnaryMethod[Any, Any], request: object) -> Code:
        """How a call of that holder ends; an empty request that passes the gate is an invalid argument."""
        net = GrpcNet(TlsStore(self.files[holder], lambda _problem: None))
        try:
            self.running.call(method, request, net)
        except RpcError as error:
            return error.code
        return Code.OK

    def flags(self, holder: str) -> list[object]:
        files = self.files[holder]
        return ["--tls-cert", files.cert, "--tls-key", files.key, "--tls-ca", files.ca]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("roles")
    authority = Authority(directory / "pki", datetime.now(UTC))
    files = {
        "admin": authority.issue(ADMIN, "admin"),
        "readonly": authority.issue(READONLY, "readonly"),
        "shard s-1": authority.issue(Identity.shard("s-1"), "s-1"),
        "cluster": authority.issue(Identity.cluster("blue"), "blue"),
        "nobody": authority.issue_uris("nobody", []),
        "foreign uri": authority.issue_uris("foreign", ["spiffe://x/y", "bigfleet://admin"]),
    }
    own = files["admin"]
    flags = ["--tls-cert", str(own.cert), "--tls-key", str(own.key), "--tls-ca", str(own.ca)]
    net = GrpcNet(TlsStore(own, lambda _problem: None))
    with running(directory, replicas=1, flags=flags, net=net) as here:
        yield Secured(here, files)


@pytest.mark.rule("coordinator#wrong-identity", "packaging#process-metrics", "dashboard#original-calls")
def test_every_refusal_is_counted_by_call_and_logged(secured: Secured) -> None:
    """Who is refused where: tests/attack/test_identity_matrix.py."""
    for method, request in EMPTY.items():
        assert secured.code("nobody", method, request) is Code.PERMISSION_DENIED, method.path
    assert secured.code("foreign uri", LIST_SHARDS, EMPTY[LIST_SHARDS]) is Code.OK  # such URIs are ignored
    assert secured.running.http(0, "/metrics")[1].count(
        "bigfleet_coordinator_identity_rejected_total{"
    ) == len(EMPTY)
    assert missing_series(secured.running.http(0, "/metrics")[1], "coordinator", "admin") == []
    assert "identity_refused" in secured.running.cluster.members[0].log_text()


@pytest.mark.rule("coordinator#bigfleetctl", "packaging#exit-codes")
def test_the_tool_shows_its_certificate_and_a_wrong_one_is_exit_6(secured: Secured, tmp_path: Path) -> None:
    at = ("--coordinator", secured.running.addresses)
    assert bigfleetctl(*at, *secured.flags("readonly"), "list-shards").code == 0
    assert bigfleetctl(*at, *secured.flags("readonly"), "status").code == 0
    refused = bigfleetctl(*at, *secured.flags("readonly"), "unassign-domain", "--key", "k", "--value", "v")
    assert refused.code == 6
    assert refused.err.startswith(
        "bigfleetctl: this call is for bigfleet://admin; presented: bigfleet://readonly"
    )
    assert bigfleetctl(*at, *secured.flags("cluster"), "status").code == 6
    assert bigfleetctl(*at, "list-shards", "--timeout", "1s").code == 7  # plaintext to a secured port
    files = secured.files["admin"]
    context = tmp_path / "bigfleet" / "contexts.yaml"
    context.parent.mkdir()
    context.write_text(
        f"contexts: {{prod: {{coordinator: '{secured.running.addresses}', tls-cert: {files.cert}, "
        f"tls-key: {files.key}, tls-ca: {files.ca}}}}}"
    )
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert (
        bigfleetctl(
            "unassign-domain", "--key", "k", "--value", "v", "--context", "prod", environ=environ
        ).code
        == 0
    )
    half = bigfleetctl(*at, "--tls-cert", files.cert, "list-shards")
    assert (half.code, "allowed is all three TLS flags or none" in half.err) == (2, True)
    missing = bigfleetctl(*at, *secured.flags("admin")[:4], "--tls-ca", tmp_path / "none.crt", "list-shards")
    assert (missing.code, missing.err.count("\n")) == (2, 1)


@pytest.mark.rule("dashboard#upstream-identity")
@pytest.mark.parametrize(("holder", "reads"), [("readonly", True), ("shard s-1", False)])
def test_a_dashboard_reads_with_a_readonly_certificate_and_tells_a_refusal_as_such(
    secured: Secured, holder: str, reads: bool
) -> None:
    """`dashboard#upstream-identity`: a coordinator that refuses is not one that is away."""

    async def look() -> tuple[str, int, str, str]:
        net = GrpcNet(TlsStore(secured.files[holder], lambda _problem: None))
        options = DashboardOptions(port=0, coordinator=[secured.running.addresses])
        dashboard = Dashboard(
            options, clock=SystemClock(), net=net, resolve=system_resolve, disk=SystemDisk()
        )
        await dashboard.start()
        try:
            await dashboard.fleet.watcher.once()
            place = dashboard.fleet.picture.coordinator
            assert place is not None
            url = f"http://127.0.0.1:{dashboard.port}"
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{url}/api/v1/topology") as answer:
                    status, body = answer.status, await answer.text()
                async with session.get(f"{url}/topology") as answer:
                    page = await answer.text()
            return place.error, status, body, page
        finally:
            await dashboard.stop()

    error, status, body, page = secured.running.wait(look())
    refusal = "the coordinator refused this dashboard's certificate"
    if reads:
        assert (error, status) == ("", 200)
        assert refusal not in page
    else:
        assert refusal in error
        assert (status, refusal in json.loads(body)["error"]) == (502, True)
        assert refusal in unescape(page)
        assert "rebuilding" not in page
