"""Cursors and deltas (`providers#revision`)."""

import numpy as np
import pytest

from bigfleet.provider.kit.core.change_log import ChangeLog, read_cursor


@pytest.mark.parametrize(
    ("cursor", "read"),
    [
        (b"0", 0),
        (b"7", 7),
        (b"12", 12),
        (b"13", None),  # beyond the head: of a state that was lost
        (b"", None),
        (b"+7", None),
        (b"-7", None),
        (b" 7", None),
        (b"7 ", None),
        (b"7\n", None),
        (b"1_0", None),
        (b"07", None),
        (b"7!", None),
        (b"~7", None),
        ("٧".encode(), None),
        (b"\xff\xfe", None),
        (b"9" * 20, None),
        (b"\xde" * 4096, None),
    ],
)
def test_only_the_digits_we_would_write_are_a_cursor(cursor: bytes, read: int | None) -> None:
    assert read_cursor(cursor, head=12) == read


def test_a_machine_that_changed_often_appears_once_as_it_is_now() -> None:
    log, changed_at = ChangeLog(), np.zeros(4, dtype=np.int64)
    for revision, row in enumerate([2, 0, 2, 1, 2], start=1):
        log.add(revision, row)
        changed_at[row] = revision
    assert log.since(0, changed_at).tolist() == [0, 1, 2]
    assert log.since(3, changed_at).tolist() == [1, 2]
    assert log.since(5, changed_at).tolist() == []


def test_a_long_log_is_compacted_to_one_entry_per_machine_and_old_cursors_stay_valid() -> None:
    log, changed_at = ChangeLog(), np.zeros(3, dtype=np.int64)
    for revision in range(1, 5001):
        row = revision % 3
        log.add(revision, row)
        changed_at[row] = revision
    before = {cursor: log.since(cursor, changed_at).tolist() for cursor in (0, 1, 2500, 4998, 5000)}
    log.compact(3, changed_at)
    assert len(log) == 3
    assert {cursor: log.since(cursor, changed_at).tolist() for cursor in before} == before


def test_a_short_log_is_left_alone() -> None:
    log, changed_at = ChangeLog(), np.zeros(3, dtype=np.int64)
    log.add(1, 0)
    log.compact(0, changed_at)
    assert len(log) == 1
