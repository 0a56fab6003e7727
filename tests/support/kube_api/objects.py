"""The objects of the in-memory API server, their versions, and their history.

Why: lists, watches, conflicts and compaction all follow from one counter and one history, as they do in the real one.
Must never: hand out a document that is also stored; what a caller changes must not change the cluster.
Rules: `testing#memory-api-server`.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bigfleet.kube.resources import ObjectKey, Resource, key_of, version_of
from bigfleet.kube.transport import Document

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Matches = Callable[[Document], bool]


class CompactedError(Exception):
    """The history no longer reaches back to this version."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {version} ({oldest})")
        self.version, self.oldest = version, oldest


@dataclass(frozen=True, slots=True)
class Record:
    """One change: what the object was before and is after; a deletion's `after` is the last state with its own version."""

    version: int
    resource: Resource
    type: EventType
    before: Document | None
    after: Document


class Objects:
    """Everything that is stored."""

    def __init__(self) -> None:
        self.version = 1
        self.oldest = 1
        self._kinds: dict[Resource, dict[ObjectKey, Document]] = {}
        self._history: list[Record] = []
        self._changed: asyncio.Event | None = None

    def of(self, resource: Resource) -> dict[ObjectKey, Document]:
        """Return the objects of a kind; to be read only."""
        return self._kinds.setdefault(resource, {})

    def get(self, resource: Resource, key: ObjectKey) -> Document | None:
        """Return a copy of one object."""
        found = self.of(resource).get(key)
        return None if found is None else copy(found)

    def put(self, resource: Resource, document: Document) -> Document:
        """Store an object under the next version and return a copy of it."""
        stored = copy(document)
        key = key_of(stored)
        before = self.of(resource).get(key)
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.of(resource)[key] = stored
        self._note(Record(self.version, resource, "MODIFIED" if before else "ADDED", before, stored))
        return copy(stored)

    def remove(self, resource: Resource, key: ObjectKey) -> Document:
        """Delete an object and return its last state, with the version of the deletion."""
        before = self.of(resource).pop(key)
        self.version += 1
        last = copy(before)
        last["metadata"]["resourceVersion"] = str(self.version)
        self._note(Record(self.version, resource, "DELETED", before, last))
        return last

    def as_of(self, resource: Resource, version: int) -> dict[ObjectKey, Document]:
        """Return the objects of a kind as they were at a version."""
        self.check(version)
        state = dict(self.of(resource))
        for record in reversed(self._history):
            if record.version <= version:
                break
            if record.resource == resource:
                if record.before is None:
                    state.pop(key_of(record.after), None)
                else:
                    state[key_of(record.after)] = record.before
        return state

    def since(self, resource: Resource, version: int) -> list[Record]:
        """Return what happened to a kind after a version, oldest first."""
        self.check(version)
        found: list[Record] = []
        for record in reversed(self._history):
            if record.version <= version:
                break
            if record.resource == resource:
                found.append(record)
        return found[::-1]

    def check(self, version: int) -> None:
        """Refuse a version from before the last compaction."""
        if version < self.oldest:
            raise CompactedError(version, self.oldest)

    def compact(self) -> None:
        """Drop the history; a watch from an older version must list again."""
        self.version += 1
        self.oldest = self.version
        self._history.clear()
        self._wake()

    def changed(self) -> asyncio.Event:
        """Return an event that is set at the next change."""
        if self._changed is None:
            self._changed = asyncio.Event()
        return self._changed

    def _note(self, record: Record) -> None:
        self._history.append(record)
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def copy(document: Document) -> Document:
    """Return a document that shares nothing with the given one."""
    copied: Document = json.loads(json.dumps(document))
    return copied


def event_line(record: Record, matches: Matches) -> bytes | None:
    """Return the line of a change in a watch with a selector; None if the watch does not show it."""
    was = record.before is not None and matches(record.before)
    now = record.type != "DELETED" and matches(record.after)
    if not was and not now:
        return None
    kind = "DELETED" if not now else "MODIFIED" if was else "ADDED"
    document = record.after
    if kind == "DELETED" and record.before is not None:
        document = copy(record.before)
        document["metadata"]["resourceVersion"] = str(version_of(record.after))
    return json.dumps({"type": kind, "object": document}).encode()
