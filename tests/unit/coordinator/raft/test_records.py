"""Records of the journal: what a crash may leave is cut, what a later record vouches for is refused."""

import struct

import pytest

from bigfleet.coordinator.raft.records import MAGIC, LogEntry, pack, scan, witness
from tests.support.coordinator.journal_offsets import offsets


def entry(index: int, term: int = 1, command: bytes = b"\x00command") -> LogEntry:
    return LogEntry(command + str(index).encode(), index, term)


def journal(*groups: list[LogEntry]) -> bytes:
    """Return a journal whose groups were each synced before the next was written, with the last witness."""
    data, synced = MAGIC, 0
    for group in groups:
        for each in group:
            data += pack(each, synced)
        synced = len(data)
    return data + witness(synced)


FIRST, SECOND, THIRD = [entry(1), entry(2)], [entry(3)], [entry(4), entry(5)]
WHOLE = journal(FIRST, SECOND, THIRD)


def test_what_was_written_is_read() -> None:
    seen = scan(WHOLE)
    assert seen.entries == FIRST + SECOND + THIRD
    assert seen.problem == ""


@pytest.mark.parametrize("length", range(len(MAGIC), len(WHOLE)))
def test_a_file_cut_anywhere_gives_the_entries_before_the_cut(length: int) -> None:
    seen = scan(WHOLE[:length])
    assert seen.problem == ""
    whole = [place for place in offsets(WHOLE) if place < length]
    assert len(seen.entries) in (len(whole), len(whole) - 1)


@pytest.mark.rule("coordinator#preflight")
@pytest.mark.parametrize("offset", range(len(WHOLE)))
def test_any_flipped_bit_is_refused_or_costs_no_synced_entry(offset: int) -> None:
    for bit in range(8):
        damaged = bytearray(WHOLE)
        damaged[offset] ^= 1 << bit
        seen = scan(bytes(damaged))
        # Only damage of the witness itself, which holds no entry, may pass.
        assert seen.problem or seen.entries == FIRST + SECOND + THIRD, f"bit {bit} at {offset}"


@pytest.mark.rule("coordinator#torn-tail")
def test_a_hole_in_the_unsynced_tail_is_cut() -> None:
    synced = MAGIC + pack(entry(1), 0)
    lost, kept = pack(entry(2), len(synced)), pack(entry(3), len(synced))
    seen = scan(synced + bytes(len(lost)) + kept)
    assert seen.problem == ""
    assert seen.entries == [entry(1)]


@pytest.mark.rule("coordinator#torn-tail")
def test_a_hole_that_a_later_record_vouches_for_is_refused() -> None:
    synced = MAGIC + pack(entry(1), 0)
    lost = pack(entry(2), len(synced))
    after = pack(entry(3), len(synced) + len(lost))
    assert f"offset {len(synced)}" in scan(synced + bytes(len(lost)) + after).problem


def test_an_old_witness_between_records_is_no_entry() -> None:
    data = MAGIC + pack(entry(1), 0)
    data += witness(len(data))
    assert scan(data + pack(entry(2), 0)).entries == [entry(1), entry(2)]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        pytest.param([entry(1), entry(3)], "entry 3 follows entry 1", id="a gap"),
        pytest.param([entry(1), entry(1)], "entry 1 follows entry 1", id="twice"),
        pytest.param([entry(1, 2), entry(2, 1)], "term 1 follows one of term 2", id="terms fall"),
    ],
)
def test_whole_records_that_no_log_can_hold_are_refused(entries: list[LogEntry], problem: str) -> None:
    assert problem in scan(journal(entries)).problem


def test_a_foreign_file_and_a_garbage_length_are_refused() -> None:
    assert scan(b"BFJ0" + WHOLE[4:]).problem
    assert scan(b"").problem
    damaged = bytearray(WHOLE)
    damaged[offsets(WHOLE)[1] : offsets(WHOLE)[1] + 4] = struct.pack("<I", 0xFFFFFFFF)
    assert "bad bytes" in scan(bytes(damaged)).problem
