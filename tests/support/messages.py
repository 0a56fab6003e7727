"""Random messages of any kind, and the messages of a peer that is older than our additions.

Why: laws such as "encoding loses nothing" have to hold for every message of the contract, also for those added later,
so the values come from the descriptors and not from a list kept by hand.
Must never: leave out a field, an enum number or a member of a oneof that the wire allows; NaN alone is left out, as it
is not equal to itself.
Rules: `wire#additions`, `wire#growth`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from bigfleet.v1alpha1 import capacity_pb2, coordinator_pb2, provider_pb2, shard_pb2, shardread_pb2

MessageT = TypeVar("MessageT", bound=Message)
MessageClasses = Mapping[str, type[Message]]

FIRST_ADDITION = 1000
CONTRACT: tuple[ModuleType, ...] = (capacity_pb2, provider_pb2, shard_pb2, coordinator_pb2, shardread_pb2)

_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_UINT32 = st.integers(0, 2**32 - 1)
_UINT64 = st.integers(0, 2**64 - 1)
_SCALARS: Mapping[int, st.SearchStrategy[Any]] = MappingProxyType(
    {
        FieldDescriptor.TYPE_BOOL: st.booleans(),
        FieldDescriptor.TYPE_BYTES: st.binary(max_size=12),
        FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
        FieldDescriptor.TYPE_FIXED32: _UINT32,
        FieldDescriptor.TYPE_FIXED64: _UINT64,
        FieldDescriptor.TYPE_FLOAT: st.floats(allow_nan=False, width=32),
        FieldDescriptor.TYPE_INT32: _INT32,
        FieldDescriptor.TYPE_INT64: _INT64,
        FieldDescriptor.TYPE_SFIXED32: _INT32,
        FieldDescriptor.TYPE_SFIXED64: _INT64,
        FieldDescriptor.TYPE_SINT32: _INT32,
        FieldDescriptor.TYPE_SINT64: _INT64,
        FieldDescriptor.TYPE_STRING: st.text(max_size=12),
        FieldDescriptor.TYPE_UINT32: _UINT32,
        FieldDescriptor.TYPE_UINT64: _UINT64,
    }
)


def messages(message_class: type[MessageT], max_depth: int = 6) -> st.SearchStrategy[MessageT]:
    """Return a strategy for messages of this class.

    Below `max_depth` levels fields of message type stay absent, or recursive messages would never end; no message of
    the contract is that deep.
    """
    descriptor: Any = message_class.DESCRIPTOR  # `Any`: the types of protobuf know two twins of this class
    return _messages(descriptor, max_depth)


def contract_classes() -> MessageClasses:
    """Return the class of every message of the contract, nested ones included, by its full name."""
    found = (each for module in CONTRACT for each in _descriptors(module.DESCRIPTOR))
    return MappingProxyType({each.full_name: GetMessageClass(each) for each in found})


def old_peer_classes() -> MessageClasses:
    """Return the messages as a peer knows them that was built before our additions, by full name.

    Fields from number 1000 up are gone, and with them the messages and enums that nothing else leads to.
    """
    pool = DescriptorPool()
    files = [
        descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb) for module in CONTRACT
    ]
    for file in files:
        for message in file.message_type:
            _drop_additions(message)
    known = _reachable(files)
    for file in files:
        _keep(file.message_type, known, file.package)
        _keep(file.enum_type, known, file.package)
        pool.Add(file)
    found = (each for file in files for each in _descriptors(pool.FindFileByName(file.name)))
    return MappingProxyType({each.full_name: GetMessageClass(each) for each in found})


def without_additions(message: MessageT) -> MessageT:
    """Return a copy in which no field from number 1000 up is set, at any depth."""
    copy = type(message)()
    copy.CopyFrom(message)
    _clear_additions(copy)
    return copy


def _messages(descriptor: Descriptor, depth: int) -> st.SearchStrategy[Any]:
    # `Any`: the class is known at run time only
    fields = {field.name: _field(field, depth) for field in descriptor.fields if _fits(field, depth)}
    alone = {name: strategy for name, strategy in fields.items() if not _oneof(descriptor, name)}
    choices: list[st.SearchStrategy[dict[str, Any]]] = [st.fixed_dictionaries({}, optional=alone)]
    for oneof in descriptor.oneofs:
        members = [
            st.fixed_dictionaries({each.name: fields[each.name]})
            for each in oneof.fields
            if each.name in fields
        ]
        choices.append(st.one_of(st.just({}), *members))
    message_class = GetMessageClass(descriptor)
    return st.tuples(*choices).map(
        lambda parts: message_class(**{k: v for part in parts for k, v in part.items()})
    )


def _oneof(descriptor: Descriptor, name: str) -> bool:
    return descriptor.fields_by_name[name].containing_oneof is not None


def _fits(field: FieldDescriptor, depth: int) -> bool:
    entry = _map_entry(field)
    return _fits(entry["value"], depth) if entry else field.message_type is None or depth > 1


def _map_entry(field: FieldDescriptor) -> Mapping[str, FieldDescriptor] | None:
    """Return `key` and `value` of a map field, None for any other field."""
    descriptor = field.message_type
    return descriptor.fields_by_name if descriptor is not None and descriptor.GetOptions().map_entry else None


def _field(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    entry = _map_entry(field)
    if entry:
        return st.dictionaries(_value(entry["key"], depth), _value(entry["value"], depth), max_size=3)
    value = _value(field, depth)
    return st.lists(value, max_size=3) if field.is_repeated else value


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return _messages(field.message_type, depth - 1)
    if field.enum_type is not None:
        named = st.sampled_from(sorted(value.number for value in field.enum_type.values))
        # An open enum carries any number, also one that a newer peer has a name for.
        return named if field.enum_type.is_closed else named | _INT32
    return _SCALARS[field.type]


def _descriptors(file: FileDescriptor) -> Iterator[Descriptor]:
    waiting = list(file.message_types_by_name.values())
    while waiting:
        descriptor = waiting.pop(0)
        if not descriptor.GetOptions().map_entry:
            yield descriptor
            waiting.extend(descriptor.nested_types)


def _drop_additions(message: descriptor_pb2.DescriptorProto) -> None:
    kept = [field for field in message.field if field.number < FIRST_ADDITION]
    del message.field[:]
    message.field.extend(kept)
    types = {field.type_name.rpartition(".")[2] for field in kept}
    entries = [
        nested for nested in message.nested_type if not nested.options.map_entry or nested.name in types
    ]
    del message.nested_type[:]
    message.nested_type.extend(entries)
    for nested in message.nested_type:
        _drop_additions(nested)


def _reachable(files: Sequence[descriptor_pb2.FileDescriptorProto]) -> set[str]:
    """Return the full names, with a leading dot, of the types that some call leads to."""
    fields: dict[str, list[str]] = {}
    waiting: list[str] = []
    for file in files:
        _collect(file.message_type, f".{file.package}", fields)
        calls = (method for service in file.service for method in service.method)
        waiting.extend(name for method in calls for name in (method.input_type, method.output_type))
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            waiting.extend(fields.get(name, ()))
    return known


def _collect(
    found: Iterable[descriptor_pb2.DescriptorProto], scope: str, fields: dict[str, list[str]]
) -> None:
    for message in found:
        name = f"{scope}.{message.name}"
        fields[name] = [field.type_name for field in message.field if field.type_name]
        _collect(message.nested_type, name, fields)


def _keep(
    types: Any, known: set[str], package: str
) -> None:  # `Any`: two kinds of repeated field, used alike
    kept = [each for each in types if f".{package}.{each.name}" in known]
    del types[:]
    types.extend(kept)


def _clear_additions(message: Message) -> None:
    for field, value in message.ListFields():
        entry = _map_entry(field)
        if field.number >= FIRST_ADDITION:
            message.ClearField(field.name)
        elif entry:
            for each in value.values() if entry["value"].message_type is not None else ():
                _clear_additions(each)
        elif field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                _clear_additions(each)
