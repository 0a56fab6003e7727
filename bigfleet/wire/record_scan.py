"""Takes a machine record apart by its bytes, without decoding what many machines share.

Why: a first listing has a quarter of a million records; building messages and maps for each takes longer than all the
rest. Encoders write fields in ascending order, so what the machine is (fields 4 to 13) is one run of bytes that is the
same on thousands of machines, and so is the metadata behind the cluster. Providers made with our kit write cluster and
metadata first and that run behind them, which is known here too.
Must never: guess. A record of any other form gives None, and the caller decodes it in full.
Safety: a run of bytes is only ever believed after it has been parsed as a message by itself. Being complete fields from
a known boundary, it ends on a boundary, so whatever follows it is what it seems to be.
"""

from collections.abc import Sequence

from bigfleet.model.machine import CLUSTER_REQUIRED, MachineState
from bigfleet.wire.metadata import PREFIX

_ID, _STATE, _HOST, _LABEL, _CLUSTER = 0x0A, 0x10, 0x1A, 0x52, 0x72  # tags: field number and wire type
_PROVIDER, _REF, _METADATA = 0x0A, 0x12, 0x7A
_CLUSTER_BYTE, _OURS = bytes((_CLUSTER,)), PREFIX.encode()
_ONE_BYTE = 0x80  # lengths and tags below this take one byte

_BOUND = frozenset(map(int, CLUSTER_REQUIRED))
_PLAIN = frozenset(map(int, MachineState)) - {
    0,
    int(MachineState.FAILED),
}  # Failed ones carry a text of their own


Scanned = tuple[int, bytes, bytes, "bytes | tuple[bytes, ...]", bytes, bytes, tuple[bytes, ...]]
"""State, provider, host reference, shape bytes (in pieces where wide labels were cut out), cluster, metadata bytes, and
the wide labels as mark, value, mark, value, … A plain tuple, as one is made per machine."""

ScannedParts = tuple[
    Sequence[int],
    Sequence[bytes],
    Sequence[bytes],
    "Sequence[bytes | tuple[bytes, ...]]",
    Sequence[bytes],
    Sequence[bytes],
    Sequence[tuple[bytes, ...]],
]
"""The same parts of many records, each kind together."""

UNUSUAL: Scanned = (0, b"", b"", b"", b"", b"", ())
"""Marks a record of another form; no machine has state 0."""


def leading_id(record: bytes) -> str | None:
    """The id of a record that begins with it, as encoders write it; None when it must be decoded to be sure."""
    try:
        if record[0] == _ID and 0 < record[1] < _ONE_BYTE and record[2 + record[1]] == _STATE:
            return record[2 : 2 + record[1]].decode()
    except (IndexError, UnicodeDecodeError):
        pass
    return None


def scan(record: bytes, wide_marks: Sequence[bytes] = ()) -> Scanned | None:
    """Take a record apart; None when it is not of the usual form, which begins with id and state.

    `wide_marks` are those of the keys to cut out, as `wide_mark` makes them.
    """
    try:
        at = 4 + record[1]
        state = record[at - 1]
        if state not in _PLAIN or record[0] != _ID or record[1] >= _ONE_BYTE or record[at - 2] != _STATE:
            return None
        size = end = len(record)
        provider = ref = cluster = metadata = b""
        if at < size and record[at] == _HOST:
            behind = at + 2 + record[at + 1]
            split = at + 4 + record[at + 3]
            # Exactly a provider and a reference, which fill the message to its end.
            if (
                record[at + 2] != _PROVIDER
                or record[split] != _REF
                or split + 2 + record[split + 1] != behind
            ):
                return None
            if record[at + 1] >= _ONE_BYTE or behind > size:
                return None
            provider, ref, at = record[at + 4 : split], record[split + 2 : behind], behind
        if state in _BOUND and at < size and record[at] == _CLUSTER:
            if record[at + 1] >= _ONE_BYTE:
                return None
            behind = at + 2 + record[at + 1]
            cluster, at = record[at + 2 : behind], _end_of_metadata(record, behind)
            if at < 0:
                return None
            metadata = record[behind:at]
        elif state in _BOUND:
            end = _cluster_before_metadata(record, at)
            if end < 0:
                end = _end_of_shape(record, at)
            if end < 0 or record[end] != _CLUSTER or record[end + 1] >= _ONE_BYTE:
                return None
            behind = end + 2 + record[end + 1]
            cluster, metadata = record[end + 2 : behind], record[behind:]
        if not wide_marks:
            return state, provider, ref, record[at:end], cluster, metadata, ()
        pieces, wide = _split_wide(record, at, end, wide_marks)
    except IndexError:
        return None  # cut short; decoding in full will say where
    return state, provider, ref, pieces, cluster, metadata, wide


def _end_of_metadata(record: bytes, at: int) -> int:
    """Step over metadata; -1 when an entry is longer than any of ours or runs beyond the end."""
    size = len(record)
    while at < size and record[at] == _METADATA:
        length = record[at + 1]
        if length >= _ONE_BYTE:
            if record[at + 2] >= _ONE_BYTE:
                return -1
            length = 1 + (length & 0x7F) + (record[at + 2] << 7)
        at += 2 + length
    return at if at <= size else -1


def _cluster_before_metadata(record: bytes, at: int) -> int:
    """Where the cluster begins if metadata of ours follows it; -1 when that cannot be seen at a glance.

    A guess, and a good one; the shape bytes before it, once they prove to be complete fields, make it a fact.
    """
    end = record.find(_OURS, at) - 4  # behind tag, length, key tag and key length of the first entry
    if end < at or record[end] != _METADATA:
        return -1
    start = record.rfind(_CLUSTER_BYTE, at, end)
    while start >= 0 and start + 2 + record[start + 1] != end:
        start = record.rfind(_CLUSTER_BYTE, at, start)
    return start


def _end_of_shape(record: bytes, at: int) -> int:
    """Step over fields until the first that is the cluster or comes behind it; -1 when the form is unusual."""
    while 0 <= at < len(record):
        if record[at] >= 0x70:
            return at
        at = _behind_field(record, at)
    return -1


def _behind_field(record: bytes, at: int) -> int:
    """The end of the field that begins here, which may be beyond the data; -1 for an unusual field."""
    kind = record[at] & 7
    try:
        if record[at] >= _ONE_BYTE:
            return -1
        if kind == 2:
            length = record[at + 1]
            if length < _ONE_BYTE:
                return at + 2 + length
            return at + 3 + (length & 0x7F) + (record[at + 2] << 7) if record[at + 2] < _ONE_BYTE else -1
        if kind == 1:
            return at + 9
        return at + 2 if kind == 0 and record[at + 1] < _ONE_BYTE else -1
    except IndexError:
        return -1


def fields_of(run: bytes) -> list[bytes] | None:
    """The fields of a run, each with its tag; None when it is not a sequence of fields of the usual kinds."""
    fields, at = [], 0
    while at < len(run):
        end = _behind_field(run, at)
        if end < 0 or end > len(run):
            return None
        fields.append(run[at:end])
        at = end
    return fields


def wide_mark(key: str) -> bytes:
    """The bytes with which a label entry of this key begins; empty when the key is too long for the fast way."""
    encoded = key.encode()
    return bytes((_ID, len(encoded))) + encoded + b"\x12" if len(encoded) < 100 else b""


def _split_wide(
    record: bytes, at: int, end: int, marks: Sequence[bytes]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Cut the entries of wide labels out of the run of shape bytes.

    The pieces are handed on apart: only if each of them is complete fields was each cut made at a boundary.
    """
    cuts: list[tuple[int, int, int, bytes]] = []
    for mark in marks:
        found = record.find(mark, at, end) if mark else -1
        if found < 0:
            continue
        value = found + len(mark)
        behind = value + 1 + record[value]
        if record[found - 2] == _LABEL and record[found - 1] == behind - found < _ONE_BYTE and behind <= end:
            cuts.append((found - 2, value + 1, behind, mark))
    if len(cuts) == 1:  # nearly always
        start, value, behind, mark = cuts[0]
        return (record[at:start], record[behind:end]), (mark, record[value:behind])
    cuts.sort()
    pieces, wide = [], []
    for start, value, behind, mark in cuts:
        pieces.append(record[at:start])
        wide.append(mark)
        wide.append(record[value:behind])
        at = behind
    pieces.append(record[at:end])
    return tuple(pieces), tuple(wide)
