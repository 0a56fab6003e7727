"""Violations of what is kept of a binding: A23 to A25, B209, B5xx, B1104, B1202.

Must never: be honest.
"""

import unicodedata

from bigfleet.aio.clock import Clock
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import (
    ReferenceOperation,
    ReferenceOptions,
    ReferenceRecord,
    ReferenceStore,
)
from bigfleet.provider.conformance.states import C
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.conformance.violation import violation


class _Mangles(ReferenceProvider):
    """The map is changed before it is stored."""

    def bind(self, record: ReferenceRecord, request: pb.ConfigureRequest) -> None:
        super().bind(record, request)
        kept = self.mangled(dict(record.machine.shard_metadata))
        record.machine.shard_metadata.clear()
        record.machine.shard_metadata.update(kept)

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        raise TypeError("a violation says what is kept")


@violation("mangle-metadata", "A23")
class CutAtNul(_Mangles):
    """Values end at their first NUL."""

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        return {key: value.partition("\x00")[0] for key, value in metadata.items()}


@violation("forget-metadata", "A23")
class ForgetMetadata(_Mangles):
    """Metadata is not kept at all."""

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        return {}


@violation("metadata-survives-drain", "A24")
class MetadataSurvivesDrain(ReferenceProvider):
    """A drain clears the cluster and leaves the map."""

    def unbind(self, record: ReferenceRecord) -> None:
        record.machine.cluster = ""


@violation("empty-values-dropped", "A25")
class EmptyValuesDropped(_Mangles):
    """Entries with an empty value are dropped."""

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        return {key: value for key, value in metadata.items() if value}


@violation("map-cut-at-256-keys", "B209")
class MapCutAt256Keys(_Mangles):
    """Only 256 keys are kept."""

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        return dict(sorted(metadata.items())[:256])


@violation("text-normalised", "B501")
class TextNormalised(_Mangles):
    """Values are brought into one unicode form."""

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        return {key: unicodedata.normalize("NFC", value) for key, value in metadata.items()}


@violation("metadata-merges", "B502")
class MetadataMerges(ReferenceProvider):
    """A new binding inherits the map of the old one."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self._old: dict[str, dict[str, str]] = {}
        super().__init__(clock, options, store)

    def unbind(self, record: ReferenceRecord) -> None:
        self._old[record.machine.id] = dict(record.machine.shard_metadata)
        super().unbind(record)

    def bind(self, record: ReferenceRecord, request: pb.ConfigureRequest) -> None:
        record.machine.shard_metadata.update(self._old.get(record.machine.id, {}))
        super().bind(record, request)


@violation("map-cut-at-one-mebibyte", "B503")
class MapCutAtOneMebibyte(_Mangles):
    """Of a map only the first mebibyte is kept."""

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        size, kept = 0, {}
        for key, value in sorted(metadata.items()):
            size += len(key) + len(value)
            if size <= 2**20:
                kept[key] = value
        return kept


@violation("late-metadata", "B504")
class LateMetadata(ReferenceProvider):
    """The map is set when Configuring ends, not when it begins."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self._late: dict[str, dict[str, str]] = {}
        super().__init__(clock, options, store)

    def bind(self, record: ReferenceRecord, request: pb.ConfigureRequest) -> None:
        super().bind(record, request)
        self._late[record.machine.id] = dict(record.machine.shard_metadata)
        record.machine.shard_metadata.clear()

    def complete(self, kind: ReferenceOperation, record: ReferenceRecord, serial: int) -> None:
        if kind is ReferenceOperation.CONFIGURE:
            record.machine.shard_metadata.update(self._late[record.machine.id])
        super().complete(kind, record, serial)


@violation("metadata-wears-off", "B505")
class MetadataWearsOff(ReferenceProvider):
    """Every third read of a bound machine lacks a key."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self._reads = 0
        super().__init__(clock, options, store)

    def shown(self, record: ReferenceRecord) -> pb.Machine:
        machine = super().shown(record)
        if machine.state == C and machine.shard_metadata:
            self._reads += 1
            if self._reads % 3 == 0:
                machine.shard_metadata.pop(min(machine.shard_metadata))
        return machine


@violation("third-drain-keeps-metadata", "B1104")
class ThirdDrainKeepsMetadata(ReferenceProvider):
    """From the third drain of a machine on the map stays."""

    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self._drains: dict[str, int] = {}
        super().__init__(clock, options, store)

    def unbind(self, record: ReferenceRecord) -> None:
        count = self._drains[record.machine.id] = self._drains.get(record.machine.id, 0) + 1
        record.machine.cluster = ""
        if count < 3:
            record.machine.shard_metadata.clear()


@violation("no-emoji", "B1202")
class NoEmoji(_Mangles):
    """Characters beyond the first plane are dropped."""

    def mangled(self, metadata: dict[str, str]) -> dict[str, str]:
        return {_plain(key): _plain(value) for key, value in metadata.items()}


def _plain(text: str) -> str:
    return "".join(letter for letter in text if ord(letter) < 0x10000)
