"""The insight service stands beside the wire contract: a package of its own, of which the contract knows nothing.

Rules: `dashboard#insight-service`, `dashboard#insight-package`; ADR-0121, ADR-0155.
"""

from google.protobuf import descriptor_pb2

from bigfleet.insight.v1 import insight_pb2
from tests.support.messages import CONTRACT

FILE = descriptor_pb2.FileDescriptorProto.FromString(insight_pb2.DESCRIPTOR.serialized_pb)


def test_the_service_has_the_calls_of_the_spec_and_those_that_make_a_dashboard_need_nothing_else() -> None:
    (service,) = FILE.service
    calls = {method.name: method.server_streaming for method in service.method}
    specified = {
        "ListMachines": True,
        "ExplainNeed": False,
        "ExplainMachine": False,
        "ListDecisions": True,
        "GetSnapshot": True,
        "GetStatus": False,
    }
    added = {"WatchCycles": True, "ListCycles": True, "ListShortfalls": False, "ListNeeds": True}
    assert calls == specified | added


def test_the_package_is_proto3_imports_the_view_of_a_need_alone_and_marks_no_field_optional() -> None:
    assert (FILE.syntax, FILE.package) == ("proto3", "bigfleet.insight.v1")
    assert list(FILE.dependency) == ["bigfleet/v1alpha1/shardread.proto"]
    foreign = {
        field.type_name
        for message in FILE.message_type
        for field in message.field
        if field.type_name.startswith(".bigfleet.v1alpha1.")
    }
    assert foreign == {".bigfleet.v1alpha1.NeedCoverage", ".bigfleet.v1alpha1.NeedView"}
    assert [f.name for message in FILE.message_type for f in message.field if f.proto3_optional] == []


def test_no_call_lets_a_client_stream_so_nothing_can_be_fed_to_a_shard() -> None:
    assert [method.name for method in FILE.service[0].method if method.client_streaming] == []


def test_the_wire_contract_does_not_know_it() -> None:
    for module in CONTRACT:
        assert not any(
            "insight" in name for name in module.DESCRIPTOR.serialized_pb.decode("latin-1").split()
        )
