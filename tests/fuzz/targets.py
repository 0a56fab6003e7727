"""Every parser that reads bytes of another party, as a function of bytes: a value or a typed error, and nothing else.

Why: a parser that raises what its caller does not catch ends a session, a cycle or a process; one whose work grows faster
than its input lets a small file or frame take minutes.
Must never: catch what production code does not catch at this place. `refusals` are the errors that its caller answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from google.protobuf.message import DecodeError

from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.load import load
from bigfleet.clustersim.fleet import demand_of, read_simulated_fleet
from bigfleet.coordinator.archive import CorruptArchiveError, tables_of, unpack
from bigfleet.coordinator.raft.pipes import FrameMeter
from bigfleet.document.edits import apply_edits, read_edits
from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import read_situation, write_document
from bigfleet.document.strict_yaml import load_strict_yaml
from bigfleet.kube.errors import LoginError
from bigfleet.kube.kubeconfig import merge
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory
from bigfleet.operator.core.bootstrap import TemplateRenderer
from bigfleet.operator.core.template.errors import TemplateError
from bigfleet.podcontroller.core.penalties import BadDefaultsError, read_defaults
from bigfleet.provider.fake.catalogue_file import read_catalogue
from bigfleet.provider.fake.inventory import read_inventory
from bigfleet.provider.fake.script import read_script
from bigfleet.provider.hook.core.documents import read_inventory as read_hook_inventory
from bigfleet.provider.hook.core.errors import HookOutputError, InventoryError
from bigfleet.provider.hook.core.protocol import read_output
from bigfleet.v1alpha1 import coordinator_pb2, shard_pb2
from bigfleet.wire.listing import ListingReader
from bigfleet.wire.operator_frames import frame_from_proto
from bigfleet.wire.rollups import RollupReader
from bigfleet.wire.session_frames import RollupBytes, read_operator_frame
from bigfleet.wire.shard_reports import answer_from_proto, report_from_proto
from tests.fuzz import raft
from tests.fuzz.trees import JSON, WIRE, YAML, Form

CORPUS = Path(__file__).parent / "corpus"
Grow = Callable[[int], bytes]
"""An input of about so many bytes, of one shape."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser, and what is fed to it."""

    name: str
    feed: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    shapes: Mapping[str, Grow] = field(default_factory=dict)
    """Shapes of input whose work must grow no faster than they do."""
    form: Form | None = None
    """In which its inputs are changed as trees too."""

    def seeds(self) -> tuple[bytes, ...]:
        """The corpus of this target, in the order of its names."""
        return tuple(path.read_bytes() for path in sorted((CORPUS / self.name).iterdir()))

    def run(self, data: bytes) -> str:
        """Feed it; return what the answer was. Any other error is a finding."""
        try:
            self.feed(data)
        except self.refusals:
            return "refused"
        return "read"


# Bytes of peers.


def _session(data: bytes) -> object:
    """What a shard does with a frame of an operator: open it, and read the roll-up that it may carry."""
    frame = read_operator_frame(data)
    return RollupReader("c").read(frame.data) if isinstance(frame, RollupBytes) else frame


def _shard_frame(data: bytes) -> object:
    return frame_from_proto(shard_pb2.ShardMessage.FromString(data))


def _listing(data: bytes) -> object:
    """Read a listing; a refused one must leave the inventory as it was, a second reading must see nothing new."""
    inventory = Inventory()
    before = len(inventory)
    reader = ListingReader(inventory)
    try:
        first = reader.read(data)
    except InvalidFieldError:
        assert len(inventory) == before, "a refused listing changed the inventory"
        raise
    assert len(inventory) == before, "reading alone adds nothing"
    return first


def _report(data: bytes) -> object:
    return report_from_proto(coordinator_pb2.ShardReport.FromString(data))


def _report_answer(data: bytes) -> object:
    return answer_from_proto(coordinator_pb2.ReportAck.FromString(data))


def _raft_stream(data: bytes) -> object:
    """What is read of a stranger's bytes before the secret: lengths, in whatever pieces they come."""
    whole, byte_by_byte = FrameMeter(), FrameMeter()
    verdict = whole.fits(data)
    assert verdict == all(byte_by_byte.fits(data[at : at + 1]) for at in range(len(data))), "pieces matter"
    return verdict


# Documents and files.


def _edits(data: bytes) -> object:
    """Edits that are refused leave the document as it is, to the byte."""
    document = read_situation(_SITUATION)
    before = write_document(document)
    try:
        edited = apply_edits(document, read_edits(data))
    finally:
        assert write_document(document) == before, "edits changed the document they were given"
    return write_document(edited.document)


def _snapshot(data: bytes) -> object:
    document = read_situation(data)
    written = write_document(document)
    assert write_document(read_situation(written)) == written, "what was written reads back differently"
    return document


def _yaml(data: bytes) -> object:
    return load_strict_yaml(data)


def _config(data: bytes) -> object:
    """Read as `--config`, through a real file: that is the only way in."""
    from tempfile import NamedTemporaryFile

    from bigfleet.app.shard.command import ShardSettings

    with NamedTemporaryFile(suffix=".yaml") as file:
        file.write(data)
        file.flush()
        return load(ShardSettings, {"config": [file.name]}, {})


def _hook_inventory(ending: str) -> Callable[[bytes], object]:
    """The hooks come from a file of their own where the form has no place for them."""
    hooks = (
        [("/etc/bf/hooks.yaml", b"hooks: {configure: ./configure, drain: ./drain}\n")]
        if ending == ".csv"
        else []
    )
    return lambda data: read_hook_inventory([*hooks, (f"/etc/bf/inventory{ending}", data)], {"ipmi": {}})


def _archive(data: bytes) -> object:
    return tables_of(unpack(data), cluster_id="minted")


def _kubeconfig(data: bytes) -> object:
    config = merge([("/home/me/.kube/config", data.decode())])
    return [config.resolve(name) for name in config.contexts]


def _penalties(data: bytes) -> object:
    return read_defaults(load_strict_yaml(data), "defaults.yaml")


def _template(data: bytes) -> object:
    return TemplateRenderer("c", data.decode()).trial_problems()


# Shapes that made parsers slow, here or elsewhere.


def many(part: bytes, head: bytes = b"", tail: bytes = b"", between: bytes = b"") -> Grow:
    """One part again and again; `%d` in it is its number."""

    def grow(size: int) -> bytes:
        count = max(1, size // max(1, len(part) + len(between)))
        numbered = b"%d" in part
        return head + between.join(part % n if numbered else part for n in range(count)) + tail

    return grow


_TEXT: Mapping[str, Grow] = {
    "keys": many(b"key-%d: 1\n"),
    "one key twice at the end": many(b"key-%d: 1\n", tail=b"key-0: 1\n"),
    "flow keys": many(b"key-%d: 1", b"{", b"}", b", "),
    "a long text": many(b"a"),
    "a long quoted text": many(b"\\u0041", b'a: "', b'"'),
    "a long number": many(b"9", b"a: "),
    "sixties": many(b":59", b"a: 1"),
    "comments": many(b"# x\n"),
    "blanks": many(b" "),
    "empty lines": many(b"\n", b"a: |\n"),
    "lists": many(b"- 1\n"),
    "open brackets": many(b"["),
    "closed brackets": many(b"[]", b"[", b"]", b","),
    "anchors": many(b"- &a%d x\n"),
    "aliases": many(b"- *a\n", b"- &a x\n"),
    "documents": many(b"--- a\n"),
    "question marks": many(b"? "),
    "tabs": many(b"\t"),
}
_JSON: Mapping[str, Grow] = {
    "keys": many(b'"key-%d": 1', b"{", b"}", b", "),
    "one key twice": many(b'"k": 1', b"{", b"}", b", "),
    "open brackets": many(b"["),
    "open objects": many(b'{"a":'),
    "a long number": many(b"9"),
    "a long text": many(b"\\u0041", b'"', b'"'),
    "blanks": many(b" "),
}
_MACHINES = b'{"version":1,"now":1,"needs":[],"machines":['
_NEEDS = b'{"version":1,"now":1,"machines":[],"needs":['
_POOL = b"- {name: p-%d, instance_type: m, zones: [z]}\n"


def field_of(number: int, content: bytes) -> bytes:
    """One field of protobuf that is made of bytes."""
    size, length = len(content), b""
    while size > 0x7F:
        length, size = length + bytes((size & 0x7F | 0x80,)), size >> 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + content


def inside(number: int, grow: Grow) -> Grow:
    """An input inside one field of another message."""
    return lambda size: field_of(number, grow(size))


_UNKNOWN: Mapping[str, Grow] = {
    "unknown numbers": many(b"\xf8\x7f\x01"),
    "unknown texts": many(b"\xfa\x7f\x01x"),
    "one unknown text": lambda size: b"\xfa\x7f" + field_of(1, b"x" * size)[1:],
    "open groups": many(b"\x0b"),
}


def _records(prefix: str) -> Grow:
    def grow(size: int) -> bytes:
        records = (
            field_of(1, field_of(1, f"{prefix}{n}".encode()) + b"\x10\x01" + field_of(4, b"m5"))
            for n in range(max(1, size // 20))
        )
        return b"".join(records)

    return grow


_SITUATION = (CORPUS / "snapshot" / "small.json").read_bytes()

TARGETS: tuple[Target, ...] = (
    Target(
        "operator-frame",
        _session,
        (DecodeError, InvalidFieldError),
        {
            **_UNKNOWN,
            "one row many times": inside(2, many(field_of(2, field_of(1, b"")))),
            "many rows": inside(2, many(field_of(2, b"\x18\x01"))),
            "empty roll-ups": many(field_of(2, b"")),
            "pieces of one roll-up": many(field_of(2, b"\x08\x01")),
            "all kinds by turns": many(field_of(1, b"") + field_of(4, b"")),
        },
        form=WIRE,
    ),
    Target("shard-frame", _shard_frame, (DecodeError, InvalidFieldError), _UNKNOWN, form=WIRE),
    Target(
        "listing",
        _listing,
        (InvalidFieldError,),
        {**_UNKNOWN, "machines": _records("m-"), "one machine again": many(field_of(1, field_of(1, b"m")))},
        form=WIRE,
    ),
    Target("shard-report", _report, (DecodeError, InvalidFieldError), _UNKNOWN, form=WIRE),
    Target("report-answer", _report_answer, (DecodeError, InvalidFieldError), _UNKNOWN, form=WIRE),
    Target(
        "raft-stream",
        _raft_stream,
        (),
        {"empty frames": many(b"\x01\x00\x00\x00x"), "zeros": many(b"\x00"), "one frame": many(b"\x10")},
    ),
    Target("raft-message", raft.take, (), form=JSON),
    Target(
        "snapshot",
        _snapshot,
        (DocumentError,),
        {
            **_JSON,
            "machines": many(b'{"id":"m-%d","state":"Speculative"}', _MACHINES, b"]}", b","),
            "one id": many(b'{"id":"m","state":"Speculative"}', _MACHINES, b"]}", b","),
            "x- keys": many(b'"x-%d":{}', _MACHINES + b"],", b"}", b","),
            "needs": many(b'{"cluster":"c"}', _NEEDS, b"]}", b","),
        },
        form=JSON,
    ),
    Target(
        "edits",
        _edits,
        (DocumentError,),
        {**_TEXT, "edits": many(b"- {edit: pass_time, seconds: 1}\n", b"edits:\n")},
        form=YAML,
    ),
    Target("yaml", _yaml, (yaml.YAMLError,), _TEXT, form=YAML),
    Target(
        "config", _config, (UsageError,), {name: _TEXT[name] for name in ("keys", "flow keys")}, form=YAML
    ),
    Target(
        "fake-inventory",
        read_inventory,
        (DocumentError,),
        {"pools": many(_POOL, b"pools:\n")},
        form=YAML,
    ),
    Target("fake-catalogue", read_catalogue, (DocumentError,), form=YAML),
    Target("fake-script", read_script, (InvalidFieldError,), form=YAML),
    Target("fleet", read_simulated_fleet, (InvalidFieldError,), form=YAML),
    Target("demand", lambda data: demand_of(data, "c"), (InvalidFieldError,), form=YAML),
    Target(
        "hook-inventory",
        _hook_inventory(".yaml"),
        (InventoryError,),
        {"unknown keys": _TEXT["keys"], "machines": many(b"- {id: m-%d, zone: z}\n", b"machines:\n")},
        form=YAML,
    ),
    Target("hook-inventory-json", _hook_inventory(".json"), (InventoryError,), _JSON, form=JSON),
    Target(
        "hook-inventory-csv",
        _hook_inventory(".csv"),
        (InventoryError,),
        {
            "rows": many(b"m-%d,z\n", b"id,zone\n"),
            "columns": many(b"labels.c%d", b"id,", b"\nm," + b"x" * 10, b","),
            "quotes": many(b'""', b'id\n"', b'"\n'),
        },
    ),
    Target("hook-output", read_output, (HookOutputError,), {**_JSON, "lines": many(b"x\n")}),
    Target("archive", _archive, (CorruptArchiveError,), {"zeros": many(b"\x00"), "blanks": many(b" ")}),
    Target("kubeconfig", _kubeconfig, (LoginError, UnicodeDecodeError), form=YAML),
    Target("penalties", _penalties, (BadDefaultsError, yaml.YAMLError), form=YAML),
    Target(
        "template",
        _template,
        (TemplateError, UnicodeDecodeError),
        {
            "actions": many(b"{{.ClusterID}}"),
            "open actions": many(b"{{"),
            "open ranges": many(b"{{range .Requirements}}"),
            "brackets": many(b"(", b"{{", b"}}"),
            "brackets side by side": many(b"(1) ", b"{{print ", b"}}"),
            "chains of else": many(b"{{else if .ClusterID}}", b"{{if .ClusterID}}", b"{{end}}"),
            "blanks": many(b" ", b"{{", b"}}"),
            "text": many(b"{ "),
        },
    ),
)
BY_NAME = {target.name: target for target in TARGETS}
