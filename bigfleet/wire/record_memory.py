"""What the byte runs of machine records mean, each decoded once: shapes, assignments, clusters, providers.

Why: half a million machines share a few hundred shapes; decoding and checking one per machine would be the whole cost.
Called by: `bigfleet.wire.listing`, with what `record_scan` took apart.
Must never: outgrow its bounds (maps may be written in any order, so one shape can have many byte forms), or remember a
run of bytes that has not proved to be complete fields of the expected kind.
"""

from collections.abc import Hashable
from typing import TypeVar

from google.protobuf.message import DecodeError

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import CLUSTER_REQUIRED, HOST_REQUIRED, check_shape
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.machines import shape_from_proto
from bigfleet.wire.metadata import assignment_from_metadata
from bigfleet.wire.record_scan import Scanned, wide_mark

K = TypeVar("K", bound=Hashable)

_REMEMBERED = 8192  # per kind
_UNUSUAL = -1

_HOSTED = frozenset(map(int, HOST_REQUIRED))
_BOUND = frozenset(map(int, CLUSTER_REQUIRED))
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
        self._clusters: dict[bytes, int] = {b"": 0}
        self._providers: dict[bytes, int] = {b"": 0}
        self.wide_keys: dict[bytes, str] = {}
        """The key behind each mark to cut out."""
        self.wide_marks: tuple[bytes, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Forget what the inventory has renumbered since."""
        if self._generation != self._inventory.generation:
            self._generation = self._inventory.generation
            self._shapes.clear()
            self._assignments.clear()
        self._note_wide_keys()

    def numbers(self, scanned: Scanned) -> tuple[int, int, int, int] | None:
        """Shape, assignment, cluster and provider of a record; None when it must be decoded in full."""
        state, provider_text, ref, shape_bytes, cluster_text, metadata, wide = scanned
        shape = self._shapes.get(shape_bytes)
        if shape is None:
            shape = self._learn_shape(shape_bytes)
        assignment = self._assignments.get(metadata)
        if assignment is None:
            assignment = self._learn_assignment(metadata)
        cluster = self._clusters.get(cluster_text)
        if cluster is None:
            cluster = self._learn_text(self._clusters, cluster_text)
        provider = self._providers.get(provider_text)
        if provider is None:
            provider = self._learn_text(self._providers, provider_text)
        if shape < 0 or assignment < 0 or cluster < 0 or provider < 0:
            return None
        if bool(provider or ref) != (state in _HOSTED) or bool(cluster) != (state in _BOUND):
            return None  # breaks an invariant; decoding in full will say which
        if not ref.isascii() or (wide and not all(map(bytes.isascii, wide))):
            return None  # taken over as bytes, so what is not plainly text is left to the decoder
        return shape, assignment, cluster, provider

    def _learn_shape(self, encoded: bytes | tuple[bytes, ...]) -> int:
        pieces = (encoded,) if isinstance(encoded, bytes) else encoded
        try:
            # Each piece by itself: only complete fields prove that the cuts were made at boundaries.
            fields = [
                field.name for piece in pieces for field, _ in pb.Machine.FromString(piece).ListFields()
            ]
            shape = shape_from_proto(pb.Machine.FromString(b"".join(pieces)))
            check_shape(shape)
        except (DecodeError, InvalidFieldError):
            return _UNUSUAL
        if not _SHAPE_FIELDS.issuperset(fields) or any(
            key in shape.labels for key in self._inventory.wide.keys
        ):
            return _UNUSUAL
        number = self._inventory.intern_shape(shape)
        self._note_wide_keys()  # this very shape may have been the one value too many of some label
        return _remember(self._shapes, encoded, number)

    def _learn_assignment(self, encoded: bytes) -> int:
        try:
            message = pb.Machine.FromString(encoded)
        except DecodeError:
            return _UNUSUAL
        if any(field.name != "shard_metadata" for field, _ in message.ListFields()):
            return _UNUSUAL
        assigned, _ = assignment_from_metadata(message.shard_metadata)
        return _remember(self._assignments, encoded, self._inventory.assignments.intern(assigned))

    def _learn_text(self, memory: dict[bytes, int], encoded: bytes) -> int:
        try:
            text = encoded.decode()
        except UnicodeDecodeError:
            return _UNUSUAL
        interner = self._inventory.clusters if memory is self._clusters else self._inventory.providers
        return _remember(memory, encoded, interner.intern(text))

    def _note_wide_keys(self) -> None:
        keys = self._inventory.wide.keys
        if len(keys) != len(self.wide_marks):
            self.wide_marks = tuple(map(wide_mark, keys))
            self.wide_keys = dict(zip(self.wide_marks, keys, strict=True))


def _remember(memory: dict[K, int], encoded: K, number: int) -> int:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[encoded] = number
    return number
