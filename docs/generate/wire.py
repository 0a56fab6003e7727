"""The wire page: services, messages and enumerations, with the comments of the protos."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc  # type: ignore[import-untyped]  # ships no stubs

from docs.generate.markdown import code, plain, table
from docs.generate.markdown import page as markdown_page

_Path = tuple[int, ...]
_MESSAGES, _ENUMS, _SERVICES = (
    4,
    5,
    6,
)  # field numbers in FileDescriptorProto, of which comment paths are made
_PAGES = {"bigfleet.v1alpha1": "wire.md", "bigfleet.insight.v1": "insight.md"}
_FIELDS, _NESTED, _NESTED_ENUMS, _VALUES, _METHODS = 2, 3, 4, 2, 2


def page(folder: Path) -> str:
    """Return the page of the wire contract, from the protos below a folder."""
    return _page(
        folder,
        "bigfleet.v1alpha1",
        "Wire contract",
        "All messages are of the package `bigfleet.v1alpha1`. Fields are only ever added, and the number of a removed field "
        "stays reserved; readers ignore what they do not know. Field numbers from 1000 on are ours and unknown to the original.",
    )


def insight_page(folder: Path) -> str:
    """Return the page of the insight service."""
    return _page(
        folder,
        "bigfleet.insight.v1",
        "Insight service",
        "What a shard tells people: machines, decisions, explanations, its snapshot document. All messages are of the "
        "package `bigfleet.insight.v1`, which is ours alone; a shard of the original answers UNIMPLEMENTED.",
    )


def _page(folder: Path, package: str, title: str, intro: str) -> str:
    files = _describe(folder, package)
    services = [part for file in files for part in _Writer(file).services()]
    types = [part for file in files for part in _Writer(file).types()]
    return markdown_page(title, intro, *services, *types)


def _describe(folder: Path, package: str) -> list[FileDescriptorProto]:
    below = folder / package.replace(".", "/")
    names = sorted(path.relative_to(folder).as_posix() for path in below.glob("*.proto"))
    with TemporaryDirectory() as scratch:
        target = Path(scratch) / "descriptors"
        arguments = [
            "protoc",
            f"-I{folder}",
            "--include_source_info",
            f"--descriptor_set_out={target}",
            *names,
        ]
        if protoc.main(arguments) != 0:
            raise ValueError(f"{folder}: the protos do not compile")
        found = FileDescriptorSet.FromString(target.read_bytes())
    return [file for file in found.file if file.name in names]


class _Writer:
    """Sections of one proto file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments: dict[_Path, str] = {
            tuple(place.path): place.leading_comments or place.trailing_comments
            for place in file.source_code_info.location
        }

    def services(self) -> Iterator[str]:
        for index, service in enumerate(self._file.service):
            yield self._service(service, (_SERVICES, index))

    def types(self) -> Iterator[str]:
        for index, message in enumerate(self._file.message_type):
            yield from self._message(message, (_MESSAGES, index), "")
        for index, enum in enumerate(self._file.enum_type):
            yield self._enum(enum, (_ENUMS, index), "")

    def _service(self, service: ServiceDescriptorProto, path: _Path) -> str:
        rows = [
            (
                code(method.name),
                _stream(method.client_streaming) + self._reference(method.input_type),
                _stream(method.server_streaming) + self._reference(method.output_type),
                self._comment((*path, _METHODS, index)),
            )
            for index, method in enumerate(service.method)
        ]
        body = table(("Call", "Takes", "Returns", "Meaning"), rows)
        return f"## Service {service.name}\n\nIn `{self._file.name}`.\n\n{self._prose(path)}\n\n{body}"

    def _message(self, message: DescriptorProto, path: _Path, outer: str) -> Iterator[str]:
        if message.options.map_entry:
            return
        name = outer + message.name
        maps = {inner.name: inner for inner in message.nested_type if inner.options.map_entry}
        rows = [
            (
                str(field.number),
                code(field.name),
                self._type(field, maps),
                self._comment((*path, _FIELDS, index)),
            )
            for index, field in enumerate(message.field)
        ]
        body = table(("Number", "Field", "Type", "Meaning"), rows) if rows else "No fields."
        yield f"## {name}\n\n{self._prose(path)}\n\n{body}"
        for index, inner in enumerate(message.nested_type):
            yield from self._message(inner, (*path, _NESTED, index), f"{name}.")
        for index, enum in enumerate(message.enum_type):
            yield self._enum(enum, (*path, _NESTED_ENUMS, index), f"{name}.")

    def _enum(self, enum: EnumDescriptorProto, path: _Path, outer: str) -> str:
        rows = [
            (str(value.number), code(value.name), self._comment((*path, _VALUES, index)))
            for index, value in enumerate(enum.value)
        ]
        return (
            f"## {outer}{enum.name}\n\n{self._prose(path)}\n\n{table(('Number', 'Value', 'Meaning'), rows)}"
        )

    def _type(self, field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
        entry = maps.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            key, value = entry.field
            return f"map of {self._scalar(key)} to {self._scalar(value)}"
        many = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
        optional = "optional " if field.proto3_optional else ""
        return many + optional + self._scalar(field)

    def _scalar(self, field: FieldDescriptorProto) -> str:
        if field.type_name:
            return self._reference(field.type_name)
        return code(FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower())

    def _reference(self, type_name: str) -> str:
        package = next(package for package in _PAGES if type_name.startswith(f".{package}."))
        name = type_name.removeprefix(f".{package}.")
        page = "" if package == self._file.package else _PAGES[package]
        return f"[{name}]({page}#{name.lower().replace('.', '')})"

    def _comment(self, path: _Path) -> str:
        return plain(" ".join(self._comments.get(path, "").split()))

    def _prose(self, path: _Path) -> str:
        lines = [line.strip() for line in self._comments.get(path, "").splitlines()]
        return plain("\n".join(lines).strip())


def _stream(streaming: bool) -> str:
    return "stream of " if streaming else ""
