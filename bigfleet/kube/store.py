"""A cache of one kind: a projection of each object in its newest known version, with indexes.

Why: 100,000 requests as whole documents are half a gigabyte; as projections they are a few dozen megabytes. A decision made
right after a write must not read the state from before it.
Must never: go back to an older version of an object, revive one whose deletion was seen, or show part of a list: a full list
replaces everything in one step.
Rules: `operator#start-order`, `operator#own-writes-seen`, `operator#reflector`, `operator#store`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Generic, TypeVar

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.change_queue import ChangeQueue
from bigfleet.kube.resources import ObjectKey, key_of, version_of
from bigfleet.kube.transport import Document
from bigfleet.model.errors import InvalidFieldError

T = TypeVar("T")

_KEYS_PER_TURN: Final = 5000

Projection = Callable[[Document], T | None]
"""Returns the part of an object that readers need; None leaves the object out. It must not raise."""
IndexKeys = Callable[[T], Iterable[str]]
"""Returns the values under which an object is found in one index."""


class _Table(Generic[T]):
    """Objects with their versions and index entries; readers see one, a second one collects a list."""

    def __init__(self, indexes: Mapping[str, IndexKeys[T]]) -> None:
        self.values: dict[ObjectKey, T] = {}
        self.versions: dict[ObjectKey, int] = {}
        self._makers = indexes
        self._indexes: dict[str, dict[str, dict[ObjectKey, None]]] = {name: {} for name in indexes}

    def put(self, key: ObjectKey, value: T, version: int) -> None:
        self.drop(key)
        self.values[key], self.versions[key] = value, version
        for name, make in self._makers.items():
            for entry in make(value):
                self._indexes[name].setdefault(entry, {})[key] = None

    def drop(self, key: ObjectKey) -> T | None:
        value = self.values.pop(key, None)
        if value is None:
            return None
        del self.versions[key]
        for name, make in self._makers.items():
            index = self._indexes[name]
            for entry in make(value):
                keys = index.get(entry)
                if keys is not None and keys.pop(key, 0) is None and not keys:
                    del index[entry]
        return value

    def found(self, index: str, entry: str) -> tuple[ObjectKey, ...]:
        if index not in self._indexes:
            raise InvalidFieldError("index", index, f"one of {', '.join(sorted(self._indexes)) or 'none'}")
        return tuple(sorted(self._indexes[index].get(entry, ())))


class Store(Generic[T]):
    """A cache of one selection of objects."""

    def __init__(
        self, project: Projection[T], *, clock: Clock, indexes: Mapping[str, IndexKeys[T]] | None = None
    ) -> None:
        self._project, self._clock = project, clock
        self._makers = dict(indexes or {})
        self._table: _Table[T] = _Table(self._makers)
        self._staging: _Table[T] | None = None
        self._subscribers: list[ChangeQueue[T]] = []
        self._synced = asyncio.Event()
        self._queueing = 0
        self._seen_version = 0
        self._ahead: dict[ObjectKey, int] = {}  # versions that writes returned and the watch has not reached
        self._in_step_s: float | None = None

    # ---- readers

    @property
    def synced(self) -> bool:
        """Whether the first complete list is in; before that the store says nothing about the cluster."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once the first complete list is in."""
        await self._synced.wait()

    @property
    def queues_a_list(self) -> bool:
        """Whether some differences of a full list are not queued for the subscribers yet."""
        return self._queueing > 0

    def age_s(self) -> float | None:
        """Return the time since the store was last known to be in step with the API server; None before the first list."""
        return None if self._in_step_s is None else monotonic_s(self._clock) - self._in_step_s

    def __len__(self) -> int:
        return len(self._table.values)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._table.values

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._table.values)

    def get(self, key: ObjectKey) -> T | None:
        """Return one object; None if it is not there."""
        return self._table.values.get(key)

    def snapshot(self) -> Mapping[ObjectKey, T]:
        """Return a shallow copy of all objects, safe to iterate across awaits."""
        return dict(self._table.values)

    def by_index(self, index: str, entry: str) -> tuple[T, ...]:
        """Return the objects found under a value of an index, ordered by key."""
        return tuple(self._table.values[key] for key in self._table.found(index, entry))

    def subscribe(self) -> ChangeQueue[T]:
        """Return a queue of every change from now on; it starts with every object that is here already."""
        queue = ChangeQueue(self.get)
        for key in self._table.values:
            queue.add(key, None)
        self._subscribers.append(queue)
        return queue

    def unsubscribe(self, queue: ChangeQueue[T]) -> None:
        """Stop adding changes to a queue."""
        self._subscribers = [other for other in self._subscribers if other is not queue]

    # ---- what writes returned

    def observe(self, document: Document) -> None:
        """Store what a write returned, unless something newer is known.

        A version that the watch has passed says nothing new: either it is here, or the object was deleted since.
        """
        key, version = key_of(document), version_of(document)
        if version <= self._seen_version and key not in self._table.values:
            return
        self._set(key, self._project(document), version)
        if version > self._seen_version:
            self._ahead[key] = version

    # ---- the reflector

    def apply(self, document: Document) -> None:
        """Store an object that the watch reported as added or changed."""
        version = version_of(document)
        self._set(key_of(document), self._project(document), version)
        self._advance(version)

    def remove(self, document: Document) -> None:
        """Remove an object that the watch reported as deleted, unless it was created again since."""
        key, version = key_of(document), version_of(document)
        if version >= self._table.versions.get(key, 0):
            self._set(key, None, version)
        self._advance(version)

    def bookmark(self, version: int) -> None:
        """Record that the watch has reported everything up to a version."""
        self._advance(version)
        self._ahead = {key: known for key, known in self._ahead.items() if known > version}

    def in_step(self) -> None:
        """Record that the API server has just answered."""
        self._in_step_s = monotonic_s(self._clock)

    def begin_list(self) -> None:
        """Start to collect a full list while readers still see the old one; an unfinished list is dropped."""
        self._staging = _Table(self._makers)

    def stage(self, document: Document) -> None:
        """Add one object to the list being collected."""
        staging = self._staged()
        key, version = key_of(document), version_of(document)
        value = self._project(document)
        if value is not None and version > staging.versions.get(key, -1):
            staging.put(key, value, version)

    async def finish_list(self, version: int) -> None:
        """Replace what readers see by the list in one step, then queue every difference for the subscribers."""
        staging, old = self._staged(), self._table
        # A list that is older than what the watch has shown: the cluster was restored from a backup.
        rewound = version < self._seen_version
        ahead = {} if rewound else {key: known for key, known in self._ahead.items() if known > version}
        for key, known in ahead.items():
            if key in old.values and known > staging.versions.get(key, 0):
                staging.put(key, old.values[key], old.versions[key])
        self._table, self._staging, self._ahead = staging, None, ahead
        self._seen_version = version
        self._synced.set()
        if self._subscribers:
            self._queueing += 1
            try:
                await self._queue_differences(old, staging)
            finally:
                self._queueing -= 1

    def _staged(self) -> _Table[T]:
        if self._staging is None:
            raise InvalidFieldError("list", "none begun", "a call of begin_list before")
        return self._staging

    def _set(self, key: ObjectKey, value: T | None, version: int) -> None:
        if version < self._table.versions.get(key, 0):
            return
        before = self._table.values.get(key)
        if value is None:
            self._table.drop(key)
        else:
            self._table.put(key, value, version)
        if before is not None or value is not None:
            for queue in self._subscribers:
                queue.add(key, before)

    def _advance(self, version: int) -> None:
        self._seen_version = max(self._seen_version, version)

    async def _queue_differences(self, old: _Table[T], new: _Table[T]) -> None:
        """Queue every difference, some thousands per turn of the event loop."""
        for number, key in enumerate(chain(tuple(new.versions), old.versions), 1):
            # Both tables may have changed since the list came. Those changes are queued already; twice is harmless.
            if old.versions.get(key) != new.versions.get(key):
                for queue in self._subscribers:
                    queue.add(key, old.values.get(key))
            if number % _KEYS_PER_TURN == 0:
                await self._clock.sleep(0)
