"""Restore and extract: work on the data directory of a replica that does not run.

Why: both must work without any running coordinator (`coordinator#disaster-cases`).
Must never: touch a locked directory, create a directory in order to read it, or run code from a log: unpickling refuses every
class and function.
Rules: `coordinator#restore`, `coordinator#relearn`, `coordinator#disaster-cases`.
"""

import io
import pickle
from os import fspath
from typing import Any, Final, NoReturn

from bigfleet.aio.disk import AnyPath, Disk, DiskCause, DiskError
from bigfleet.aio.given_files import ARCHIVE_BYTES, read_given
from bigfleet.aio.ids import Ids
from bigfleet.coordinator.archive import (
    META_NAME,
    STATE_NAME,
    Archive,
    CorruptArchiveError,
    join_archive,
    make_archive,
    tables_of,
    unpack,
)
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.log import DamagedDirectoryError, Snapshot
from bigfleet.coordinator.raft.directory import ReplicaDirectory
from bigfleet.coordinator.raft.identity import ReplicaIdentity, new_cluster_id

_REGULAR: Final = 0  # the library's prefix of an entry that calls the replicated method


def read_archive(disk: Disk, path: AnyPath) -> Archive:
    """Read an archive from a tar file or an exported directory; raises `CorruptArchiveError`, which names the path."""
    place = fspath(path)
    try:
        if disk.stat(place).is_directory:
            meta = read_given(disk, f"{place}/{META_NAME}")
            return join_archive(meta, read_given(disk, f"{place}/{STATE_NAME}", ARCHIVE_BYTES))
        return unpack(read_given(disk, place, ARCHIVE_BYTES))
    except CorruptArchiveError as error:
        raise CorruptArchiveError(f"{place}: {error}") from error


def restore(
    disk: Disk, archive: Archive, data_dir: AnyPath, *, node_id: str, ids: Ids, force: bool
) -> ReplicaIdentity:
    """Write a data directory that starts as a single voter at the archive's snapshot."""
    tables = tables_of(archive, cluster_id=new_cluster_id(ids))
    with ReplicaDirectory(disk, fspath(data_dir)) as directory:
        return directory.restore(
            node_id=node_id,
            cluster_id=tables["cluster_id"],
            incarnation=tables["incarnation"],
            tables=tables,
            index=archive.meta.index,
            term=archive.meta.term,
            force=force,
        )


def extract(disk: Disk, data_dir: AnyPath, now_ns: int) -> Archive:
    """Return an archive of everything a stopped replica holds.

    It includes the last entries, which may not be committed: a lost majority may have acknowledged them, and one write too many
    does less harm than a lost one.
    """
    place = fspath(data_dir)
    if not disk.exists(place):
        raise DiskError("open", place, DiskCause.MISSING)
    with ReplicaDirectory(disk, place) as directory:
        identity = directory.identity()
        found = directory.examine()
        if identity is None or not found.entries:
            raise DamagedDirectoryError(place, "the directory holds no log of a replica")
        state_machine = CoordinatorStateMachine()
        start = 0
        if found.dump is not None:
            state_machine.load(found.dump.tables)
            start = found.dump.last.index
        for entry in found.entries:
            if entry.index > start:
                _replay(state_machine, entry.command)
        last = found.entries[-1]
    tables = {
        **state_machine.dump(),
        "cluster_id": identity.cluster_id,
        "incarnation": max(1, identity.incarnation),
    }
    return make_archive(Snapshot(tables, last.index, last.term), identity.voters, now_ns)


class _NothingNamed(pickle.Unpickler):
    """Reads texts, numbers and tuples; refuses every class and function."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"an entry names {module}.{name}")


def _replay(state_machine: CoordinatorStateMachine, command: bytes) -> None:
    if not command or command[0] != _REGULAR:
        return  # an entry that only marks a term
    try:
        called: Any = _NothingNamed(io.BytesIO(command[1:])).load()
        batch = called[1][0]
    except (pickle.UnpicklingError, ValueError, EOFError, IndexError, TypeError, AttributeError) as error:
        raise DamagedDirectoryError("journal", f"an entry cannot be read: {error}") from error
    state_machine.apply(batch)
