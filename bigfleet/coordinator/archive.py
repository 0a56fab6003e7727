"""Snapshots as users keep them: metadata and state, as a tar archive or a directory.

Why: people and the original must be able to read a backup, and a changed byte must prevent its restore.
Must never: accept a wrong checksum, size or order; drop a row; block other threads: encoding works in slices.
Rules: `coordinator#archive`, `coordinator#restore`, `coordinator#relearn`. An archive without the object `bigfleet`
comes from the original: its rows are restored under a new cluster id, its term becomes the epoch, and unknown keys are
ignored.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bigfleet.coordinator.archive_rows import domain_rows, move_rows, rows_of_state, shard_rows
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.core.table_text import FORMAT, read_tables
from bigfleet.coordinator.log import Snapshot, Tables
from bigfleet.model.errors import BigFleetError
from bigfleet.model.times import rfc3339_of_ns

META_NAME: Final = "meta.json"
STATE_NAME: Final = "state"
_MODE: Final = 0o644
_ROWS_PER_SLICE: Final = 2000
_MOST_NOTES: Final = 4
_BOTH: Final = f"allowed is {META_NAME} and then {STATE_NAME}"


class CorruptArchiveError(BigFleetError):
    """A file is no archive, or a damaged one."""


@dataclass(frozen=True, slots=True)
class ArchiveMeta:
    """The content of `meta.json`; `ours` is the object `bigfleet`, None in an archive of the original."""

    id: str
    index: int
    term: int
    size: int
    ours: Mapping[str, Any] | None = None  # Any: JSON

    def document(self) -> dict[str, Any]:
        """Return the metadata as JSON; ours includes a checksum of itself."""
        written: dict[str, Any] = {
            "Version": 1,
            "ID": self.id,
            "Index": self.index,
            "Term": self.term,
            "Size": self.size,
        }
        if self.ours is not None:
            written["bigfleet"] = dict(self.ours)
            written["bigfleet"]["meta_sha256"] = _meta_sha256(written)
        return written

    def text(self) -> bytes:
        """Return the bytes of `meta.json`."""
        return json.dumps(self.document(), indent=2).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Archive:
    """A snapshot with its metadata."""

    meta: ArchiveMeta
    state: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """The checksum of the state."""
        return hashlib.sha256(self.state).hexdigest()


def make_archive(snapshot: Snapshot, voters: Sequence[str], now_ns: int) -> Archive:
    """Encode a snapshot; too slow for the event loop with 100,000 domains."""
    state = b"".join(_state(snapshot.tables))
    tables = snapshot.tables
    ours = {
        "format": FORMAT,
        "level": tables["level"],
        "cluster_id": tables["cluster_id"],
        "incarnation": tables["incarnation"],
        "epoch": tables["epoch"],
        "voters": list(voters),
        "sha256": hashlib.sha256(state).hexdigest(),
        "created_at": rfc3339_of_ns(now_ns),
    }
    snapshot_id = f"{snapshot.term}-{snapshot.index}-{now_ns // 1_000_000}"
    return Archive(ArchiveMeta(snapshot_id, snapshot.index, snapshot.term, len(state), ours), state)


def tables_of(archive: Archive, *, cluster_id: str) -> Tables:
    """Return the tables of a restored coordinator, which re-learns what shards hold.

    `cluster_id` is used if the archive has none. Raises `CorruptArchiveError` on rows that break an invariant.
    Rules: `coordinator#restore`, `coordinator#relearn`.
    """
    ours = archive.meta.ours or {}
    try:
        rows = rows_of_state(json.loads(archive.state))
        tables = {
            "format": FORMAT,
            "level": ours.get("level", 1),
            "cluster_id": ours.get("cluster_id") or cluster_id,
            "incarnation": int(ours.get("incarnation", 0)) + 1,
            "relearn": True,
            "epoch": ours.get("epoch", archive.meta.term),
            "epoch_owner": "",
            **rows,
        }
        read_tables(tables, known_level=KNOWN_LEVEL)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BigFleetError) as error:
        raise CorruptArchiveError(f"{STATE_NAME}: {error!r}") from error
    return tables


def pack(archive: Archive) -> bytes:
    """Return the archive as one tar file, metadata first."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in ((META_NAME, archive.meta.text()), (STATE_NAME, archive.state)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), _MODE
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def unpack(packed: bytes) -> Archive:
    """Read a tar file of metadata and then state; raises `CorruptArchiveError`."""
    meta, behind = _member(packed, 0, META_NAME)
    state, _ = _member(packed, behind, STATE_NAME)
    return join_archive(meta, state)


def join_archive(meta: bytes, state: bytes) -> Archive:
    """Join metadata and state; raises `CorruptArchiveError` if they do not match."""
    archive = Archive(_read_meta(meta), state)
    expected = archive.meta
    if expected.size != len(state):
        raise CorruptArchiveError(f"{STATE_NAME}: found {len(state)} bytes, {META_NAME} says {expected.size}")
    if expected.ours is None and b'"move_seq"' in state:
        raise CorruptArchiveError(f"{META_NAME}: the object bigfleet is missing, though the state is ours")
    if expected.ours is not None and expected.ours.get("sha256") != archive.sha256:
        raise CorruptArchiveError(f"{STATE_NAME}: the checksum differs from the one in {META_NAME}")
    return archive


def _meta_sha256(document: Mapping[str, Any]) -> str:
    own = {name: value for name, value in document["bigfleet"].items() if name != "meta_sha256"}
    canonical = json.dumps({**document, "bigfleet": own}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _state(tables: Tables) -> Iterator[bytes]:
    """Encode the state in slices: one call would hold up every other thread."""
    yield b'{"shards":['
    yield from _slices(shard_rows(tables))
    yield b'],"cluster_to_shard":' + _encode(dict(sorted(tables["clusters"].items())))
    yield b',"domain_to_shard":['
    yield from _slices(domain_rows(tables))
    yield b'],"moves":['
    yield from _slices(move_rows(tables))
    yield b'],"ghosts":' + _encode(sorted(tables["ghosts"]))
    yield b',"move_seq":' + _encode(tables["move_seq"]) + b"}\n"


def _slices(rows: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
    pending: list[Mapping[str, Any]] = []
    separator = b""
    for row in rows:
        pending.append(row)
        if len(pending) == _ROWS_PER_SLICE:
            yield separator + _encode(pending)[1:-1]
            separator, pending = b",", []
    if pending:
        yield separator + _encode(pending)[1:-1]


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _member(packed: bytes, at: int, name: str) -> tuple[bytes, int]:
    """Return the content of the plain file at an offset, which must have this name, and the offset behind it.

    Not by the standard library: a header of a few bytes makes it walk backwards for ever, or fill the memory with a file of
    holes. Both writers of archives make plain headers; the notes that some programs put before a file are stepped over.
    """
    for _ in range(_MOST_NOTES):
        found, kind, content, behind = _entry(packed, at, name)
        if kind not in (tarfile.XHDTYPE, tarfile.XGLTYPE):
            break
        at = behind
    if kind not in (tarfile.REGTYPE, tarfile.AREGTYPE) or found != name:
        raise CorruptArchiveError(f"found {found}, {_BOTH}, as plain files")
    return content, behind


def _entry(packed: bytes, at: int, name: str) -> tuple[str, bytes, bytes, int]:
    """Return name, kind and content of the entry at an offset, and the offset behind it."""
    header = packed[at : at + tarfile.BLOCKSIZE]
    if len(header) < tarfile.BLOCKSIZE or not any(header):  # an empty one says that nothing follows
        raise CorruptArchiveError(f"{name}: found the end of the file, {_BOTH}")
    # The checksum is taken with blanks in its own place.
    if _octal(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        raise CorruptArchiveError("no archive: the checksum of a header does not match")
    found = header[:100].rstrip(b"\0").decode("ascii", "backslashreplace")
    begin, size = at + tarfile.BLOCKSIZE, _octal(header[124:136])
    if size is None:
        raise CorruptArchiveError(f"{found}: found no size, allowed are octal digits")
    if begin + size > len(packed):
        raise CorruptArchiveError(f"{found}: cut off after {len(packed) - begin} of {size} bytes")
    behind = begin + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    return found, header[156:157], packed[begin : begin + size], behind


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    return int(digits, 8) if digits.isdigit() and not digits.strip(b"01234567") else None


def _read_meta(text: bytes) -> ArchiveMeta:
    try:
        given = json.loads(text)
        index, term, size = (given[key] for key in ("Index", "Term", "Size"))
        ours = given.get("bigfleet")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptArchiveError(f"{META_NAME}: no metadata: {error!r}") from error
    if any(type(number) is not int or number < 0 for number in (index, term, size)) or index == 0:
        found = f"Index {index}, Term {term}, Size {size}"
        raise CorruptArchiveError(f"{META_NAME}: found {found}, allowed are whole numbers, Index from 1")
    if ours is not None and not isinstance(ours, dict):
        raise CorruptArchiveError(f"{META_NAME}: bigfleet: found {ours!r}, allowed is an object")
    if ours is not None and ours.pop("meta_sha256", None) != _meta_sha256(given):
        raise CorruptArchiveError(f"{META_NAME}: its checksum does not match")
    return ArchiveMeta(str(given.get("ID", "")), index, term, size, ours)
