"""The journal: synced before anything leaves, cut on conflict only, dead after the first error."""

import pytest

from bigfleet.aio.disk import DiskCause
from bigfleet.coordinator.log import DamagedDirectoryError, LogDiskError
from bigfleet.coordinator.raft.journal import GuardedJournal, write_journal
from bigfleet.coordinator.raft.metadata import RaftMetadata, read_metadata
from bigfleet.coordinator.raft.records import LogEntry, scan
from bigfleet.testing.disk.image import DiskFault, DiskImage
from bigfleet.testing.disk.virtual_disk import MemoryDisk, Operation

PATH = "/data/journal"


def entry(index: int, term: int = 1) -> LogEntry:
    return LogEntry(b"\x00" + str(index).encode(), index, term)


class World:
    def __init__(self, last: int = 0, commit: int = 1) -> None:
        self.image = DiskImage()
        self.operations: list[Operation] = []
        self.disk = MemoryDisk(self.image, self.operations.append)
        self.disk.mkdir("/data")
        self.disk.fsync_directory("/")
        self.journal = GuardedJournal(
            self.disk, PATH, [entry(index) for index in range(1, last + 1)], RaftMetadata(1, None, commit)
        )

    def on_disk(self) -> list[LogEntry]:
        seen = scan(self.disk.read(PATH))
        assert seen.problem == ""
        return seen.entries

    def kinds(self, since: int) -> list[str]:
        return [operation.kind for operation in self.operations[since:]]


def indexes(journal: GuardedJournal) -> list[tuple[int, int]]:
    return [(raw[1], raw[2]) for raw in journal[:]]


def test_entries_are_in_the_file_after_a_sync_and_read_back() -> None:
    world = World()
    for index in range(1, 6):
        world.journal.add(*entry(index).raw)
    world.journal.sync()
    assert world.on_disk() == [entry(index) for index in range(1, 6)]
    assert world.journal.last == entry(5)
    assert len(world.journal) == 5
    assert world.journal[1] == entry(2).raw


@pytest.mark.rule("coordinator#sync-before-send")
def test_a_data_sync_lies_between_writing_an_entry_and_the_end_of_sync() -> None:
    world = World(1)
    world.journal.sync()
    since = len(world.operations)
    world.journal.add(*entry(2).raw)
    world.journal.add(*entry(3).raw)
    assert world.kinds(since) == ["write", "write"]
    world.journal.sync()
    assert world.kinds(since) == ["write", "write", "fsync", "write"]  # the last one is the witness
    since = len(world.operations)
    world.journal.sync()
    assert world.kinds(since) == []


def test_the_commit_index_moves_only_over_synced_entries() -> None:
    world = World(1)
    world.journal.sync()
    world.journal.add(*entry(2).raw)
    since = len(world.operations)
    world.journal.setRaftCommitIndex(2)
    assert "fsync" in world.kinds(since)
    assert world.journal.getRaftCommitIndex() == 2


def test_term_and_vote_are_stored_at_once_and_the_commit_index_within_a_second() -> None:
    world = World(3)
    world.journal.setCurrentTerm(7, "coordinator-1")
    assert read_metadata(world.disk, f"{PATH}.meta") == RaftMetadata(7, "coordinator-1", 1)
    world.journal.setRaftCommitIndex(3)
    assert read_metadata(world.disk, f"{PATH}.meta").commit == 1
    world.journal.onOneSecondTimer()
    assert read_metadata(world.disk, f"{PATH}.meta") == RaftMetadata(7, "coordinator-1", 3)
    assert (world.journal.getCurrentTerm(), world.journal.getVotedForNodeId()) == (7, "coordinator-1")


@pytest.mark.rule("coordinator#cut-on-conflict")
def test_entries_sent_again_from_behind_cut_nothing() -> None:
    world = World(10)
    world.journal.deleteEntriesFrom(5)
    for index in (6, 7):
        world.journal.add(*entry(index).raw)
    assert indexes(world.journal) == [(index, 1) for index in range(1, 11)]
    world.journal.add(*entry(0).raw)  # before the first: nothing
    assert len(world.journal) == 10


def test_an_entry_of_another_term_cuts_there_durably_before_it_is_written() -> None:
    world = World(10, commit=5)
    world.journal.sync()
    since = len(world.operations)
    world.journal.add(*entry(8, term=2).raw)
    assert world.kinds(since) == ["truncate", "fsync", "write"]
    assert indexes(world.journal)[-2:] == [(7, 1), (8, 2)]
    world.journal.sync()
    assert world.on_disk()[-1] == entry(8, term=2)


def test_a_leader_that_contradicts_a_committed_entry_ends_the_process() -> None:
    world = World(10, commit=8)
    with pytest.raises(DamagedDirectoryError, match="entry 8 is committed with term 1"):
        world.journal.add(*entry(8, term=2).raw)
    with pytest.raises(DamagedDirectoryError):
        world.journal.sync()
    assert DamagedDirectoryError.exit_code == 71


def test_trimming_makes_names_durable_first_and_replaces_the_file_whole() -> None:
    world = World(10)
    world.journal.sync()
    since = len(world.operations)
    world.journal.deleteEntriesTo(8)
    assert world.kinds(since) == ["fsync directory"]
    world.journal.add(*entry(11).raw)
    world.journal.sync()
    assert [each.index for each in world.on_disk()] == [9, 10, 11]
    assert "rename" in world.kinds(since)


def test_clearing_reaches_the_disk_only_together_with_what_takes_its_place() -> None:
    world = World(10)
    world.journal.sync()
    world.journal.clear()
    assert len(world.on_disk()) == 10
    world.journal.add(*entry(40, 5).raw)
    world.journal.add(*entry(41, 5).raw)
    world.journal.sync()
    assert world.on_disk() == [entry(40, 5), entry(41, 5)]


@pytest.mark.rule("coordinator#fatal-errors")
@pytest.mark.parametrize(("operation", "cause"), [("fsync", DiskCause.IO), ("write", DiskCause.FULL)])
def test_after_a_failed_write_or_sync_nothing_goes_any_more(operation: str, cause: DiskCause) -> None:
    world = World(3)
    world.journal.sync()
    world.image.inject(DiskFault(operation, cause))

    def add_and_sync() -> None:
        world.journal.add(*entry(4).raw)
        world.journal.sync()

    with pytest.raises(LogDiskError, match=PATH):
        add_and_sync()
    for call in (world.journal.sync, lambda: world.journal.add(*entry(5).raw), world.journal.clear):
        with pytest.raises(LogDiskError):
            call()
    assert world.journal.failure is not None
    assert world.journal.failure.exit_code == 74
    world.journal._destroy()  # closes the file and writes nothing


@pytest.mark.rule("coordinator#disk-error")
def test_an_entry_that_did_not_fit_is_not_remembered() -> None:
    world = World(3)
    world.journal.sync()
    world.image.quota_bytes = 0
    with pytest.raises(LogDiskError):
        world.journal.add(*entry(4).raw)
    assert world.journal.last == entry(3)


def test_the_first_sync_of_a_life_makes_everything_found_durable() -> None:
    world = World()
    write_journal(world.disk, PATH, [entry(1), entry(2)])
    world.journal = GuardedJournal(world.disk, PATH, [entry(1), entry(2)], RaftMetadata())
    since = len(world.operations)
    world.journal.sync()
    assert "fsync" in world.kinds(since)
    assert world.on_disk() == [entry(1), entry(2)]


def test_ending_leaves_journal_and_metadata_as_a_restart_wants_them() -> None:
    world = World(3)
    world.journal.setRaftCommitIndex(3)
    world.journal._destroy()
    assert len(world.on_disk()) == 3
    assert read_metadata(world.disk, f"{PATH}.meta").commit == 3
