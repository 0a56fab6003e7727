"""Every method of every gRPC service against every kind of certificate, on real processes.

The rows come from the service descriptors, so a new method is tested before somebody thinks of it: without a gate all its cells
are wrong, and with one it needs a row in `ALLOWED` that says who may call it and why.
Rules: `wire#identity`, `providers#shard-san`, `coordinator#identity-gates`, `shard#session-opening`, `shard#inspection`.
"""

import asyncio
import pkgutil
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # ships no type marker
    reflection_pb2,
    reflection_pb2_grpc,
)

from bigfleet import v1alpha1
from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.insight import v1 as insight
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import shard_pb2
from tests.support.certificates import Authority
from tests.support.coordinator.processes import ProcessCluster
from tests.support.program import RunningProgram

pytestmark = [
    pytest.mark.integration,
    pytest.mark.rule(
        "wire#identity",
        "providers#shard-san",
        "coordinator#identity-gates",
        "coordinator#wrong-identity",
        "shard#session-opening",
        "shard#inspection",
        "shard#tls",
    ),
]

DEADLINE_S: Final = 30.0
CLUSTER, SHARD = "blue", "shard-0"
POOLS: Final = "pools: [{name: m, count: 4, instance_type: t, zones: [a], resources: {cpu: 4}}]\n"


def modules() -> Iterator[ModuleType]:
    for package in (v1alpha1, insight):
        for found in pkgutil.iter_modules(package.__path__):
            if found.name.endswith("_pb2"):
                yield import_module(f"{package.__name__}.{found.name}")


METHODS: Final[dict[str, MethodDescriptor]] = {
    method.full_name: method
    for module in modules()
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
SERVED_BY: Final = {
    "bigfleet.v1alpha1.CapacityProvider": "provider",
    "bigfleet.v1alpha1.Shard": "shard",
    "bigfleet.v1alpha1.ShardRead": "shard",
    "bigfleet.insight.v1.InsightService": "shard",
    "bigfleet.v1alpha1.Coordinator": "coordinator",
}
OPEN_TO_ALL: Final = {
    "grpc.health.v1.Health": "load balancers and probes ask it; it says whether a service serves and nothing else",
    "grpc.reflection.v1alpha.ServerReflection": "it shows the contract, which is public; off unless a flag turns it on",
}

_numbers: Final = count(1)  # of calls, so that no call is fenced by one before it

# Who may call, with the reason; no other cell is allowed.
READERS: Final = {
    "readonly": "the role is for people and dashboards that look",
    "admin": "an administrator sees what a reader sees",
}
ADMINS: Final = {"admin": "it changes the fleet, or holds its whole state"}
ITS_SHARD: Final = {
    "its shard": "a provider obeys the shard that the token names, and nobody else needs its machines"
}
NO_READER_AT_A_PROVIDER: Final = {
    "its shard": "listings carry the metadata of every tenant's machines",
    "another shard": "one provider may serve several shards, and a listing names none",
}
ALLOWED: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "bigfleet.v1alpha1.CapacityProvider.Create": ITS_SHARD,
        "bigfleet.v1alpha1.CapacityProvider.Configure": ITS_SHARD,
        "bigfleet.v1alpha1.CapacityProvider.Drain": ITS_SHARD,
        "bigfleet.v1alpha1.CapacityProvider.Delete": ITS_SHARD,
        "bigfleet.v1alpha1.CapacityProvider.Get": NO_READER_AT_A_PROVIDER,
        "bigfleet.v1alpha1.CapacityProvider.List": NO_READER_AT_A_PROVIDER,
        "bigfleet.v1alpha1.Shard.Session": {
            "its operator": "a session speaks for the cluster of its certificate"
        },
        "bigfleet.v1alpha1.ShardRead.InspectNeeds": READERS,
        "bigfleet.insight.v1.InsightService.GetStatus": READERS,
        "bigfleet.insight.v1.InsightService.WatchCycles": READERS,
        "bigfleet.insight.v1.InsightService.ListCycles": READERS,
        "bigfleet.insight.v1.InsightService.ListMachines": READERS,
        "bigfleet.insight.v1.InsightService.ListNeeds": READERS,
        "bigfleet.insight.v1.InsightService.ListDecisions": READERS,
        "bigfleet.insight.v1.InsightService.ListShortfalls": READERS,
        "bigfleet.insight.v1.InsightService.ExplainNeed": READERS,
        "bigfleet.insight.v1.InsightService.ExplainMachine": READERS,
        "bigfleet.insight.v1.InsightService.GetSnapshot": READERS,
        "bigfleet.v1alpha1.Coordinator.ReportShard": {
            "its shard": "a report speaks for the shard that sends it"
        },
        "bigfleet.v1alpha1.Coordinator.AssignDomain": ADMINS,
        "bigfleet.v1alpha1.Coordinator.UnassignDomain": ADMINS,
        "bigfleet.v1alpha1.Coordinator.RemoveShard": ADMINS,
        "bigfleet.v1alpha1.Coordinator.ListShards": READERS,
        "bigfleet.v1alpha1.Coordinator.ListDomainAssignments": READERS,
        "bigfleet.v1alpha1.Coordinator.ListShardReports": READERS,
        "bigfleet.v1alpha1.Coordinator.JoinRaftCluster": ADMINS,
        "bigfleet.v1alpha1.Coordinator.SnapshotSave": ADMINS,
    }
)

ROLES: Final = {
    "its operator": Identity.cluster(CLUSTER),
    "another operator": Identity.cluster("green"),
    "its shard": Identity.shard(SHARD),
    "another shard": Identity.shard("shard-1"),
    "admin": ADMIN,
    "readonly": READONLY,
}
# Each of these carries, besides what is wrong with it, an identity that may call the method.
AMBIGUOUS: Final = ("its URI and another", "no URI", "an unknown role")
UNCONNECTED: Final = ("foreign authority", "expired", "no certificate", "plaintext")
HOLDERS: Final = (*ROLES, *AMBIGUOUS, *UNCONNECTED)

ADMITTED, REFUSED, NO_CONNECTION = "admitted", "refused", "no connection"
_MEANINGS: Final = {
    grpc.StatusCode.PERMISSION_DENIED: REFUSED,
    grpc.StatusCode.UNAVAILABLE: NO_CONNECTION,
    # How a call ends that passed the gate and has nothing useful in it.
    grpc.StatusCode.OK: ADMITTED,
    grpc.StatusCode.INVALID_ARGUMENT: ADMITTED,
    grpc.StatusCode.NOT_FOUND: ADMITTED,
}


def rightful(method: MethodDescriptor) -> str:
    """Return the holder whose identity the spoilt certificates carry: one that may call the method if any may."""
    return next(iter(ALLOWED.get(method.full_name, ADMINS)))


def expected(method: MethodDescriptor) -> dict[str, str]:
    allowed = ALLOWED.get(method.full_name, {})
    connected = {
        holder: ADMITTED if holder in allowed else REFUSED for holder in HOLDERS if holder not in UNCONNECTED
    }
    return {**connected, **dict.fromkeys(UNCONNECTED, NO_CONNECTION)}


class Certificates:
    """Credentials of every holder, made on first use."""

    def __init__(self, directory: Path) -> None:
        now = datetime.now(UTC)
        self.authority = Authority(directory / "pki", now)
        self._foreign = Authority(directory / "foreign", now)
        self._made: dict[tuple[str, str], TlsFiles] = {}
        self.ca = self.files("admin", "").ca

    def files(self, holder: str, right: str) -> TlsFiles:
        """Return the files of a holder; the spoilt ones carry the identity of `right`."""
        key = (holder, "" if holder in ROLES else right)
        if key not in self._made:
            self._made[key] = self._make(holder, right)
        return self._made[key]

    def _make(self, holder: str, right: str) -> TlsFiles:
        name = f"{holder} {right}".strip().replace(" ", "-")
        if holder in ROLES:
            return self.authority.issue(ROLES[holder], name)
        own = str(ROLES[right])
        match holder:
            case "its URI and another":
                return self.authority.issue_uris(name, [own, str(READONLY if right == "admin" else ADMIN)])
            case "no URI":
                return self.authority.issue_uris(name, [])
            case "an unknown role":
                return self.authority.issue_uris(name, ["bigfleet://root"])
            case "expired":
                return self.authority.issue_uris(name, [own], ends=timedelta(minutes=-1))
            case "foreign authority":
                return self._foreign.issue_uris(name, [own])
        raise LookupError(holder)

    def credentials(self, holder: str, right: str) -> grpc.ChannelCredentials:
        # Each of them trusts our authority, so that it is the server who refuses.
        root = self.ca.read_bytes()
        if holder == "no certificate":
            return grpc.ssl_channel_credentials(root)
        files = self.files(holder, right)
        return grpc.ssl_channel_credentials(root, files.key.read_bytes(), files.cert.read_bytes())


class Fleet:
    """Addresses of the processes, and calls to them by any holder."""

    def __init__(self, certificates: Certificates, addresses: Mapping[str, str]) -> None:
        self.certificates, self.addresses = certificates, addresses
        self._channels: dict[tuple[str, str, str], grpc.Channel] = {}

    def row(self, method: MethodDescriptor) -> dict[str, str]:
        """Call a method as every holder, and return how each call ended."""
        return {holder: self.cell(method, holder) for holder in HOLDERS}

    def cell(self, method: MethodDescriptor, holder: str) -> str:
        channel = self.channel(SERVED_BY[method.containing_service.full_name], holder, rightful(method))
        code = _ask(channel, method)
        return _MEANINGS.get(code, str(code))

    def channel(self, process: str, holder: str, right: str) -> grpc.Channel:
        key = (process, holder, "" if holder in ROLES else right)
        if key not in self._channels:
            address = self.addresses[process]
            self._channels[key] = (
                grpc.insecure_channel(address)
                if holder == "plaintext"
                else grpc.secure_channel(address, self.certificates.credentials(holder, right))
            )
        return self._channels[key]

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()


def _ask(
    channel: Any, method: MethodDescriptor
) -> grpc.StatusCode:  # Any: bytes, which the library's types cannot say
    """Make one call with raw bytes, up to its first answer; return how it ended."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    over = threading.Event()
    call: Any = None
    try:
        if method.client_streaming:
            call = channel.stream_stream(path)(_hello(over), timeout=DEADLINE_S)
            next(call)
        elif method.server_streaming:
            call = channel.unary_stream(path)(_request(method), timeout=DEADLINE_S)
            next(call, None)
        else:
            channel.unary_unary(path)(_request(method), timeout=DEADLINE_S)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    finally:
        over.set()
        if call is not None:
            call.cancel()
    return grpc.StatusCode.OK


def _hello(over: threading.Event) -> Iterator[bytes]:
    yield shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=CLUSTER)).SerializeToString()
    over.wait(DEADLINE_S)  # the end of the frames would be the end of the session


def _request(method: MethodDescriptor) -> bytes:
    """Return a request in the name of the shard, about a machine that is not there."""
    request: Any = GetMessageClass(method.input_type)()
    given = {"shard_id": SHARD, "shard_epoch": 1, "sequence_number": next(_numbers), "machine_id": "ghost"}
    if method.name == "RemoveShard":
        given = {}  # or the report of the shard would be undone
    for field, value in given.items():
        if field in method.input_type.fields_by_name:
            setattr(request, field, value)
    if method.name == "Configure":
        request.cluster_id = CLUSTER
    if method.name == "Get":
        request.id = "ghost"
    data: bytes = request.SerializeToString()
    return data


def _flags(files: TlsFiles) -> tuple[str, ...]:
    return (f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}")


def _provider(directory: Path, files: TlsFiles, *more: str) -> RunningProgram:
    pools = directory / "pools.yaml"
    pools.write_text(POOLS)
    usual = (f"--inventory={pools}", "--addr=127.0.0.1:0", "--metrics-addr=0", "--log-format=json")
    return RunningProgram("bigfleet-fake-provider", *usual, *_flags(files), *more)


def _shard(directory: Path, files: TlsFiles, provider: str) -> RunningProgram:
    return RunningProgram(
        "bigfleet",
        "shard",
        f"--id={SHARD}",
        f"--data-dir={directory / 'shard'}",
        f"--provider-addr={provider}",
        "--listen=127.0.0.1:0",
        "--metrics-addr=0",
        "--cycle-interval=200ms",
        "--reflection",
        "--log-format=json",
        *_flags(files),
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def fleet(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    admin, shard_files = certificates.files("admin", ""), certificates.files("its shard", "")
    cluster = ProcessCluster(
        directory,
        flags=(*_flags(admin), "--reflection"),
        net=GrpcNet(TlsStore(admin, lambda _problem: None)),
        replicas=1,
        proxied=False,
    )
    with asyncio.Runner() as runner, _provider(directory, shard_files) as provider:
        runner.run(cluster.__aenter__())
        try:
            cluster.start_all()
            at = f"127.0.0.1:{provider.port('port')}"
            with _shard(directory, shard_files, at) as shard:
                addresses = {
                    "provider": at,
                    "shard": f"127.0.0.1:{shard.port('port')}",
                    "coordinator": cluster.members[0].grpc_address,
                }
                runner.run(cluster.leader())
                made = Fleet(certificates, addresses)
                try:
                    yield made
                finally:
                    made.close()
        finally:
            runner.run(cluster.__aexit__(None, None, None))


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_a_method_admits_exactly_the_holders_of_its_row(fleet: Fleet, method: MethodDescriptor) -> None:
    assert fleet.row(method) == expected(method)


def test_every_row_names_a_method_and_every_allowed_cell_a_holder_and_a_reason() -> None:
    assert set(ALLOWED) == set(METHODS)
    assert {method.containing_service.full_name for method in METHODS.values()} == set(SERVED_BY)
    for path, row in ALLOWED.items():
        assert row, path
        assert set(row) <= set(ROLES), path
        assert all(reason for reason in row.values()), path


@pytest.mark.parametrize("process", ["provider", "shard", "coordinator"])
def test_a_process_serves_no_service_that_is_not_in_the_matrix(fleet: Fleet, process: str) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(fleet.channel(process, "readonly", "readonly"))
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    (answer,) = stub.ServerReflectionInfo(asked, timeout=DEADLINE_S)
    served = {service.name for service in answer.list_services_response.service}
    assert served - set(OPEN_TO_ALL) == {name for name, at in SERVED_BY.items() if at == process}


def test_an_open_gate_shows_in_every_cell_that_it_opens(certificates: Certificates, tmp_path: Path) -> None:
    """The matrix itself, tried on a provider whose gate was turned off: it finds what the flag opens, and nothing else."""
    files = certificates.files("its shard", "")
    with _provider(tmp_path, files, "--require-shard-san=false") as provider:
        fleet = Fleet(certificates, {"provider": f"127.0.0.1:{provider.port('port')}"})
        try:
            for name in ("Configure", "List"):
                method = METHODS[f"bigfleet.v1alpha1.CapacityProvider.{name}"]
                found = fleet.row(method)
                assert found != expected(method)
                assert {found[holder] for holder in HOLDERS if holder not in UNCONNECTED} == {ADMITTED}
                assert [found[holder] for holder in UNCONNECTED] == [NO_CONNECTION] * len(UNCONNECTED)
        finally:
            fleet.close()
        (warning,) = provider.lines("requirement_off")
        assert "--require-shard-san=false: every certificate of the authority" in warning["why"]
