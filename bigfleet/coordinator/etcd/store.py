"""What the log does to the keys of one prefix: form, look, campaign, append, read entries, snapshots.

Why: which conditions each transaction carries is what keeps two leaders apart, so all of them stand in one place.
Must never: write without the condition that this process leads, but for forming, campaigning and its own replica key.
Rules: `coordinator#etcd-layout`, `coordinator#etcd-append`, `coordinator#etcd-snapshots`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from bigfleet.coordinator.etcd.calls import created_at, delete, get, has_value, put, txn
from bigfleet.coordinator.etcd.client import EtcdClient, WrongStoreError
from bigfleet.coordinator.etcd.layout import (
    NO_ENTRY,
    Head,
    Keys,
    StoredCluster,
    StoredReplica,
    StoredSnapshot,
    cluster_of,
    head_of,
)
from bigfleet.etcd.v3 import etcd_pb2 as pb
from bigfleet.model.errors import BigFleetError

CHUNK_BYTES: Final = 512 * 1024
"""Well below 1.5 MiB, the largest request that etcd takes by default."""
PAGE: Final = 16
"""Entries read at a time: at most 4 MiB."""
MOST_REPLICAS: Final = 64
WRITE_S: Final = 2.0


class LeadershipLostError(BigFleetError):
    """Another process leads, or nobody: a condition of the transaction did not hold."""


class SnapshotGoneError(BigFleetError):
    """The chunks of a snapshot are not all there: a newer one has replaced it."""


@dataclass(frozen=True, slots=True)
class StoredLeader:
    """The leader's key."""

    replica: StoredReplica
    created: int
    """The revision of the election."""
    lease: int


@dataclass(frozen=True, slots=True)
class View:
    """What the prefix held at one revision, by a linearizable read."""

    revision: int
    cluster: StoredCluster | None = None
    leader: StoredLeader | None = None
    head: Head = NO_ENTRY
    snapshot: StoredSnapshot | None = None
    replicas: tuple[StoredReplica, ...] = ()


class EtcdStore:
    """The keys of one prefix."""

    def __init__(self, client: EtcdClient, prefix: str) -> None:
        self.client, self.keys = client, Keys(prefix)

    async def look(self, *, within_s: float = 0.0) -> View:
        """Read everything but entries and chunks, at one revision."""
        keys = self.keys
        answer = await self.client.look(
            txn(
                [],
                [
                    *(get(key) for key in (keys.cluster, keys.leader, keys.head, keys.snapshot)),
                    get(keys.replicas, keys.replicas_end, limit=MOST_REPLICAS),
                ],
            ),
            within_s=within_s,
        )
        cluster, leader, head, snapshot, replicas = (
            response.response_range.kvs for response in answer.responses
        )
        return View(
            answer.header.revision,
            cluster_of(keys.cluster, cluster[0].value) if cluster else None,
            self._leader(leader),
            head_of(keys.head, head[0].value) if head else NO_ENTRY,
            StoredSnapshot.of(keys.snapshot, snapshot[0].value) if snapshot else None,
            tuple(StoredReplica.of(kv.key, kv.value) for kv in replicas),
        )

    async def form(self, cluster: StoredCluster) -> bool:
        """Create the cluster; False if there is one, or the keys of one."""
        keys = self.keys
        answer = await self.client.write(
            txn(
                [created_at(keys.cluster, 0), created_at(keys.head, 0)],
                [put(keys.cluster, cluster.text()), put(keys.head, NO_ENTRY.text())],
            )
        )
        return answer.succeeded

    async def announce(self, me: StoredReplica, lease: int) -> None:
        """Write the key of this replica."""
        await self.client.write(txn([], [put(self.keys.replica(me.id), me.text(), lease)]))

    async def campaign(self, me: StoredReplica, lease: int) -> None:
        """Become leader unless there is one; `look` says who won."""
        leader = self.keys.leader
        await self.client.write(txn([created_at(leader, 0)], [put(leader, me.text(), lease)]))

    async def resign(self, created: int) -> None:
        """Delete the leader's key if it is the one of this election."""
        leader = self.keys.leader
        await self.client.write(txn([created_at(leader, created)], [delete(leader)]))

    async def confirm(self, created: int) -> Head:
        """Return the head if this election still counts, by a linearizable read; raises `LeadershipLostError`."""
        keys = self.keys
        answer = await self.client.look(txn([], [get(keys.leader), get(keys.head)]))
        return self._led(answer.responses, created)

    async def append(self, created: int, before: Head, after: Head, batch: str) -> bool:
        """Append one batch behind `before`; False if an earlier attempt has done so. Raises `LeadershipLostError`."""
        keys = self.keys
        request = txn(
            [created_at(keys.leader, created), has_value(keys.head, before.text())],
            [put(keys.entry(after.index), batch.encode()), put(keys.head, after.text())],
            [get(keys.leader), get(keys.head)],
        )
        answer = await self.client.write(request, timeout_s=WRITE_S)
        if answer.succeeded:
            return True
        found = self._led(answer.responses, created)
        if found != after:
            raise WrongStoreError(
                f"{keys.head.decode()}: found {found.text().decode()}, allowed is {before.text().decode()}: "
                "something else than the leader has written to the prefix"
            )
        return False

    async def entries(self, first: int) -> list[tuple[int, str]]:
        """Return the next entries from an index on, in order; fewer at the end of the log."""
        keys = self.keys
        answer = await self.client.range(keys.entry(first), keys.log_end, limit=PAGE)
        return [(keys.index_of(kv.key), kv.value.decode()) for kv in answer.kvs]

    async def write_snapshot(self, created: int, head: Head, data: bytes, keep: int) -> StoredSnapshot:
        """Write a snapshot in chunks, let it count, then delete older ones and the entries before it but for `keep`."""
        keys = self.keys
        pieces = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        for number, piece in enumerate(pieces):
            await self._as_leader(created, [put(keys.chunk(head.index, number), piece)])
        snapshot = StoredSnapshot(head.index, head.epoch, len(pieces), len(data), sha256(data).hexdigest())
        await self._as_leader(
            created,
            [
                put(keys.snapshot, snapshot.text()),
                delete(keys.snapshots, keys.chunks(head.index)),
                delete(keys.log, keys.entry(max(0, head.index - keep))),
            ],
        )
        return snapshot

    async def read_snapshot(self, snapshot: StoredSnapshot) -> bytes:
        """Return the bytes of a snapshot; raises `SnapshotGoneError`."""
        pieces = []
        for number in range(snapshot.chunks):
            answer = await self.client.range(self.keys.chunk(snapshot.index, number))
            if not answer.kvs:
                raise SnapshotGoneError(
                    f"snapshot {snapshot.index}: chunk {number} of {snapshot.chunks} is gone"
                )
            pieces.append(answer.kvs[0].value)
        data = b"".join(pieces)
        if len(data) != snapshot.bytes or sha256(data).hexdigest() != snapshot.sha256:
            raise WrongStoreError(
                f"{self.keys.snapshot.decode()}: the checksum of its {len(data)} bytes does not match"
            )
        return data

    async def _as_leader(self, created: int, operations: Sequence[pb.RequestOp]) -> None:
        request = txn([created_at(self.keys.leader, created)], operations)
        if not (await self.client.write(request, timeout_s=WRITE_S)).succeeded:
            raise LeadershipLostError("another process leads")

    def _led(self, responses: Sequence[pb.ResponseOp], created: int) -> Head:
        leader, head = (response.response_range.kvs for response in responses)
        if not leader or leader[0].create_revision != created:
            raise LeadershipLostError("the key of this election is gone")
        if not head:
            raise WrongStoreError(f"{self.keys.head.decode()}: missing, allowed are two numbers")
        return head_of(self.keys.head, head[0].value)

    def _leader(self, kvs: Sequence[pb.KeyValue]) -> StoredLeader | None:
        if not kvs:
            return None
        replica = StoredReplica.of(self.keys.leader, kvs[0].value)
        return StoredLeader(replica, kvs[0].create_revision, kvs[0].lease)
