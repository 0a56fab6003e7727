"""Provider listings: from the bytes of a MachineList to what is new, what changed and what is refused.

Why: a shard lists every few seconds and nearly nothing has changed; reading must cost what changed, not what exists.
Called by: the provider client, which hands over the response undecoded; the shard's reconcile decides what to do with
the result. Nothing is written here but the numbers of new shapes and assignments.
Must never: apply anything, or let one bad record spoil the listing: it is refused by itself, and its id counts as seen.
How: a record whose bytes hash like those its row was last read from is unchanged, since any local write clears that
hash. New records are taken apart by `record_scan`, and each part that machines share is decoded once. Every other
record is decoded in full. The fast way and the full one give the same result; a property test holds that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory, NewRows, Rows
from bigfleet.model.inventory.table import MAX_ID_BYTES, check_size, check_sizes
from bigfleet.model.machine import Machine, check_shape
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.machines import machine_from_proto, shape_from_proto
from bigfleet.wire.metadata import assignment_from_metadata
from bigfleet.wire.raw import twin_of
from bigfleet.wire.record_scan import Scanned, scan, wide_mark

_REMEMBERED = 8192  # byte forms per kind; maps may be written in any order, so one shape can have several
_RAW_LIST = twin_of(pb.MachineList.DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that was refused: where it stood, which machine it is about if that much could be read, and why."""

    place: int
    machine_id: str
    error: InvalidFieldError


@dataclass(slots=True)
class Listing:
    """What a listing says beyond what is known already."""

    revision: bytes
    size: int
    new: NewRows
    changed: list[tuple[Machine, int]] = field(default_factory=list)
    """Known machines whose record differs from the one last read, with the hash to note once it is applied."""
    rejected: list[RejectedRecord] = field(default_factory=list)
    seen: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Rows of the known machines that the listing names, refused records included."""


class ListingReader:
    """Reads the listings of one provider into one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._order: Rows = np.empty(0, dtype=np.intp)  # rows in the order of the last listing
        self._generation = inventory.generation
        self._shapes: dict[bytes | tuple[bytes, ...], int] = {}
        self._assignments: dict[bytes, int] = {}
        self._wide_keys: dict[bytes, str] = {}

    def read(self, data: bytes) -> Listing:
        """Compare a listing with the inventory; full listings and deltas alike."""
        try:
            message = _RAW_LIST.FromString(data)
        except DecodeError:
            raise InvalidFieldError("listing", f"{len(data)} bytes", "an encoded MachineList") from None
        records: list[bytes] = list(message.machines)  # type: ignore[attr-defined]  # a derived class has no stub
        revision: bytes = message.revision  # type: ignore[attr-defined]
        del message
        self._forget_if_renumbered()
        hashes = np.fromiter(map(hash, records), dtype=np.int64, count=len(records))
        listing = Listing(revision, len(records), NewRows(self._inventory.generation))
        rows = self._unchanged_in_place(hashes)
        remaining = np.flatnonzero(rows < 0)
        if remaining.size:
            self._read_rest(records, hashes, rows, remaining, listing)
        listing.seen = rows[rows >= 0]
        if len(records) >= self._order.size:  # a delta says nothing about the order of full listings
            self._order = rows
        return listing

    def _forget_if_renumbered(self) -> None:
        if self._generation != self._inventory.generation:
            self._generation = self._inventory.generation
            self._shapes.clear()
            self._assignments.clear()
        self._note_wide_keys()

    def _note_wide_keys(self) -> None:
        if len(self._wide_keys) != len(self._inventory.wide.keys):
            self._wide_keys = {wide_mark(key): key for key in self._inventory.wide.keys}

    def _unchanged_in_place(self, hashes: NDArray[np.int64]) -> Rows:
        """The row of each record that stands where it stood and reads as it read; -1 for the others."""
        rows = np.full(hashes.size, -1, dtype=np.intp)
        common = min(hashes.size, self._order.size)
        before = self._order[:common]
        known = before >= 0
        same = known & (self._inventory.source_hashes(np.where(known, before, 0)) == hashes[:common])
        rows[:common][same] = before[same]
        return rows

    def _read_rest(
        self, records: list[bytes], hashes: NDArray[np.int64], rows: Rows, remaining: Rows, listing: Listing
    ) -> None:
        ids = [_leading_id(records[place]) for place in remaining.tolist()]
        found = self._inventory.rows_of([machine_id or "" for machine_id in ids])
        unchanged = (found >= 0) & (self._inventory.source_hashes(np.maximum(found, 0)) == hashes[remaining])
        rows[remaining] = found
        marks = tuple(self._wide_keys)
        new_ids: set[str] = set()
        for at in np.flatnonzero(~unchanged).tolist():
            place, record = int(remaining[at]), records[remaining[at]]
            known, machine_id = int(found[at]), ids[at]
            if known < 0 and machine_id is not None and machine_id not in new_ids:
                scanned = scan(record, marks)
                if scanned is not None and self._take_new(scanned, machine_id, int(hashes[place]), listing.new):
                    new_ids.add(machine_id)
                    if len(self._wide_keys) != len(self._inventory.wide.keys):
                        self._note_wide_keys()
                        marks = tuple(self._wide_keys)
                    continue
            self._take_in_full(record, place, int(hashes[place]), listing, rows, new_ids)

    # The fast way: only for new machines in the usual form

    def _take_new(self, scanned: Scanned, machine_id: str, source_hash: int, new: NewRows) -> bool:
        shape = self._shapes.get(scanned.shape)
        if shape is None:
            shape = self._learn_shape(scanned.shape)
        assignment = self._assignments.get(scanned.metadata)
        if assignment is None:
            assignment = self._learn_assignment(scanned.metadata)
        if shape < 0 or assignment < 0 or not _is_plain(scanned):
            return False
        place = len(new.ids)
        inventory = self._inventory
        new.ids.append(machine_id)
        new.states.append(scanned.state)
        new.shapes.append(shape)
        new.assignments.append(assignment)
        new.clusters.append(inventory.clusters.intern(scanned.cluster.decode()))
        new.providers.append(inventory.providers.intern(scanned.provider.decode()))
        new.host_refs.append(scanned.ref)
        new.source_hashes.append(source_hash)
        wide = scanned.wide
        for at in range(0, len(wide), 2):
            new.wide.setdefault(self._wide_keys[wide[at]], []).append((place, wide[at + 1]))
        return True

    def _learn_shape(self, encoded: bytes | tuple[bytes, ...]) -> int:
        """Decode a run of shape bytes for the first time; -1 when it is not purely that."""
        pieces = (encoded,) if isinstance(encoded, bytes) else encoded
        try:
            # Each piece by itself: only complete fields prove that the cuts were made at boundaries.
            messages = [pb.Machine.FromString(piece) for piece in pieces]
            message = pb.Machine.FromString(b"".join(pieces))
            shape = shape_from_proto(message)
            check_shape(shape)
        except (DecodeError, InvalidFieldError):
            return -1
        if not all(map(_is_shape_only, messages)) or any(key in shape.labels for key in self._inventory.wide.keys):
            return -1
        number = self._inventory.intern_shape(shape)
        _remember(self._shapes, encoded, number)
        return number

    def _learn_assignment(self, encoded: bytes) -> int:
        try:
            message = pb.Machine.FromString(encoded)
        except DecodeError:
            return -1
        if any(name.name != "shard_metadata" for name, _ in message.ListFields()):
            return -1
        number = self._inventory.assignments.intern(assignment_from_metadata(message.shard_metadata)[0])
        _remember(self._assignments, encoded, number)
        return number

    # The full way: everything else

    def _take_in_full(
        self, record: bytes, place: int, source_hash: int, listing: Listing, rows: Rows, new_ids: set[str]
    ) -> None:
        machine_id = ""
        try:
            message = pb.Machine.FromString(record)
            machine_id = message.id
            check_size("id", machine_id, MAX_ID_BYTES)
            rows[place] = self._inventory.rows_of([machine_id])[0] if machine_id else -1
            machine = machine_from_proto(message)
            check_sizes(machine)
            if machine_id in new_ids:
                raise InvalidFieldError("id", machine_id, "an id that stands only once in a listing")
        except DecodeError:
            error = InvalidFieldError("record", f"{len(record)} bytes", "an encoded Machine")
            listing.rejected.append(RejectedRecord(place, machine_id, error.under(f"machines[{place}]")))
        except InvalidFieldError as error:
            listing.rejected.append(RejectedRecord(place, machine_id, error.under(f"machines[{place}]")))
        else:
            if rows[place] >= 0:
                listing.changed.append((machine, source_hash))
            else:
                new_ids.add(machine_id)
                self._append_new(machine, source_hash, listing.new)

    def _append_new(self, machine: Machine, source_hash: int, new: NewRows) -> None:
        inventory = self._inventory
        place = len(new.ids)
        labels = machine.shape.labels
        for key in inventory.wide.keys:
            value = labels.get(key)
            if value is not None:
                new.wide.setdefault(key, []).append((place, value.encode()))
                labels = labels.without(key)
        new.ids.append(machine.id)
        new.states.append(int(machine.state))
        new.shapes.append(inventory.intern_shape(machine.shape.with_labels(labels)))
        new.assignments.append(inventory.assignments.intern(machine.assigned))
        new.clusters.append(inventory.clusters.intern(machine.cluster))
        new.providers.append(inventory.providers.intern(machine.host.provider))
        new.host_refs.append(machine.host.ref.encode())
        new.source_hashes.append(source_hash)
        if machine.last_error:
            new.errors[place] = machine.last_error


_SHAPE_FIELDS = frozenset(
    {
        "instance_type", "zone", "capacity_type", "price_per_hour",
        "interruption_probability", "resources", "labels", "allocatable",
    }
)  # fmt: skip


def _is_shape_only(message: pb.Machine) -> bool:
    return all(descriptor.name in _SHAPE_FIELDS for descriptor, _ in message.ListFields())


def _is_plain(scanned: Scanned) -> bool:
    """Whether the texts that are taken as bytes need no further look, and the host fits the state."""
    has_host = bool(scanned.provider or scanned.ref)
    texts: Sequence[bytes] = (scanned.provider, scanned.ref, scanned.cluster, *scanned.wide)
    return has_host == (scanned.state > 2) and all(map(bytes.isascii, texts))


def _leading_id(record: bytes) -> str | None:
    """The id of a record that begins with it, as encoders write it; None when it must be decoded to be sure."""
    try:
        if record[0] == 0x0A and 0 < record[1] < 0x80 and record[2 + record[1]] == 0x10:
            return record[2 : 2 + record[1]].decode()
    except (IndexError, UnicodeDecodeError):
        pass
    return None


def _remember(memory: dict["K", int], encoded: "K", number: int) -> None:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[encoded] = number
