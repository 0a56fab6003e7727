from collections.abc import AsyncIterator

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from bigfleet.aio.service import RpcKind, ServiceDefinitionError, ServiceSpec, encode, handler_name
from bigfleet.v1alpha1 import coordinator_pb2, provider_pb2, shard_pb2, shardread_pb2

PROVIDER = ServiceSpec(provider_pb2.DESCRIPTOR.services_by_name["CapacityProvider"])
READ = ServiceSpec(shardread_pb2.DESCRIPTOR.services_by_name["ShardRead"])
SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
COORDINATOR = ServiceSpec(coordinator_pb2.DESCRIPTOR.services_by_name["Coordinator"])


@pytest.mark.parametrize(
    ("rpc", "name"),
    [
        ("Get", "get"),
        ("InspectNeeds", "inspect_needs"),
        ("JoinRaftCluster", "join_raft_cluster"),
        ("ServerReflectionInfo", "server_reflection_info"),
        ("GetHTTPRoute", "get_http_route"),
        ("ListV2Items", "list_v2_items"),
    ],
)
def test_a_handler_is_named_after_its_rpc(rpc: str, name: str) -> None:
    assert handler_name(rpc) == name


def test_a_method_knows_its_path_and_reads_its_answer() -> None:
    method = PROVIDER.unary("Get", provider_pb2.MachineRef, provider_pb2.Machine)
    assert method.path == "/bigfleet.v1alpha1.CapacityProvider/Get"
    machine = provider_pb2.Machine(id="m")
    assert method.decode(encode(machine)) == machine
    assert method.decoded_by(len).decode(encode(machine)) == 3


def test_a_method_that_the_service_lacks_is_refused_naming_those_it_has() -> None:
    with pytest.raises(ServiceDefinitionError, match=r"'Watch'.*Create.*List"):
        PROVIDER.unary("Watch", provider_pb2.ListFilter, provider_pb2.MachineList)


def test_a_wrong_message_class_is_refused() -> None:
    with pytest.raises(ServiceDefinitionError, match="MachineList"):
        PROVIDER.unary("List", provider_pb2.ListFilter, provider_pb2.Machine)


def test_a_wrong_kind_is_refused() -> None:
    with pytest.raises(ServiceDefinitionError, match="server stream"):
        READ.unary("InspectNeeds", shardread_pb2.InspectNeedsRequest, shardread_pb2.InspectNeedsResponse)
    with pytest.raises(ServiceDefinitionError, match="bidirectional"):
        SHARD.server_stream("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage)


class Reader:
    async def inspect_needs(self, request: object, call: object) -> AsyncIterator[bytes]:
        yield b""


class NotAGenerator:
    async def inspect_needs(self, request: object, call: object) -> bytes:
        return b""


class NotAsync:
    def session(self, stream: object, call: object) -> None:
        return None


def test_a_service_is_bound_with_the_kind_of_each_method() -> None:
    bound = READ.bind(Reader())
    assert bound.name == "bigfleet.v1alpha1.ShardRead"
    method = bound.methods["InspectNeeds"]
    assert (method.path, method.kind) == ("/bigfleet.v1alpha1.ShardRead/InspectNeeds", RpcKind.SERVER_STREAM)
    request = shardread_pb2.InspectNeedsRequest(limit=3)
    assert method.decode(request.SerializeToString()) == request


@pytest.mark.parametrize(
    ("spec", "implementation", "missing"),
    [
        pytest.param(COORDINATOR, object(), "report_shard", id="no methods at all"),
        pytest.param(READ, NotAGenerator(), "inspect_needs", id="a stream that does not yield"),
        pytest.param(SHARD, NotAsync(), "session", id="not async"),
    ],
)
def test_an_implementation_that_does_not_fit_is_refused_at_once(
    spec: ServiceSpec, implementation: object, missing: str
) -> None:
    with pytest.raises(ServiceDefinitionError, match=missing):
        spec.bind(implementation)


def test_a_stream_from_the_client_alone_is_refused() -> None:
    file = FileDescriptorProto(name="odd.proto", package="odd", syntax="proto3")
    file.message_type.add(name="M")
    service = file.service.add(name="S")
    service.method.add(name="Put", input_type=".odd.M", output_type=".odd.M", client_streaming=True)
    pool = DescriptorPool()
    pool.Add(file)
    odd = ServiceSpec(pool.FindServiceByName("odd.S"))
    with pytest.raises(ServiceDefinitionError, match="client alone"):
        odd.bind(object())


def test_bytes_count_as_encoded_and_anything_else_is_refused() -> None:
    assert encode(b"raw") == b"raw"
    with pytest.raises(ServiceDefinitionError, match="dict"):
        encode({})


def test_deterministic_encoding_does_not_depend_on_the_order_of_a_map() -> None:
    keys = [f"key-{number}" for number in range(50)]
    forwards = provider_pb2.Resources(resources=dict.fromkeys(keys, "1"))
    backwards = provider_pb2.Resources(resources=dict.fromkeys(reversed(keys), "1"))
    assert encode(forwards, deterministic=True) == encode(backwards, deterministic=True)
