"""Provider listings: from the bytes of a MachineList to what is new, what changed and what is refused.

Why: a shard lists every few seconds and nearly nothing has changed; reading must cost what changed, not what exists.
All that is written here are numbers of new shapes and assignments, and hashes of records seen.
Must never: apply anything, or let one bad record spoil the listing: it is refused by itself, and its id counts as seen.
How: a record whose bytes hash like those its row was last read from is unchanged, since any local write clears that
hash. The others are taken apart by `record_scan`, and each part that machines share is decoded once; what then says
just what is known, in other bytes, is unchanged too. What has another form is decoded in full. The fast way and the full
one give the same result; a property test holds that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import NO_TEXTS
from bigfleet.model.inventory import Inventory, NewRows, Placement, Rows
from bigfleet.model.machine import NO_HOST, HostRef, Machine, MachineState
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.foreign_records import Claims, ForeignRecords
from bigfleet.wire.labels import labels_left_out
from bigfleet.wire.machines import machine_from_proto
from bigfleet.wire.metadata import assignment_from_metadata
from bigfleet.wire.raw import twin_of
from bigfleet.wire.record_memory import RecordMemory
from bigfleet.wire.record_scan import UNUSUAL, ScannedParts, leading_id, scan

T = TypeVar("T")

_RAW_LIST = twin_of(pb.MachineList.DESCRIPTOR)
_PIECE_BYTES = 1 << 20
_MACHINES_TAG, _REVISION_TAG = 0x0A, 0x12
_AT_ONCE = 1024  # ids looked up together; a whole listing of them would linger in the allocator


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A refused record: its place, its machine if that could be read, and the reason."""

    place: int
    machine_id: str
    error: InvalidFieldError


@dataclass(frozen=True, slots=True)
class SkippedMetadata:
    """Values of a machine's metadata that could not be read; the machine is taken without them."""

    machine_id: str
    values: Mapping[str, str]
    """By key."""


@dataclass(slots=True)
class MachineListing:
    """What a listing says beyond what is known already."""

    revision: bytes
    size: int
    new: NewRows
    changed: list[tuple[Machine, int]] = field(default_factory=list)
    """Known machines whose record differs from the one last read, with the hash to note once it is applied."""
    rejected: list[RejectedRecord] = field(default_factory=list)
    skipped: list[SkippedMetadata] = field(default_factory=list)
    """Of new and changed records."""
    labels_left_out: dict[str, str] = field(default_factory=dict)
    """Keys of labels that were not taken over, met for the first time or again, with the reason."""
    seen: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Rows of the known machines that the listing names, refused records included."""
    foreign: int = 0
    """Machines of other shards, which are not taken; 0 where the provider is not shared."""
    without_domain: int = 0
    """Those of them that have no value of the partition key."""


class ListingReader:
    """Reads the listings of one provider into one inventory."""

    def __init__(self, inventory: Inventory, claims: Claims | None = None) -> None:
        self._inventory = inventory
        self._others = None if claims is None else ForeignRecords(claims)
        self._memory = RecordMemory(inventory)
        # Rows as the last full listing named them, and where the machines went that were new in it.
        self._order: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._placed: tuple[Placement, NDArray[np.int32]] = (Placement(), self._order)

    def read(self, data: bytes, full: bool = True) -> MachineListing:
        """Compare a listing with the inventory; `full` unless the provider was asked for changes only."""
        records: list[bytes] = []
        revision = b""
        piece_hashes: list[NDArray[np.int64]] = []
        for piece in pieces(data):
            try:
                message = _RAW_LIST.FromString(piece)
            except DecodeError:
                raise InvalidFieldError("listing", f"{len(data)} bytes", "an encoded MachineList") from None
            more: Sequence[bytes] = message.machines  # type: ignore[attr-defined]  # a derived class has no stub
            piece_hashes.append(np.fromiter(map(hash, more), dtype=np.int64, count=len(more)))
            records.extend(more)
            revision = message.revision or revision  # type: ignore[attr-defined]
        self._memory.refresh()
        hashes = np.concatenate(piece_hashes)
        rows = self._unchanged_in_place(hashes)
        foreign = np.zeros(hashes.size, dtype=np.bool_)
        if self._others is not None:
            foreign = (rows < 0) & self._others.begin(hashes)
        reading = _Reading(self._inventory, revision, records, hashes, rows, foreign=foreign)
        self._take_all(reading)
        if reading.names_a_machine_twice():
            if self._others is not None:
                self._others.begin(hashes)
            reading = _Reading(self._inventory, revision, records, hashes, rows, foreign=foreign)
            self._take_one_by_one(reading)
        for same_rows, same_hashes in reading.same:
            self._inventory.note_sources(same_rows, same_hashes)
        listing = reading.listing
        listing.labels_left_out, self._memory.left_out = self._memory.left_out, {}
        listing.seen = rows[rows >= 0]
        if self._others is not None:
            listing.foreign, listing.without_domain = self._others.end(hashes[foreign], full=full)
        if full:
            places = np.asarray(reading.new_places, dtype=np.int32)
            self._order, self._placed = rows.astype(np.int32), (listing.new.placement, places)
        return listing

    def _unchanged_in_place(self, hashes: NDArray[np.int64]) -> Rows:
        """The row of each record that is unchanged at its old place; -1 for the others."""
        placement, places = self._placed
        if placement.first_row is not None:
            self._order[places] = placement.first_row + np.arange(places.size)
            self._placed = (Placement(), places[:0])
        rows = np.full(hashes.size, -1, dtype=np.intp)
        common = min(hashes.size, self._order.size)
        before = self._order[:common].astype(np.intp)
        same = self._inventory.reads_as(before, hashes[:common])
        rows[:common][same] = before[same]
        return rows

    def _value(self, shape: int, wide: tuple[bytes, ...]) -> str | None:
        """The value of the partition key of a record that was taken apart."""
        key = "" if self._others is None else self._others.claims.key
        for mark, value in zip(wide[::2], wide[1::2], strict=True):
            if self._memory.wide_keys[mark] == key:
                return value.decode()
        return self._inventory.shapes[shape].label(key)

    def _take_all(self, reading: "_Reading") -> None:
        """Read every record that is not known to be unchanged, many at a time."""
        left = np.flatnonzero((reading.rows < 0) & ~reading.foreign)
        for start in range(0, left.size, _AT_ONCE):
            places = left[start : start + _AT_ONCE]
            records = [reading.records[place] for place in places.tolist()]
            ids = list(map(_id_of, records))
            rows = reading.rows[places] = self._inventory.rows_of(ids)
            changed = np.flatnonzero(~self._inventory.reads_as(rows, reading.hashes[places]))
            if changed.size:
                places, rows, at = places[changed], rows[changed], changed.tolist()
                self._take_some(reading, places, rows, _chosen(ids, at), _chosen(records, at))

    def _take_some(
        self, reading: "_Reading", places: Rows, rows: Rows, ids: Sequence[str], records: Sequence[bytes]
    ) -> None:
        parts, numbers = self._scan(records)
        usual, known = (numbers >= 0).all(axis=0), rows >= 0
        if not "".join(ids).isprintable():  # decoding in full will say which one has a control character
            usual &= np.fromiter(map(str.isprintable, ids), dtype=np.bool_, count=len(ids))
        hashes = reading.hashes[places].tolist()
        changed = np.flatnonzero(usual & known)
        if changed.size:
            same = self._says(rows[changed], parts, changed, numbers)
            reading.same.append((rows[changed[same]], reading.hashes[places[changed[same]]]))
            changed = changed[~same]
        for at in changed.tolist():
            machine = self._machine(ids[at], parts, at, numbers[:, at].tolist())
            reading.listing.changed.append((machine, hashes[at]))
        taken = np.flatnonzero(usual & ~known)
        if taken.size and self._others is not None:
            own = []
            for at in taken.tolist():
                value = self._value(int(numbers[0, at]), parts[6][at])
                own.append(self._others.takes(ids[at], value, parts[0][at], records[at], hashes[at]))
            taken = taken[np.array(own, dtype=np.bool_)]
        if taken.size:
            chosen, new = taken.tolist(), reading.listing.new
            states, refs = _chosen(parts[0], chosen), _chosen(parts[2], chosen)
            self._add_wide(new, _chosen(parts[6], chosen))
            new.extend(_chosen(ids, chosen), states, numbers[:, taken], refs, _chosen(hashes, chosen))
            reading.new_places.extend(places[taken].tolist())
        for at in np.flatnonzero(~usual).tolist():
            self._take_in_full(reading, int(places[at]), int(rows[at]))

    def _says(
        self, rows: Rows, parts: ScannedParts, at: Rows, numbers: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Whether known machines are written in other bytes but say what is known, as with maps in another order."""
        chosen = at.tolist()
        inventory, refs = self._inventory, _chosen(parts[2], chosen)
        same = inventory.says(rows, _chosen(parts[0], chosen), numbers[:, at], refs)
        for mark, key in self._memory.wide_keys.items():
            labels = [dict(zip(wide[::2], wide[1::2], strict=True)) for wide in _chosen(parts[6], chosen)]
            same &= inventory.wide.says(key, rows, [label.get(mark) for label in labels])
        return same

    def _add_wide(self, new: NewRows, wide: Sequence[tuple[bytes, ...]]) -> None:
        """Note the wide labels of machines that are added next."""
        for mark in self._memory.wide_marks:
            having = [place for place, labels in enumerate(wide) if mark in labels[::2]]
            values = [wide[place][wide[place].index(mark) + 1] for place in having]
            new.add_wide(self._memory.wide_keys[mark], [len(new) + place for place in having], values)

    def _scan(self, records: Sequence[bytes]) -> tuple[ScannedParts, NDArray[np.int32]]:
        """Take records apart and number their parts, once more whenever a label among them turns out to be wide."""
        memory = self._memory
        while True:
            marks = memory.wide_marks
            scanned = [scan(record, marks) or UNUSUAL for record in records]
            parts: ScannedParts = tuple(zip(*scanned, strict=True))  # type: ignore[assignment]  # zip forgets the types
            numbers = memory.numbers(parts)
            if marks == memory.wide_marks:
                return parts, numbers

    def _machine(self, machine_id: str, parts: ScannedParts, at: int, numbers: Sequence[int]) -> Machine:
        """The record of a known machine from what the memory knows of its parts."""
        state, ref, wide = parts[0][at], parts[2][at], parts[6][at]
        inventory, (shape_number, assignment, cluster, provider) = self._inventory, numbers
        shape = inventory.shapes[shape_number]
        if wide:
            keys = [self._memory.wide_keys[mark] for mark in wide[::2]]
            values = [value.decode() for value in wide[1::2]]
            shape = shape.with_labels(shape.labels.merged(dict(zip(keys, values, strict=True))))
        return Machine(
            id=machine_id,
            state=MachineState(state),
            shape=shape,
            host=HostRef(inventory.providers[provider], ref.decode()) if provider or ref else NO_HOST,
            cluster=inventory.clusters[cluster],
            assigned=inventory.assignments[assignment],
        )

    def _take_in_full(self, reading: "_Reading", place: int, row: int) -> bool:
        """Decode a record in full; return whether it is valid."""
        record, source_hash = reading.records[place], int(reading.hashes[place])
        machine_id = _id_of(record)
        try:
            message = _decoded(record)
            if message.id != machine_id:
                raise InvalidFieldError(
                    "id", message.id, f"one id in a record, and it began with {machine_id!r}"
                )
            machine = replace(machine_from_proto(message), metadata=NO_TEXTS)
        except InvalidFieldError as error:
            reading.refuse(place, machine_id, error)
            return False
        if row < 0 and self._others is not None:
            value = machine.shape.label(self._others.claims.key)
            if not self._others.takes(machine_id, value, int(machine.state), record, source_hash):
                return True
        _, skipped = assignment_from_metadata(message.shard_metadata)
        self._memory.left_out.update(labels_left_out(message.labels))
        if skipped:
            values = {key: message.shard_metadata[key] for key in skipped}
            reading.listing.skipped.append(SkippedMetadata(machine_id, values))
        if row >= 0:
            reading.listing.changed.append((machine, source_hash))
            return True
        inventory, new = self._inventory, reading.listing.new
        labels = machine.shape.labels
        for key in inventory.wide.keys:
            value = labels.get(key)
            if value is not None:
                new.add_wide(key, [len(new)], [value.encode()])
                labels = labels.without(key)
        numbers = (
            inventory.intern_shape(machine.shape.with_labels(labels)),
            inventory.assignments.intern(machine.assigned),
            inventory.clusters.intern(machine.cluster),
            inventory.providers.intern(machine.host.provider),
        )
        if machine.last_error:
            new.errors[len(new)] = machine.last_error
        reading.new_places.append(place)
        column = np.array([[number] for number in numbers], dtype=np.int32)
        new.extend([machine_id], [int(machine.state)], column, [machine.host.ref.encode()], [source_hash])
        return True

    def _take_one_by_one(self, reading: "_Reading") -> None:
        """Read a listing that names some machine twice: its first valid record counts, further ones are refused.

        Slow and simple: a provider that does this has a defect, and it is shown which machine it is.
        """
        taken: set[str] = set()
        same = self._inventory.reads_as(reading.rows, reading.hashes).tolist()
        for place, record in enumerate(reading.records):
            if reading.foreign[place]:
                continue
            machine_id = _id_of(record)
            if machine_id in taken:
                repeated = InvalidFieldError("id", machine_id, "an id that stands only once in a listing")
                reading.refuse(place, machine_id, repeated)
            elif same[place] or self._take_in_full(reading, place, int(reading.rows[place])):
                taken.add(machine_id)


class _Reading:
    """One listing while it is being read."""

    def __init__(
        self,
        inventory: Inventory,
        revision: bytes,
        records: Sequence[bytes],
        hashes: NDArray[np.int64],
        rows: Rows,
        *,
        foreign: NDArray[np.bool_],
    ) -> None:
        self.records, self.hashes, self.rows, self.foreign = records, hashes, rows, foreign
        self.listing = MachineListing(
            revision, len(records), NewRows(inventory.generation, inventory.population)
        )
        self.new_places: list[int] = []
        self.same: list[tuple[Rows, NDArray[np.int64]]] = []
        """Rows whose records say in other bytes what is known, and the hashes of those."""

    def refuse(self, place: int, machine_id: str, error: InvalidFieldError) -> None:
        """Note a record that is not taken."""
        self.listing.rejected.append(RejectedRecord(place, machine_id, error.under(f"machines[{place}]")))

    def names_a_machine_twice(self) -> bool:
        """Whether two records are, or may be, about one machine."""
        known = self.rows[self.rows >= 0]
        new = np.frombuffer(self.listing.new.id_hashes, dtype=np.int64)
        if known.size > _AT_ONCE:  # counting costs what the inventory is large, sorting what the listing is
            return bool(np.bincount(known).max() > 1 or np.unique(new).size < new.size)
        return np.unique(known).size < known.size or np.unique(new).size < new.size


def pieces(data: bytes) -> Iterator[bytes]:
    """An encoded list, cut between two of its fields into pieces that each decode by themselves.

    Decoding is one call into C during which no other thread runs; a listing of half a million records in one piece would
    hold the event loop for the better part of a second.
    """
    start = at = 0
    end = len(data)
    while end - start > _PIECE_BYTES and at < end:
        if data[at] not in (_MACHINES_TAG, _REVISION_TAG):
            break  # not as we know it; the decoder may judge the rest as a whole
        at += 1
        size = shift = 0
        while at < end and shift < 35:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        at += size
        if at - start >= _PIECE_BYTES and at <= end:
            yield data[start:at]
            start = at
    if start < end or not end:
        yield data[start:]


def _chosen(values: Sequence[T], at: Sequence[int]) -> Sequence[T]:
    """The values at these places; most often all of them."""
    return values if len(at) == len(values) else [values[place] for place in at]


def _decoded(record: bytes) -> pb.Machine:
    try:
        return pb.Machine.FromString(record)
    except DecodeError:
        raise InvalidFieldError("record", f"{len(record)} bytes", "an encoded Machine") from None


def _id_of(record: bytes) -> str:
    """The id a record is about, by its first bytes where they show it; empty when it has none that can be read."""
    try:
        return leading_id(record) or pb.Machine.FromString(record).id
    except DecodeError:
        return ""
