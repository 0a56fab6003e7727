"""Encodes changes for journal and snapshot, and decodes them.

Must never: write a bootstrap blob. Framing and checksums are the store's; what passes them is well-formed.
Rules: `providers#durable-state`, `providers#fake-scale`.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import MachineState, Shape
from bigfleet.provider.kit.core.changes import (
    DropMachine,
    FenceMark,
    GraceEnd,
    LowerMarks,
    PutMachine,
    ShardEpoch,
    SmallChange,
    StateChange,
)
from bigfleet.provider.kit.encoding import decode_shape, encode_shape, id_of

VERSION = 1
CHUNK_BYTES = 1 << 20

_HEADER, _PUT, _ROW, _SHAPE, _MARK, _DROP = b"H", b"P", b"R", b"S", b"M", b"D"
_EPOCH, _GRACE, _LOWER = b"E", b"G", b"L"
_FIXED = struct.Struct(
    "<BqqqqqqI"
)  # state, revision, four operations, time of the tombstone, length of the own part
_NUMBERS = struct.Struct("<II")
_SAME = 0xFFFF_FFFF  # in place of a length: the offer is what is shown
_LENGTH = struct.Struct("<I")
_MARKED = struct.Struct("<IIqq")
_EPOCHED = struct.Struct("<Iq")
_GRACED = struct.Struct("<Iqq")
_HEAD = struct.Struct("<HqI")


class UnreadableEntryError(BigFleetError):
    """An entry passed its checksum but another version of the format wrote it."""


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The first entry of a snapshot: the incarnation of the state, and its newest revision."""

    incarnation: str
    head: int


def encode_header(header: SnapshotHeader) -> bytes:
    text = header.incarnation.encode()
    return _HEADER + _HEAD.pack(VERSION, header.head, len(text)) + text


def encode(changes: Iterable[StateChange]) -> bytes:
    """Return the changes of one decision as one entry, with shapes in full."""
    out: list[bytes] = []
    for change in changes:
        if isinstance(change, PutMachine):
            shown = encode_shape(change.shape)
            if change.offer == change.shape:
                out += (_PUT, _fixed(change), _NUMBERS.pack(len(shown), _SAME), change.own, shown)
            else:
                offer = encode_shape(change.offer)
                out += (_PUT, _fixed(change), _NUMBERS.pack(len(shown), len(offer)), change.own, shown, offer)
        else:
            out.append(_encode_small(change))
    return b"".join(out)


def encode_snapshot(header: SnapshotHeader, changes: Iterable[StateChange]) -> Iterator[bytes]:
    """Yield entries of about a megabyte for a whole state; each shape is written once and then named by number."""
    numbers: dict[Shape, int] = {}
    out: list[bytes] = [encode_header(header)]
    size = len(out[0])
    for change in changes:
        if isinstance(change, PutMachine):
            shown = _number(change.shape, numbers, out)
            offer = _number(change.offer, numbers, out)
            out += (_ROW, _fixed(change), _NUMBERS.pack(shown, offer), change.own)
            size += _FIXED.size + len(change.own)
        else:
            out.append(_encode_small(change))
            size += len(out[-1])
        if size > CHUNK_BYTES:
            yield b"".join(out)
            out, size = [], 0
    if out:
        yield b"".join(out)


def _number(shape: Shape, numbers: dict[Shape, int], out: list[bytes]) -> int:
    number = numbers.get(shape)
    if number is None:
        number = numbers[shape] = len(numbers)
        data = encode_shape(shape)
        out += (_SHAPE, _LENGTH.pack(len(data)), data)
    return number


def _fixed(put: PutMachine) -> bytes:
    return _FIXED.pack(put.state, put.revision, *put.operations, put.gone_at_s, len(put.own))


def _encode_small(change: SmallChange) -> bytes:
    if isinstance(change, GraceEnd):
        text = change.machine_id.encode()
        return _GRACE + _GRACED.pack(len(text), change.operation, change.at_s) + text
    if isinstance(change, ShardEpoch | LowerMarks):
        text = change.shard_id.encode()
        kind = _EPOCH if isinstance(change, ShardEpoch) else _LOWER
        return kind + _EPOCHED.pack(len(text), change.epoch) + text
    if isinstance(change, DropMachine):
        text = change.id.encode()
        return _DROP + _LENGTH.pack(len(text)) + text
    shard, machine = change.shard_id.encode(), change.machine_id.encode()
    return _MARK + _MARKED.pack(len(shard), len(machine), change.epoch, change.sequence) + shard + machine


class EntryDecoder:
    """Decodes entries in the order of writing; keeps the numbered shapes of the snapshot."""

    def __init__(self) -> None:
        self._numbered: list[Shape] = []
        self._shapes: dict[bytes, Shape] = {}
        self._readers: dict[int, Callable[[bytes, int], tuple[StateChange | SnapshotHeader | None, int]]] = {
            _HEADER[0]: self._header,
            _PUT[0]: self._put,
            _ROW[0]: self._row,
            _SHAPE[0]: self._numbered_shape,
            _MARK[0]: self._mark,
            _DROP[0]: self._drop,
            _EPOCH[0]: self._epoch,
            _GRACE[0]: self._grace,
            _LOWER[0]: self._lower,
        }

    def decode(self, entry: bytes) -> Sequence[StateChange | SnapshotHeader]:
        found: list[StateChange | SnapshotHeader] = []
        at = 0
        while at < len(entry):
            reader = self._readers.get(entry[at])
            if reader is None:
                raise UnreadableEntryError(
                    f"an entry of kind {entry[at]:#04x}, which this version does not know"
                )
            change, at = reader(entry, at + 1)
            if change is not None:
                found.append(change)
        return found

    def _header(self, entry: bytes, at: int) -> tuple[SnapshotHeader, int]:
        version, head, length = _HEAD.unpack_from(entry, at)
        if version != VERSION:
            raise UnreadableEntryError(
                f"written by version {version} of the format, this one reads {VERSION}"
            )
        at += _HEAD.size
        # A new file begins, with its own numbers.
        self._numbered.clear()
        return SnapshotHeader(entry[at : at + length].decode(), head), at + length

    def _numbered_shape(self, entry: bytes, at: int) -> tuple[None, int]:
        (length,) = _LENGTH.unpack_from(entry, at)
        at += _LENGTH.size
        self._numbered.append(self._shape(entry[at : at + length]))
        return None, at + length

    def _row(self, entry: bytes, at: int) -> tuple[PutMachine, int]:
        fixed = _FIXED.unpack_from(entry, at)
        at += _FIXED.size
        shown, offer = _NUMBERS.unpack_from(entry, at)
        at += _NUMBERS.size
        own = entry[at : at + fixed[7]]
        return _made(fixed, own, self._numbered[shown], self._numbered[offer]), at + fixed[7]

    def _put(self, entry: bytes, at: int) -> tuple[PutMachine, int]:
        fixed = _FIXED.unpack_from(entry, at)
        at += _FIXED.size
        shown_bytes, offer_bytes = _NUMBERS.unpack_from(entry, at)
        at += _NUMBERS.size
        own = entry[at : at + fixed[7]]
        at += fixed[7]
        shown = self._shape(entry[at : at + shown_bytes])
        at += shown_bytes
        if offer_bytes == _SAME:
            return _made(fixed, own, shown, shown), at
        return _made(fixed, own, shown, self._shape(entry[at : at + offer_bytes])), at + offer_bytes

    def _mark(self, entry: bytes, at: int) -> tuple[FenceMark, int]:
        shard_bytes, machine_bytes, epoch, sequence = _MARKED.unpack_from(entry, at)
        at += _MARKED.size
        middle = at + shard_bytes
        end = middle + machine_bytes
        return FenceMark(entry[at:middle].decode(), entry[middle:end].decode(), epoch, sequence), end

    def _epoch(self, entry: bytes, at: int) -> tuple[ShardEpoch, int]:
        shard_id, epoch, at = _shard_and_epoch(entry, at)
        return ShardEpoch(shard_id, epoch), at

    def _lower(self, entry: bytes, at: int) -> tuple[LowerMarks, int]:
        shard_id, epoch, at = _shard_and_epoch(entry, at)
        return LowerMarks(shard_id, epoch), at

    def _grace(self, entry: bytes, at: int) -> tuple[GraceEnd, int]:
        length, operation, at_s = _GRACED.unpack_from(entry, at)
        at += _GRACED.size
        return GraceEnd(entry[at : at + length].decode(), operation, at_s), at + length

    def _drop(self, entry: bytes, at: int) -> tuple[DropMachine, int]:
        (length,) = _LENGTH.unpack_from(entry, at)
        at += _LENGTH.size
        return DropMachine(entry[at : at + length].decode()), at + length

    def _shape(self, data: bytes) -> Shape:
        shape = self._shapes.get(data)
        if shape is None:
            shape = self._shapes[data] = decode_shape(data)
        return shape


def _shard_and_epoch(entry: bytes, at: int) -> tuple[str, int, int]:
    length, epoch = _EPOCHED.unpack_from(entry, at)
    at += _EPOCHED.size
    return entry[at : at + length].decode(), epoch, at + length


def _made(fixed: tuple[int, ...], own: bytes, shown: Shape, offer: Shape) -> PutMachine:
    state, revision, create, configure, drain, delete, gone_at_s, _ = fixed
    operations = (create, configure, drain, delete)
    return PutMachine(id_of(own), MachineState(state), own, shown, offer, operations, revision, gone_at_s)
