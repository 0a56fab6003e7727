"""What this process has applied of the log: pages of entries, a snapshot where they are trimmed, then a watch.

Must never: apply an entry twice or out of order, or pass over one that is missing.
Rules: `coordinator#etcd-following`, `coordinator#etcd-refusals`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.coordinator.core.batch import BATCH_VERSION, newer_version
from bigfleet.coordinator.etcd.calls import DELETED, WITHOUT_DELETIONS
from bigfleet.coordinator.etcd.client import WrongStoreError
from bigfleet.coordinator.etcd.layout import NO_ENTRY, Head, StoredSnapshot
from bigfleet.coordinator.etcd.snapshots import decode_tables
from bigfleet.coordinator.etcd.store import EtcdStore, View
from bigfleet.coordinator.log import StateMachine
from bigfleet.etcd.v3 import etcd_pb2 as pb
from bigfleet.model.errors import BigFleetError

_LOG_WATCH: Final = 1
_LEADER_WATCH: Final = 2


class LogFollower:
    """The tables of this process and how far they are."""

    def __init__(self, store: EtcdStore, state_machine: StateMachine, log: FilteringBoundLogger) -> None:
        self._store, self._state_machine, self._log = store, state_machine, log
        self.applied = NO_ENTRY
        self.entries_since_snapshot = 0
        self.bytes_since_snapshot = 0

    async def catch_up(self, view: View, look: Callable[[], Awaitable[View]]) -> None:
        """Apply everything up to the head of a view."""
        while self.applied.index < view.head.index:
            entries = await self._store.entries(self.applied.index + 1)
            if entries and entries[0][0] == self.applied.index + 1:
                for index, batch in entries:
                    self.apply_next(index, batch)
                continue
            view = await look()
            if view.snapshot is None or view.snapshot.index <= self.applied.index:
                raise WrongStoreError(
                    f"{self._store.keys.entry(self.applied.index + 1).decode()}: missing, and no snapshot covers it"
                )
            await self._load(view.snapshot)

    async def _load(self, snapshot: StoredSnapshot) -> None:
        data = await self._store.read_snapshot(snapshot)
        tables = await asyncio.to_thread(decode_tables, data)
        try:
            self._state_machine.load(tables)
        except BigFleetError as error:
            raise WrongStoreError(f"snapshot {snapshot.index}: its tables are refused: {error}") from error
        self.applied = Head(snapshot.index, snapshot.epoch)
        self.snapshot_begun()

    def apply_next(self, index: int, batch: str) -> str:
        """Apply the entry behind the last one and return its results."""
        if index != self.applied.index + 1:
            raise WrongStoreError(
                f"{self._store.keys.entry(index).decode()}: allowed is {self.applied.index + 1}"
            )
        if (version := newer_version(batch)) is not None:
            raise WrongStoreError(
                f"{self._store.keys.entry(index).decode()}: v: found {version}, allowed is {BATCH_VERSION}; "
                "start a newer BigFleet"
            )
        results = self._state_machine.apply(batch)
        self.applied = Head(index, self._state_machine.epoch)
        self.entries_since_snapshot += 1
        self.bytes_since_snapshot += len(batch)
        return results

    async def watch(self, revision: int) -> None:
        """Apply entries as they come; return when the leader's key is gone, or when the watch has to begin anew."""
        keys = self._store.keys
        creates = [
            pb.WatchCreateRequest(
                key=keys.log,
                range_end=keys.log_end,
                start_revision=revision,
                filters=[WITHOUT_DELETIONS],
                watch_id=_LOG_WATCH,
                fragment=True,
            ),
            pb.WatchCreateRequest(key=keys.leader, start_revision=revision, watch_id=_LEADER_WATCH),
        ]
        async with aclosing(self._store.client.watch(creates)) as responses:
            async for response in responses:
                if response.canceled:
                    why, compacted = response.cancel_reason, response.compact_revision
                    self._log.info("etcd_watch_ended", compacted=compacted, why=why)
                    return
                if not all(self._take(event) for event in response.events):
                    return

    def _take(self, event: pb.Event) -> bool:
        """Apply what a watch told; False if it has to begin anew."""
        if event.kv.key == self._store.keys.leader:
            return event.type != DELETED
        index = self._store.keys.index_of(event.kv.key)
        if index == self.applied.index + 1:
            self.apply_next(index, event.kv.value.decode())
        return index <= self.applied.index

    def snapshot_begun(self) -> None:
        """Count from here what a next snapshot would save a reader."""
        self.entries_since_snapshot = self.bytes_since_snapshot = 0
