"""What the byte runs of machine records mean, each decoded once: shapes, assignments, clusters, providers.

Why: half a million machines share a few hundred shapes; decoding and checking one per machine would be the whole cost.
Must never: outgrow its bounds (maps may be written in any order, so one shape can have many byte forms), or remember a
run of bytes that has not proved to be complete fields of the expected kind.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory
from bigfleet.model.inventory.interner import Interner
from bigfleet.model.machine import CLUSTER_REQUIRED, HOST_REQUIRED
from bigfleet.model.texts import MAX_LABEL_VALUE, has_control
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.labels import labels_left_out
from bigfleet.wire.machines import MAX_NAME_BYTES, check_shape_texts, oversold, taken_shape
from bigfleet.wire.metadata import assignment_from_metadata
from bigfleet.wire.record_scan import ScannedParts, fields_of, wide_mark

K = TypeVar("K", bound=Hashable)

_REMEMBERED = 32_768  # per kind; encoders without a fixed order of maps give each shape a dozen forms
_UNUSUAL = -1

_HOSTED = sorted(map(int, HOST_REQUIRED))
_BOUND = sorted(map(int, CLUSTER_REQUIRED))
_SHAPE_FIELDS = frozenset(
    {
        "instance_type", "zone", "capacity_type", "price_per_hour",
        "interruption_probability", "resources", "labels", "allocatable",
    }
)  # fmt: skip


class RecordMemory:
    """The inventory's numbers for runs of bytes that were seen before."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._generation = inventory.generation
        self._shapes: dict[bytes | tuple[bytes, ...], int] = {}
        self._assignments: dict[bytes, int] = {}
        # The same by the fields in sorted order: many encoders write maps in another order each time.
        self._canonical_shapes: dict[tuple[bytes, ...], int] = {}
        self._canonical_assignments: dict[tuple[bytes, ...], int] = {}
        self._clusters: dict[bytes, int] = {b"": 0}
        self._providers: dict[bytes, int] = {b"": 0}
        self.wide_keys: dict[bytes, str] = {}
        """The key behind each mark to cut out."""
        self.wide_marks: tuple[bytes, ...] = ()
        self._marks_in_use: tuple[bytes, ...] = ()
        self.left_out: dict[str, str] = {}
        """Labels that were not taken over since this was last emptied, as keys with the reason."""
        self.refresh()

    def refresh(self) -> None:
        """Forget what the inventory has renumbered since."""
        if self._generation != self._inventory.generation:
            self._generation = self._inventory.generation
            for memory in (
                self._shapes,
                self._assignments,
                self._canonical_shapes,
                self._canonical_assignments,
            ):
                memory.clear()
            self._clusters, self._providers = {b"": 0}, {b"": 0}
        self._note_wide_keys()

    def numbers(self, parts: ScannedParts) -> NDArray[np.int32]:
        """The inventory's numbers of many records: a column each, rows as `NewRows.extend` wants them.

        A column that is not all from 0 up belongs to a record that must be decoded in full. Where `wide_marks` is
        another afterwards, the records must be scanned again.
        """
        states, providers, refs, shapes, clusters, metadata, wide = parts
        self._marks_in_use = self.wide_marks
        numbers = np.array(
            [
                self._known(self._shapes, shapes, self._learn_shape),
                self._known(self._assignments, metadata, self._learn_assignment),
                self._known(self._clusters, clusters, self._learn_cluster),
                self._known(self._providers, providers, self._learn_provider),
            ],
            dtype=np.int32,
        )
        state = np.array(states)
        has_host = (numbers[3] != 0) | np.fromiter(map(bool, refs), dtype=np.bool_, count=len(refs))
        unfit = state == 0  # of another form
        unfit |= has_host != np.isin(state, _HOSTED)  # breaks an invariant; decoding in full will say which
        unfit |= (numbers[2] != 0) != np.isin(state, _BOUND)
        # Taken over as bytes, so what is not plainly text is left to the decoder.
        if not _plain(b"".join(refs)):
            unfit |= np.fromiter((not _plain(ref) for ref in refs), dtype=np.bool_, count=len(refs))
        if self.wide_marks:
            values = list(chain.from_iterable(wide))[1::2]  # marks and values take turns
            if max(map(len, values), default=0) > MAX_LABEL_VALUE or not _plain(b"".join(values)):
                odd = (not all(map(_fits, labels[1::2])) for labels in wide)
                unfit |= np.fromiter(odd, dtype=np.bool_, count=len(wide))
        numbers[0, unfit] = _UNUSUAL
        return numbers

    def _known(self, memory: dict[K, int], encoded: Sequence[K], learn: Callable[[K], int]) -> list[int]:
        numbers = list(map(memory.get, encoded))
        if None in numbers:
            # Looked up once more: the same run of bytes may occur many times, and is learnt the first time.
            return [
                known if known is not None else memory[text] if text in memory else learn(text)
                for known, text in zip(numbers, encoded, strict=True)
            ]
        return numbers  # type: ignore[return-value]  # none of them is None

    def _learn_shape(self, encoded: bytes | tuple[bytes, ...]) -> int:
        if self.wide_marks is not self._marks_in_use:
            return _UNUSUAL  # a label has just turned wide: these records are about to be scanned again
        pieces = (encoded,) if isinstance(encoded, bytes) else encoded
        canonical = _canonical(pieces)
        number = None if canonical is None else self._canonical_shapes.get(canonical)
        if number is not None:
            return _remember(self._shapes, encoded, number)
        try:
            # Each piece by itself: only complete fields prove that the cuts were made at boundaries.
            fields = [
                field.name for piece in pieces for field, _ in pb.Machine.FromString(piece).ListFields()
            ]
            message = pb.Machine.FromString(b"".join(pieces))
            check_shape_texts(message)
        except (DecodeError, InvalidFieldError):
            return _UNUSUAL
        shape = taken_shape(message)
        if shape.flaw is not None or not _SHAPE_FIELDS.issuperset(fields) or oversold(shape) is not None:
            return _UNUSUAL
        self.left_out.update(labels_left_out(message.labels))
        if any(key in shape.labels for key in self._inventory.wide.keys):
            return _UNUSUAL
        number = self._inventory.intern_shape(shape)
        self._note_wide_keys()  # this very shape may have been the one value too many of some label
        if canonical is not None:
            _remember(self._canonical_shapes, canonical, number)
        return _remember(self._shapes, encoded, number)

    def _learn_assignment(self, encoded: bytes) -> int:
        canonical = _canonical((encoded,))
        number = None if canonical is None else self._canonical_assignments.get(canonical)
        if number is not None:
            return _remember(self._assignments, encoded, number)
        try:
            message = pb.Machine.FromString(encoded)
        except DecodeError:
            return _UNUSUAL
        if any(field.name != "shard_metadata" for field, _ in message.ListFields()):
            return _UNUSUAL
        assigned, skipped = assignment_from_metadata(message.shard_metadata)
        if skipped:
            return _UNUSUAL  # to be decoded in full, where it is known which machine it is about
        number = self._inventory.assignments.intern(assigned)
        if canonical is not None:
            _remember(self._canonical_assignments, canonical, number)
        return _remember(self._assignments, encoded, number)

    def _learn_cluster(self, encoded: bytes) -> int:
        return self._learn_text(self._clusters, self._inventory.clusters, encoded)

    def _learn_provider(self, encoded: bytes) -> int:
        return self._learn_text(self._providers, self._inventory.providers, encoded)

    def _learn_text(self, memory: dict[bytes, int], interner: Interner[str], encoded: bytes) -> int:
        try:
            text = encoded.decode()
        except UnicodeDecodeError:
            return _UNUSUAL
        if len(encoded) > MAX_NAME_BYTES or has_control(text):
            return _UNUSUAL
        return _remember(memory, encoded, interner.intern(text))

    def _note_wide_keys(self) -> None:
        keys = self._inventory.wide.keys
        if len(keys) != len(self.wide_marks):
            self.wide_marks = tuple(map(wide_mark, keys))
            self.wide_keys = dict(zip(self.wide_marks, keys, strict=True))


_RESOURCES, _LABEL, _ALLOCATABLE, _METADATA, _ENTRY = 0x4A, 0x52, 0x6A, 0x7A, 0x0A  # tags


def _canonical(pieces: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """Fields in sorted order, entries of nested maps too; None when that could change what they mean."""
    fields: list[bytes] = []
    for piece in pieces:
        found = fields_of(piece)
        if found is None:
            return None
        fields += found
    for at, field in enumerate(fields):
        if field[0] in (_RESOURCES, _ALLOCATABLE):
            entries = fields_of(field[2:]) if field[1] < 0x80 else None  # else its length takes two bytes
            if entries is None or not _may_be_sorted(entries, (_ENTRY,)):
                return None
            fields[at] = field[:2] + b"".join(sorted(entries))
    return tuple(sorted(fields)) if _may_be_sorted(fields, (_LABEL, _METADATA)) else None


def _may_be_sorted(fields: Sequence[bytes], map_tags: tuple[int, ...]) -> bool:
    """Whether order means nothing: no field and no key of a map is repeated, in which case the last one would win."""
    seen = set()
    for field in fields:
        name = field[:1]
        if field[0] in map_tags:
            if len(field) < 4 or field[2] != _ENTRY or field[1] >= 0x80 or field[3] >= 0x80:
                return False
            name += field[4 : 4 + field[3]]
        if name in seen:
            return False
        seen.add(name)
    return True


def _plain(text: bytes) -> bool:
    """Whether bytes are printable ASCII; at the speed of C, as they are those of all machines."""
    return text.isascii() and text.decode("ascii").isprintable()


def _fits(value: bytes) -> bool:
    """Whether a wide label may be taken over as it is."""
    return len(value) <= MAX_LABEL_VALUE and _plain(value)


def _remember(memory: dict[K, int], encoded: K, number: int) -> int:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[encoded] = number
    return number
