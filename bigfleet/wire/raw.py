"""Twins of contract messages whose nested parts stay bytes, derived from the contract itself.

Why: most of the cost of reading a large listing is building maps and sub-messages that are the same on thousands of
machines. A twin reads the same wire format but hands such parts over as bytes, so that each is decoded once.
Must never: be written by hand. It is derived from the generated descriptors, so it cannot drift from the contract.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

_BYTES = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_ENUM = descriptor_pb2.FieldDescriptorProto.TYPE_ENUM
_INT32 = descriptor_pb2.FieldDescriptorProto.TYPE_INT32


def twin_of(original: Descriptor) -> type[Message]:
    """A message class that reads the same bytes, with sub-messages and map entries left as bytes.

    Enums become plain integers, which have the same wire format and keep unknown numbers.
    """
    twin = descriptor_pb2.DescriptorProto()
    original.CopyToProto(twin)
    for kind in ("nested_type", "enum_type", "oneof_decl", "reserved_range", "reserved_name"):
        twin.ClearField(kind)
    for field in twin.field:
        field.ClearField("oneof_index")
        if field.type == _MESSAGE:
            field.type = _BYTES
            field.ClearField("type_name")
        elif field.type == _ENUM:
            field.type = _INT32
            field.ClearField("type_name")
    file = descriptor_pb2.FileDescriptorProto(
        name=f"raw/{original.full_name}.proto", package="bigfleet.raw", syntax="proto3", message_type=[twin]
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bigfleet.raw.{original.name}"))
