"""The compiled contract against the one written down by hand in `contract.txt`: names, numbers, types, bytes.

Rules: `wire#package-layout`, `wire#nine-calls`, `wire#base-contract`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from tests.support.messages import CONTRACT, contract_classes

PACKAGE = "bigfleet.v1alpha1"
TABLE = Path(__file__).with_name("contract.txt")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    repeated: bool = False
    oneof: str = ""


@dataclass(slots=True)
class Contract:
    imports: dict[str, list[str]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)  # the file of each message, enum and service
    messages: dict[str, dict[int, Field]] = field(default_factory=dict)
    reserved: dict[str, list[int]] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)
    services: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)


def as_written(text: str) -> Contract:
    contract = Contract()
    file = kind = name = ""
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if line[0] != " ":
            kind, name = words[:2]
            if kind == "file":
                file = name
                contract.imports[file] = words[3:]
                continue
            contract.homes[name] = file
            rooms: dict[str, dict[str, Any]] = {
                "message": contract.messages,
                "enum": contract.enums,
                "service": contract.services,
            }
            rooms[kind][name] = {}
        elif kind == "enum":
            contract.enums[name][int(words[0])] = words[1]
        elif kind == "service":
            request, response = line.split(maxsplit=1)[1].replace("stream ", "stream-").split()
            contract.services[name][words[0]] = (request, response)
        elif words[0] == "reserved":
            contract.reserved[name] = [int(word) for word in words[1:]]
        else:
            repeated = words[2] == "repeated"
            oneof = words[-1] if words[-2] == "in" else ""
            contract.messages[name][int(words[0])] = Field(words[1], words[2 + repeated], repeated, oneof)
    return contract


def as_compiled() -> Contract:
    contract = Contract()
    for module in CONTRACT:
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        home = Path(file.name).stem
        contract.imports[home] = [Path(name).stem for name in file.dependency]
        for service in file.service:
            contract.homes[service.name] = home
            contract.services[service.name] = {
                method.name: (
                    "stream-" * method.client_streaming + short(method.input_type),
                    "stream-" * method.server_streaming + short(method.output_type),
                )
                for method in service.method
            }
        enums = [(enum.name, enum) for enum in file.enum_type]
        for message in file.message_type:
            contract.homes[message.name] = home
            contract.messages[message.name] = {
                each.number: compiled_field(message, each) for each in message.field
            }
            numbers = [n for span in message.reserved_range for n in range(span.start, span.end)]
            if numbers:
                contract.reserved[message.name] = numbers
            enums += [(f"{message.name}.{enum.name}", enum) for enum in message.enum_type]
        for name, enum in enums:
            contract.homes[name] = home
            contract.enums[name] = {value.number: value.name for value in enum.value}
    return contract


def short(type_name: str) -> str:
    return type_name.removeprefix(f".{PACKAGE}.")


def scalar(number: int) -> str:
    return (
        FieldDescriptorProto.Type.Name(FieldDescriptorProto.Type.ValueType(number))
        .removeprefix("TYPE_")
        .lower()
    )


def compiled_field(message: descriptor_pb2.DescriptorProto, each: FieldDescriptorProto) -> Field:
    repeated = each.label == FieldDescriptorProto.LABEL_REPEATED
    oneof = message.oneof_decl[each.oneof_index].name if each.HasField("oneof_index") else ""
    name = short(each.type_name) or scalar(each.type)
    for nested in message.nested_type:
        if nested.options.map_entry and name == f"{message.name}.{nested.name}":
            key, value = (scalar(part.type) for part in nested.field)
            name, repeated = f"map<{key},{value}>", False
    return Field(each.name, name, repeated, oneof)


WRITTEN = as_written(TABLE.read_text())
COMPILED = as_compiled()
CLASSES = contract_classes()


def test_every_file_imports_what_the_contract_says_and_nothing_else() -> None:
    assert COMPILED.imports == WRITTEN.imports


def test_every_message_enum_and_service_lives_in_its_file_and_no_other_exists() -> None:
    assert COMPILED.homes == WRITTEN.homes


@pytest.mark.parametrize("name", sorted(WRITTEN.messages.keys() | COMPILED.messages.keys()))
def test_fields_have_the_written_numbers_names_and_types_and_no_other_exists(name: str) -> None:
    assert COMPILED.messages.get(name) == WRITTEN.messages.get(name)


def test_exactly_the_retired_numbers_are_reserved() -> None:
    assert COMPILED.reserved == WRITTEN.reserved


def test_no_name_is_reserved_and_no_number_is_left_to_extensions() -> None:
    for module in CONTRACT:
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        assert [m.name for m in file.message_type if m.reserved_name or m.extension_range] == []


@pytest.mark.parametrize("name", sorted(WRITTEN.enums.keys() | COMPILED.enums.keys()))
def test_enum_values_have_the_written_ordinals_and_no_other_exists(name: str) -> None:
    assert COMPILED.enums.get(name) == WRITTEN.enums.get(name)


def test_a_numbered_bucket_is_named_after_its_bound() -> None:
    bounds = {number: f"PENALTY_BUCKET_{2 ** (number - 3)}" for number in range(3, 27)}
    assert {n: name for n, name in COMPILED.enums["PenaltyBucket"].items() if n in bounds} == bounds


def test_every_service_has_the_written_calls_and_no_other() -> None:
    assert COMPILED.services == WRITTEN.services


def test_the_coordinator_has_nine_calls_and_none_of_the_retired_ones() -> None:
    assert len(COMPILED.services["Coordinator"]) == 9
    assert COMPILED.services["Coordinator"].keys().isdisjoint({"ListQuotas", "ListProviders"})


def test_retired_message_names_are_not_used_again() -> None:
    retired = {"QuotaAllocation", "ProviderEntry"}
    retired |= {f"List{what}{kind}" for what in ("Quotas", "Providers") for kind in ("Request", "Response")}
    assert COMPILED.homes.keys().isdisjoint(retired)


def test_all_files_are_proto3_of_one_package_and_no_field_is_marked_optional() -> None:
    for module in CONTRACT:
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        assert (file.syntax, file.package) == ("proto3", PACKAGE)
        assert [
            each.name for message in file.message_type for each in message.field if each.proto3_optional
        ] == []


def test_no_number_below_1000_is_used_that_is_not_written() -> None:
    for name, fields in COMPILED.messages.items():
        below = {number for number in fields if number < 1000}
        assert below <= WRITTEN.messages[name].keys(), name
        assert below.isdisjoint(WRITTEN.reserved.get(name, [])), name


# From here on: the bytes, read by a reader that knows nothing but the written table.

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
VARINTS = {"int32", "int64", "bool"} | WRITTEN.enums.keys()


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def read_tags(data: bytes) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        wire_type = tag & 7
        payload: int | bytes
        if wire_type == VARINT:
            payload, at = read_varint(data, at)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire_type, 0)
            if wire_type == LENGTH_DELIMITED:
                size, at = read_varint(data, at)
            assert size or wire_type == LENGTH_DELIMITED, f"wire type {wire_type} is not of this contract"
            payload, at = data[at : at + size], at + size
        yield tag >> 3, wire_type, payload
    assert at == len(data)


def read_value(type_name: str, wire_type: int, payload: Any) -> Any:
    if type_name in VARINTS:
        assert wire_type == VARINT
        signed = payload - (1 << 64) if payload >> 63 else payload
        return bool(signed) if type_name == "bool" else signed
    if type_name == "double":
        assert wire_type == FIXED64
        return struct.unpack("<d", payload)[0]
    assert wire_type == LENGTH_DELIMITED
    if type_name in WRITTEN.messages:
        return read_message(type_name, payload)
    return payload.decode() if type_name == "string" else payload


def read_message(name: str, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, wire_type, payload in read_tags(data):
        each = WRITTEN.messages[name][number]
        if each.type.startswith("map<"):
            assert wire_type == LENGTH_DELIMITED
            types = each.type.removeprefix("map<").removesuffix(">").split(",")
            entry = {n: read_value(types[n - 1], wire, part) for n, wire, part in read_tags(payload)}
            found.setdefault(each.name, {})[entry[1]] = entry[2]
        elif each.repeated and each.type in VARINTS:
            assert wire_type == LENGTH_DELIMITED, "repeated numbers are packed"
            at, numbers = 0, found.setdefault(each.name, [])
            while at < len(payload):
                value, at = read_varint(payload, at)
                numbers.append(value)
        elif each.repeated:
            found.setdefault(each.name, []).append(read_value(each.type, wire_type, payload))
        else:
            assert each.name not in found, f"{name}.{each.name} occurs twice"
            found[each.name] = read_value(each.type, wire_type, payload)
    return found


def distinct(type_name: str, numbers: Iterator[int]) -> Any:
    n = next(numbers)
    if type_name.startswith("map<"):
        value_type = type_name.removesuffix(">").split(",")[1]
        return {f"key-{next(numbers)}": distinct(value_type, numbers) for _ in range(2)}
    if type_name in WRITTEN.messages:
        return distinct_fields(type_name, numbers, n)
    if type_name in WRITTEN.enums:
        return n
    plain: dict[str, Any] = {"string": f"text-{n}", "bytes": b"\xff%d" % n, "int32": -n, "int64": -(n << 40)}
    return {**plain, "bool": True, "double": n + 0.25}[type_name]


def distinct_fields(name: str, numbers: Iterator[int], choice: int) -> dict[str, Any]:
    fields = list(WRITTEN.messages[name].values())
    members = [each for each in fields if each.oneof]
    chosen = [each for each in fields if not each.oneof] + (
        [members[choice % len(members)]] if members else []
    )
    return {
        each.name: [distinct(each.type, numbers), distinct(each.type, numbers)]
        if each.repeated
        else distinct(each.type, numbers)
        for each in chosen
    }


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        (name, choice)
        for name, fields in WRITTEN.messages.items()
        for choice in range(sum(1 for each in fields.values() if each.oneof) or 1)
    ],
)
def test_a_reader_written_by_hand_finds_every_value_under_its_number_and_wire_type(
    name: str, choice: int
) -> None:
    values = distinct_fields(name, count(1000), choice)
    message = CLASSES[f"{PACKAGE}.{name}"](**values)
    assert read_message(name, message.SerializeToString()) == values


def test_the_hand_written_reader_covers_every_message() -> None:
    assert {f"{PACKAGE}.{name}" for name in WRITTEN.messages} == CLASSES.keys()
