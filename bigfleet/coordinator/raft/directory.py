"""The data directory of one replica: its files, its lock, and every operation that writes them.

Must never: be used without its lock, wipe what it cannot read, or write the identity before the rest is durable.
Rules: `coordinator#identity-file`, `coordinator#startup-decision`, `coordinator#learner`, `coordinator#expand`,
`coordinator#restore`, `coordinator#relearn`, `coordinator#durability`.
"""

import posixpath
from dataclasses import dataclass, replace
from typing import Self

from bigfleet.aio.disk import Disk, DiskCause, DiskError, Lock, ensure_directory
from bigfleet.coordinator.log import DamagedDirectoryError, FatalLogError, LogDiskError, Tables
from bigfleet.coordinator.raft.dump import Dump, write_dump
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode, read_identity, write_identity
from bigfleet.coordinator.raft.journal import metadata_path, write_journal
from bigfleet.coordinator.raft.metadata import VOTE_SPENT, RaftMetadata, write_metadata
from bigfleet.coordinator.raft.preflight import DirectoryContents, examine
from bigfleet.coordinator.raft.records import LogEntry

# No election of the snapshot's cluster can have come this far, so shards treat the restored term as newer
# (`coordinator#restore`, `coordinator#relearn`).
RESTORED_TERM_JUMP = 1_048_576
NO_OP = b"\x01"  # an entry that changes nothing


class DirectoryInUseError(FatalLogError):
    """Another process holds the lock of this directory."""


class NotEmptyError(FatalLogError):
    """A restore would overwrite what is in the directory."""


@dataclass(frozen=True, slots=True)
class DirectoryFiles:
    """The paths of a data directory."""

    directory: str

    @property
    def journal(self) -> str:
        return posixpath.join(self.directory, "journal")

    @property
    def metadata(self) -> str:
        return metadata_path(self.journal)

    @property
    def dump(self) -> str:
        return posixpath.join(self.directory, "dump")

    @property
    def identity(self) -> str:
        return posixpath.join(self.directory, "identity.json")

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Files that an interrupted write or transfer may leave; never read."""
        return (f"{self.dump}.tmp", f"{self.dump}.1.tmp", f"{self.journal}.new")


class ReplicaDirectory:
    """A locked data directory; close it to release the lock."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Create the directory if it is absent, and lock it; raises DirectoryInUseError."""
        self.disk, self.files = disk, DirectoryFiles(path)
        try:
            ensure_directory(disk, path)
            self._lock: Lock = disk.lock(path)
        except DiskError as error:
            if error.cause is DiskCause.LOCKED:
                raise DirectoryInUseError(f"{path}: another process uses this directory") from error
            # Nothing was written yet: an ordinary failure to start (`packaging#exit-codes`).
            raise FatalLogError(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def identity(self, node_id: str = "") -> ReplicaIdentity | None:
        """Return the identity; raises DamagedDirectoryError if it is not that of `node_id`."""
        identity = read_identity(self.disk, self.files.identity)
        if identity is not None and node_id and identity.node_id != node_id:
            raise DamagedDirectoryError(
                self.files.identity,
                f"this directory belongs to {identity.node_id}, this replica is {node_id}",
            )
        return identity

    def examine(self) -> DirectoryContents:
        """Return what a replica may start from; raises DamagedDirectoryError."""
        found = examine(self.disk, self.files.journal, self.files.dump)
        identity = read_identity(self.disk, self.files.identity)
        if identity is None and not found.is_empty:
            raise DamagedDirectoryError(
                self.files.identity,
                "missing, although there is a log: it was removed, or a restore was cut off",
            )
        if identity is not None and identity.mode is not ReplicaMode.LEARNER and not found.entries:
            raise DamagedDirectoryError(
                self.files.journal, f"missing, although this replica is {identity.mode}"
            )
        return found

    def clear_leftovers(self) -> None:
        """Remove what interrupted writes left, as a full disk needs the space."""
        for path in self.files.leftovers:
            if self.disk.exists(path):
                self.disk.remove(path)

    def mint(self, node_id: str, cluster_id: str) -> ReplicaIdentity:
        """Form a cluster of one voter: the log first, then the identity."""
        write_journal(self.disk, self.files.journal, [LogEntry(NO_OP, 1, 0)])
        write_metadata(self.disk, self.files.metadata, RaftMetadata())
        return self._write_identity(ReplicaIdentity(node_id, cluster_id, 1, ReplicaMode.SOLO, (node_id,)))

    def learn(self, node_id: str, cluster_id: str) -> ReplicaIdentity:
        """Become a learner of one cluster."""
        return self._write_identity(ReplicaIdentity(node_id, cluster_id, 0, ReplicaMode.LEARNER, ()))

    def promote(self, identity: ReplicaIdentity, voters: tuple[str, ...], term: int) -> ReplicaIdentity:
        """Make a learner a voter that does not vote in the present term.

        The same replica may have voted in this term before it lost its disk.
        """
        found = self.examine()
        spent = replace(found.metadata, term=max(term, found.metadata.term), vote=VOTE_SPENT)
        write_metadata(self.disk, self.files.metadata, spent)
        return self._write_identity(replace(identity, mode=ReplicaMode.FULL, voters=voters))

    def expand(self, identity: ReplicaIdentity, voters: tuple[str, ...]) -> ReplicaIdentity:
        """Make the sole voter one of several; from now on it needs a majority."""
        return self._write_identity(replace(identity, mode=ReplicaMode.FULL, voters=voters))

    def restore(
        self,
        *,
        node_id: str,
        cluster_id: str,
        incarnation: int,
        tables: Tables,
        index: int,
        term: int,
        force: bool,
    ) -> ReplicaIdentity:
        """Replace everything by a single voter at a snapshot; raises NotEmptyError without `force`.

        A crash half way leaves a log without identity, from which no replica starts.
        """
        if index < 1:
            raise FatalLogError(f"index: found {index}, allowed is 1 or more")
        if not force and self.disk.list_names(self.files.directory):
            raise NotEmptyError(f"{self.files.directory}: the directory is not empty")
        self._remove(self.files.identity)
        for path in (self.files.journal, self.files.metadata, self.files.dump, *self.files.leftovers):
            self._remove(path)
        entries = [LogEntry(NO_OP, index - 1, term), LogEntry(NO_OP, index, term)]
        write_dump(self.disk, f"{self.files.dump}.tmp", Dump(entries[1], entries[0], (node_id,), tables))
        self.disk.rename(f"{self.files.dump}.tmp", self.files.dump)
        write_metadata(self.disk, self.files.metadata, RaftMetadata(term + RESTORED_TERM_JUMP, None, index))
        write_journal(self.disk, self.files.journal, entries)
        return self._write_identity(
            ReplicaIdentity(node_id, cluster_id, incarnation, ReplicaMode.SOLO, (node_id,))
        )

    def _write_identity(self, identity: ReplicaIdentity) -> ReplicaIdentity:
        try:
            write_identity(self.disk, self.files.identity, identity)
        except DiskError as error:
            raise LogDiskError(str(error)) from error
        return identity

    def _remove(self, path: str) -> None:
        if self.disk.exists(path):
            self.disk.remove(path)
            self.disk.fsync_directory(self.files.directory)
