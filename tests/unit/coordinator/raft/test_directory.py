"""The data directory: whose it is, how it comes to be, and what a crash in the middle of each way leaves."""

from collections.abc import Callable

import pytest

from bigfleet.coordinator.log import DamagedDirectoryError, FatalLogError
from bigfleet.coordinator.raft.directory import (
    RESTORED_TERM_JUMP,
    DirectoryInUseError,
    NotEmptyError,
    ReplicaDirectory,
)
from bigfleet.coordinator.raft.identity import ReplicaIdentity, ReplicaMode, read_identity
from bigfleet.coordinator.raft.metadata import VOTE_SPENT, RaftMetadata
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, ProcessKilledError

PATH = "/data/coordinator"
TABLES = {"epoch": 4, "pairs": {"a": 1}}


def opened(image: DiskImage | None = None) -> ReplicaDirectory:
    return ReplicaDirectory(MemoryDisk(image), PATH)


def restore(directory: ReplicaDirectory, *, force: bool = False) -> ReplicaIdentity:
    return directory.restore(
        node_id="c-0", cluster_id="id", incarnation=2, tables=TABLES, index=77, term=9, force=force
    )


@pytest.mark.rule("coordinator#directory-lock", "coordinator#identity-file")
def test_a_second_process_is_refused_by_the_lock() -> None:
    with opened() as first, pytest.raises(DirectoryInUseError, match=PATH):
        ReplicaDirectory(MemoryDisk(first.disk.image), PATH)  # type: ignore[attr-defined]  # the disk in memory has one


@pytest.mark.rule("coordinator#directory-lock", "coordinator#identity-file")
def test_a_directory_of_another_node_is_refused() -> None:
    with opened() as directory:
        directory.mint("c-0", "id")
        assert directory.identity("c-0") is not None
        with pytest.raises(DamagedDirectoryError, match="belongs to c-0, this replica is c-1"):
            directory.identity("c-1")


def test_a_minted_directory_holds_the_initial_entry_and_one_voter() -> None:
    with opened() as directory:
        identity = directory.mint("c-0", "id")
        assert identity == ReplicaIdentity("c-0", "id", 1, ReplicaMode.SOLO, ("c-0",))
        assert directory.examine().is_empty
        assert directory.identity("c-0") == identity


def test_a_log_without_identity_is_refused() -> None:
    with opened() as directory:
        restore(directory)
        directory.disk.remove(directory.files.identity)
        with pytest.raises(DamagedDirectoryError, match=r"identity\.json: missing"):
            directory.examine()


@pytest.mark.parametrize("mode", [ReplicaMode.SOLO, ReplicaMode.FULL])
def test_a_voter_without_its_log_is_refused(mode: ReplicaMode) -> None:
    with opened() as directory:
        identity = directory.mint("c-0", "id")
        if mode is ReplicaMode.FULL:
            directory.expand(identity, ("c-0", "c-1", "c-2"))
        directory.disk.remove(directory.files.journal)
        directory.disk.remove(directory.files.metadata)
        with pytest.raises(DamagedDirectoryError, match="journal: missing"):
            directory.examine()


def test_a_promoted_learner_has_spent_its_vote_of_the_present_term() -> None:
    with opened() as directory:
        identity = directory.learn("c-1", "id")
        restore(directory, force=True)  # as if it had been learned
        promoted = directory.promote(identity, ("c-0", "c-1", "c-2"), 12 + RESTORED_TERM_JUMP)
        assert promoted.mode is ReplicaMode.FULL
        assert promoted.voters == ("c-0", "c-1", "c-2")
        assert directory.examine().metadata == RaftMetadata(12 + RESTORED_TERM_JUMP, VOTE_SPENT, 77)


@pytest.mark.rule("coordinator#restored-term", "coordinator#relearn-ownership")
def test_a_restored_directory_stands_at_the_snapshot_in_a_term_that_no_shard_has_seen() -> None:
    with opened() as directory:
        identity = restore(directory)
        found = directory.examine()
        assert identity == ReplicaIdentity("c-0", "id", 2, ReplicaMode.SOLO, ("c-0",))
        assert [entry.index for entry in found.entries] == [76, 77]
        assert found.metadata == RaftMetadata(9 + 1_048_576, None, 77)
        assert found.dump is not None
        assert found.dump.tables == TABLES


def test_restore_wants_force_for_a_directory_that_is_not_empty() -> None:
    with opened() as directory:
        directory.mint("c-0", "old")
        with pytest.raises(NotEmptyError):
            restore(directory)
        assert restore(directory, force=True).cluster_id == "id"
        with pytest.raises(FatalLogError, match="index: found 0"):
            directory.restore(
                node_id="c-0", cluster_id="id", incarnation=1, tables={}, index=0, term=1, force=True
            )


def test_a_damaged_identity_is_refused() -> None:
    with opened() as directory:
        directory.mint("c-0", "id")
        image = directory.disk.image  # type: ignore[attr-defined]  # the disk in memory has one
        image.flip_bit(directory.files.identity, 20)
        with pytest.raises(DamagedDirectoryError, match=r"identity\.json"):
            directory.identity("c-0")


WAYS: dict[str, Callable[[ReplicaDirectory], object]] = {
    "mint": lambda directory: directory.mint("c-0", "id"),
    "learn": lambda directory: directory.learn("c-0", "id"),
    "restore": lambda directory: restore(directory, force=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_kill_at_any_call_to_the_disk_leaves_a_directory_that_is_empty_done_or_refused(way: str) -> None:
    counted = opened()
    before = counted.disk.operations  # type: ignore[attr-defined]  # the disk in memory counts
    WAYS[way](counted)
    total = counted.disk.operations - before  # type: ignore[attr-defined]  # as above
    for number in range(1, total + 1):
        image = DiskImage()
        disk = MemoryDisk(image)
        directory = ReplicaDirectory(disk, PATH)
        disk.hook = KillAt(before + number, written=3)
        with pytest.raises(ProcessKilledError):
            WAYS[way](directory)
        with opened(image) as after:
            identity = read_identity(after.disk, after.files.identity)
            try:
                found = after.examine()
            except DamagedDirectoryError:
                assert way == "restore"
                continue
            assert identity is not None or found.is_empty
            WAYS[way](after)  # and it can be done again
