"""Provider listings: from the bytes of a MachineList to what is new, what changed and what is refused.

Why: a shard lists every few seconds and nearly nothing has changed; reading must cost what changed, not what exists.
Called by: the provider client, which hands over the response undecoded; the shard's reconcile decides what to do with
the result. Nothing is written here but the numbers of new shapes and assignments.
Must never: apply anything, or let one bad record spoil the listing: it is refused by itself, and its id counts as seen.
How: a record whose bytes hash like those its row was last read from is unchanged, since any local write clears that
hash. New records are taken apart by `record_scan`, and each part that machines share is decoded once. Every other
record is decoded in full. The fast way and the full one give the same result; a property test holds that.
"""

from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory, NewRows, Placement, Rows
from bigfleet.model.inventory.table import check_sizes
from bigfleet.model.machine import Machine
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.machines import machine_from_proto
from bigfleet.wire.raw import twin_of
from bigfleet.wire.record_memory import RecordMemory
from bigfleet.wire.record_scan import leading_id, scan

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
        self._memory = RecordMemory(inventory)
        self._order: Rows = np.empty(0, dtype=np.intp)  # rows in the order of the last full listing
        self._placed: tuple[Placement, list[int]] = (Placement(), [])  # where its new machines stood and went

    def read(self, data: bytes, full: bool = True) -> Listing:
        """Compare a listing with the inventory; `full` unless the provider was asked for changes only."""
        try:
            message = _RAW_LIST.FromString(data)
        except DecodeError:
            raise InvalidFieldError("listing", f"{len(data)} bytes", "an encoded MachineList") from None
        records: list[bytes] = list(message.machines)  # type: ignore[attr-defined]  # a derived class has no stub
        revision: bytes = message.revision  # type: ignore[attr-defined]
        del message
        self._memory.refresh()
        hashes = np.fromiter(map(hash, records), dtype=np.int64, count=len(records))
        listing = Listing(revision, len(records), NewRows(self._inventory.generation))
        reading = _Reading(records, hashes, self._unchanged_in_place(hashes), listing)
        remaining = np.flatnonzero(reading.rows < 0)
        if remaining.size:
            self._read_rest(reading, remaining)
        listing.seen = reading.rows[reading.rows >= 0]
        if full:
            self._order, self._placed = reading.rows, (listing.new.placement, reading.new_places)
        return listing

    def _unchanged_in_place(self, hashes: NDArray[np.int64]) -> Rows:
        """The row of each record that stands where it stood and reads as it read; -1 for the others."""
        placement, places = self._placed
        if placement.first_row is not None:
            self._order[places] = placement.first_row + np.arange(len(places))
            self._placed = (Placement(), [])
        rows = np.full(hashes.size, -1, dtype=np.intp)
        common = min(hashes.size, self._order.size)
        before = self._order[:common]
        same = self._inventory.reads_as(before, hashes[:common])
        rows[:common][same] = before[same]
        return rows

    def _read_rest(self, reading: "_Reading", remaining: Rows) -> None:
        places = remaining.tolist()
        leading = [leading_id(reading.records[place]) for place in places]
        ids = [known or _decoded_id(reading.records[at]) for known, at in zip(leading, places, strict=True)]
        found = self._inventory.rows_of(ids)
        reading.rows[remaining] = found
        left = ~self._inventory.reads_as(found, reading.hashes[remaining])
        left &= ~self._refuse_repeated(reading, remaining)
        known = left & (found >= 0)
        unknown = np.flatnonzero(left & (found < 0)).tolist()
        if unknown:
            self._read_new(reading, [(places[at], ids[at], leading[at] is not None) for at in unknown])
        for at in np.flatnonzero(known).tolist():
            machine = self._decode(reading, places[at], ids[at])
            if machine is not None:
                reading.listing.changed.append((machine, int(reading.hashes[places[at]])))

    def _refuse_repeated(self, reading: "_Reading", remaining: Rows) -> NDArray[np.bool_]:
        """Refuse all but the first record of a known machine; tell which of the remaining ones that concerns."""
        known = np.flatnonzero(reading.rows >= 0)
        if known.size == 0 or np.bincount(reading.rows[known]).max() == 1:
            return np.zeros(remaining.size, dtype=np.bool_)
        repeated = np.ones(known.size, dtype=np.bool_)
        repeated[np.unique(reading.rows[known], return_index=True)[1]] = False
        for place in known[repeated].tolist():
            machine_id = leading_id(reading.records[place]) or _decoded_id(reading.records[place])
            reading.refuse(place, machine_id, _repeated(machine_id))
        return np.isin(remaining, known[repeated])

    def _read_new(self, reading: "_Reading", unknown: list[tuple[int, str, bool]]) -> None:
        """Take in what is new, the fast way where a record has the usual form."""
        memory, records, new_ids = self._memory, reading.records, reading.new_ids
        new = reading.listing.new
        # Bound methods: a quarter of a million look-ups of each would show.
        add_id, add_state, add_ref = new.ids.append, new.states.append, new.host_refs.append
        add_shape, add_assignment = new.shapes.append, new.assignments.append
        add_cluster, add_provider = new.clusters.append, new.providers.append
        add_place = reading.new_places.append
        for place, machine_id, usual in unknown:
            if machine_id in new_ids:
                reading.refuse(place, machine_id, _repeated(machine_id))
                continue
            new_ids.add(machine_id)
            scanned = scan(records[place], memory.wide_marks) if usual else None
            numbers = None if scanned is None else memory.numbers(scanned)
            if scanned is None or numbers is None:
                machine = self._decode(reading, place, machine_id)
                if machine is not None:
                    add_place(place)
                    self._append_new(machine, new)
                continue
            state, _, ref, _, _, _, wide = scanned
            for at in range(0, len(wide), 2):
                new.add_wide(memory.wide_keys[wide[at]], len(new.ids), wide[at + 1])
            shape, assignment, cluster, provider = numbers
            add_place(place)
            add_id(machine_id)
            add_state(state)
            add_ref(ref)
            add_shape(shape)
            add_assignment(assignment)
            add_cluster(cluster)
            add_provider(provider)
        new.source_hashes = reading.hashes[reading.new_places].tolist()

    def _decode(self, reading: "_Reading", place: int, machine_id: str) -> Machine | None:
        """The full way; None when the record is refused."""
        try:
            message = _decoded(reading.records[place])
            if message.id != machine_id:
                raise InvalidFieldError(
                    "id", message.id, f"one id in a record, and it began with {machine_id!r}"
                )
            machine = machine_from_proto(message)
            check_sizes(machine)
        except InvalidFieldError as error:
            reading.refuse(place, machine_id, error)
            return None
        return machine

    def _append_new(self, machine: Machine, new: NewRows) -> None:
        inventory = self._inventory
        place = len(new.ids)
        labels = machine.shape.labels
        for key in inventory.wide.keys:
            value = labels.get(key)
            if value is not None:
                new.add_wide(key, place, value.encode())
                labels = labels.without(key)
        new.ids.append(machine.id)
        new.states.append(int(machine.state))
        new.shapes.append(inventory.intern_shape(machine.shape.with_labels(labels)))
        new.assignments.append(inventory.assignments.intern(machine.assigned))
        new.clusters.append(inventory.clusters.intern(machine.cluster))
        new.providers.append(inventory.providers.intern(machine.host.provider))
        new.host_refs.append(machine.host.ref.encode())
        if machine.last_error:
            new.errors[place] = machine.last_error


@dataclass(slots=True)
class _Reading:
    """One listing while it is being read."""

    records: list[bytes]
    hashes: NDArray[np.int64]
    rows: Rows
    listing: Listing
    new_ids: set[str] = field(default_factory=set)
    new_places: list[int] = field(default_factory=list)

    def refuse(self, place: int, machine_id: str, error: InvalidFieldError) -> None:
        """Note a record that is not taken."""
        self.listing.rejected.append(RejectedRecord(place, machine_id, error.under(f"machines[{place}]")))


def _decoded(record: bytes) -> pb.Machine:
    try:
        return pb.Machine.FromString(record)
    except DecodeError:
        raise InvalidFieldError("record", f"{len(record)} bytes", "an encoded Machine") from None


def _decoded_id(record: bytes) -> str:
    try:
        return pb.Machine.FromString(record).id
    except DecodeError:
        return ""


def _repeated(machine_id: str) -> InvalidFieldError:
    return InvalidFieldError("id", machine_id, "an id that stands only once in a listing")
