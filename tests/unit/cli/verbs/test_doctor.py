"""`bigfleet doctor` finds each planted fault and nothing on a good deployment (`packaging#doctor`)."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.identity import ADMIN, Identity, Role
from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.verbs.doctor.command import DoctorSettings, cluster_findings
from bigfleet.cli.verbs.doctor.findings import Finding, clock_finding, definition_finding
from bigfleet.cli.verbs.doctor.probes import own_certificate, reachable
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.transport import ApiCall, ApiResponse
from bigfleet.transport.tls import TlsFiles
from tests.support.certificates import Authority
from tests.support.ports import free_ports

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)


def run(*argv: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: NOW)
    return dispatch(console, ["doctor", *argv]), out.getvalue(), err.getvalue()


def faults(findings: list[Finding]) -> list[str]:
    return [f"{finding.what}: {finding.seen}" for finding in findings if not finding.is_good]


@pytest.mark.rule("packaging#doctor")
@pytest.mark.integration
def test_a_closed_port_is_found_and_ends_with_1() -> None:
    (port,) = free_ports(1)
    code, out, err = run("--shard-addr", f"127.0.0.1:{port}", "-o", "json")
    assert (code, err) == (1, "")
    rows = json.loads(out)["checks"]
    assert [row["result"] for row in rows] == ["ok", "FAIL"]
    assert rows[1]["check"] == f"port 127.0.0.1:{port}"
    assert "cannot be reached" in rows[1]["seen"]


def test_a_name_that_is_none_is_found() -> None:
    found = asyncio.run(reachable("no-such-host.invalid:7780", None, None))
    assert [finding.what for finding in found if not finding.is_good] == ["name no-such-host.invalid"]


@pytest.mark.rule("packaging#doctor")
def test_an_own_certificate_of_another_role_expired_or_missing_is_found(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki", NOW)
    files = authority.issue(Identity.cluster("prod-1"))
    assert faults(own_certificate(files, Role.CLUSTER, NOW)) == []
    (wrong,) = faults(own_certificate(files, Role.SHARD, NOW))
    assert wrong.endswith("names bigfleet://cluster/prod-1, allowed is the role shard")
    (late,) = faults(own_certificate(files, Role.CLUSTER, NOW + timedelta(days=365)))
    assert "expired" in late
    assert faults(own_certificate(TlsFiles(tmp_path / "none", files.key, files.ca), None, NOW))


@pytest.mark.rule("packaging#doctor")
@pytest.mark.integration
def test_a_peer_of_another_role_or_another_authority_is_found(tmp_path: Path) -> None:
    import ssl

    now = datetime.now(UTC)  # the TLS library has no other clock
    ours, theirs = Authority(tmp_path / "ours", now), Authority(tmp_path / "theirs", now)
    server, client = ours.issue(ADMIN), ours.issue(Identity.shard("s-0"))
    stranger = theirs.issue(Identity.shard("s-0"))

    async def scene() -> list[list[Finding]]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(server.cert), str(server.key))
        context.set_alpn_protocols(["h2"])
        listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with listening:
            return [
                await reachable(address, client, Role.ADMIN),
                await reachable(address, client, Role.SHARD),
                await reachable(address, stranger, Role.ADMIN),
            ]

    well, wrong_role, wrong_authority = asyncio.run(scene())
    assert faults(well) == []
    assert [fault.partition(": ")[2] for fault in faults(wrong_role)] == [
        "is bigfleet://admin, allowed is the role shard"
    ]
    assert "certificate verify failed" in faults(wrong_authority)[0]


@pytest.mark.rule("packaging#doctor")
@pytest.mark.parametrize(
    ("seconds", "is_good"), [(0, True), (29, True), (-29, True), (31, False), (-600, False)]
)
def test_a_skewed_clock_is_found(seconds: int, is_good: bool) -> None:
    finding = clock_finding(format_datetime(NOW - timedelta(seconds=seconds)), NOW)
    assert finding.is_good is is_good
    assert ("ahead" in finding.seen) == (seconds > 0)


@pytest.mark.rule("packaging#doctor")
def test_a_missing_or_old_definition_is_found() -> None:
    definition = DEFINITIONS[0]
    manifest: dict[str, Any] = json.loads(json.dumps(definition.manifest()))
    assert definition_finding(definition, manifest).is_good
    assert "is missing" in definition_finding(definition, None).seen
    spec = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"].popitem()
    assert "another version" in definition_finding(definition, manifest).seen
    manifest["spec"]["versions"][0]["name"] = "v1alpha0"
    assert "lacks the version v1alpha1" in definition_finding(definition, manifest).seen


class OneCluster:
    """An API server that grants everything except the given rights."""

    def __init__(self, denied: tuple[str, str] | None = None, status: int = 200) -> None:
        self._denied, self._status = denied, status

    async def send(self, call: ApiCall) -> ApiResponse:
        if call.path == "/version":
            return ApiResponse(200, {}, {"Date": format_datetime(NOW)})
        if call.method == "GET":
            name = call.path.rpartition("/")[2]
            (found,) = (definition for definition in DEFINITIONS if definition.name == name)
            return ApiResponse(self._status, json.loads(json.dumps(found.manifest())))
        asked: Any = call.body
        attributes = asked["spec"]["resourceAttributes"]
        return ApiResponse(
            201, {"status": {"allowed": (attributes["resource"], attributes["verb"]) != self._denied}}
        )


def look(cluster: OneCluster, **settings: Any) -> list[Finding]:
    console = Console(PROGRAM, StringIO(), StringIO(), {}, lambda: NOW)
    return asyncio.run(cluster_findings(cluster, DoctorSettings(**settings), "bigfleet-system", console))  # type: ignore[arg-type]


@pytest.mark.rule("packaging#doctor")
def test_a_missing_right_is_found_by_name() -> None:
    assert faults(look(OneCluster(), program="operator")) == []
    assert faults(look(OneCluster(("nodes", "patch")), program="operator")) == [
        "right to patch nodes: is missing; the role bigfleet-operator has it"
    ]
    assert faults(look(OneCluster(("leases", "update")), program="pod-controller")) == []
    assert (
        len(faults(look(OneCluster(("leases", "update")), program="pod-controller", leader_elect=True))) == 1
    )


def test_whoever_may_not_read_definitions_is_still_told_of_his_rights() -> None:
    found = look(OneCluster(status=403), program="operator")
    assert [finding.what for finding in found] == ["clock", "rights"]


def test_nothing_to_check_and_a_bad_url_are_refused_with_2() -> None:
    assert run()[0] == 2
    code, _, err = run("--ready", "shard:8780")
    assert (code, err) == (2, "bigfleet: --ready: found 'shard:8780', allowed is http://HOST:PORT\n")
