"""Marks per shard and machine (`providers#fence-mark`, ADR-0058)."""

import pytest

from bigfleet.provider.contract import INT64_MAX
from bigfleet.provider.kit.core.changes import FenceMark
from bigfleet.provider.kit.core.fence import Fence, FencingToken


def marked(*marks: tuple[str, str, int, int], rows: dict[str, int]) -> Fence:
    fence = Fence()
    for mark in marks:
        fence.set(FenceMark(*mark), rows.get(mark[1]))
    return fence


def test_a_mark_moves_only_forward_and_a_new_epoch_accepts_any_sequence() -> None:
    # The sequence of B303.
    fence, mark = Fence(), FencingToken("s", 2, 5)
    fence.set(FenceMark("s", "m", *mark.position), 0)
    tried = "2/5 2/4 1/9 1/99999 2/6 2/6 2/5 3/0 3/0 2/999999 3/1 4/0 4/0 10/7 10/7 9/999"
    seen = []
    for text in tried.split():
        epoch, sequence = map(int, text.split("/"))
        token = FencingToken("s", epoch, sequence)
        passes = fence.passes(token, "m", 0)
        seen.append(passes)
        if passes:
            fence.set(FenceMark("s", "m", epoch, sequence), 0)
    assert "".join(".X"[passed] for passed in seen) == "....X..X..XX.X.."


@pytest.mark.parametrize("row", [0, None], ids=["known machine", "unknown machine"])
def test_there_is_no_wrap_around(row: int | None) -> None:
    fence = Fence()
    fence.set(FenceMark("s", "m", INT64_MAX, INT64_MAX), row)
    assert not fence.passes(FencingToken("s", INT64_MAX, INT64_MAX), "m", row)
    assert not fence.passes(FencingToken("s", INT64_MAX - 1, INT64_MAX), "m", row)
    assert not fence.passes(FencingToken("s", 0, 0), "m", row)


def test_machines_and_shards_do_not_fence_each_other() -> None:
    rows = {"a": 0, "b": 1}
    fence = marked(("s", "a", 1, 30), ("s", "b", 1, 7), ("t", "a", 9, 9), rows=rows)
    assert fence.mark("s", "a", 0) == (1, 30)
    assert fence.mark("s", "b", 1) == (1, 7)
    assert fence.mark("t", "a", 0) == (9, 9)
    assert fence.mark("t", "b", 1) is None
    assert fence.passes(FencingToken("s", 1, 8), "b", 1)
    assert not fence.passes(FencingToken("t", 9, 8), "a", 0)


def test_a_mark_read_back_twice_or_late_changes_nothing() -> None:
    fence = marked(("s", "a", 3, 1), ("s", "a", 2, 9), ("s", "a", 3, 1), rows={"a": 0})
    assert fence.mark("s", "a", 0) == (3, 1)


def test_a_machine_met_before_it_was_known_keeps_its_mark() -> None:
    fence = marked(("s", "a", 5, 5), rows={})
    assert not fence.passes(FencingToken("s", 1, 1), "a", 0)
    fence.set(FenceMark("s", "a", 6, 0), 0)
    assert fence.mark("s", "a", 0) == (6, 0)


def test_a_machine_that_is_forgotten_keeps_its_mark_and_the_next_one_of_its_row_starts_without() -> None:
    fence = marked(("s", "a", 5, 5), ("t", "a", 2, 2), rows={"a": 0})
    fence.forget_row(0, "a")
    assert not fence.passes(FencingToken("s", 5, 5), "a", None)
    assert not fence.passes(FencingToken("t", 2, 2), "a", None)
    assert fence.passes(FencingToken("s", 0, 1), "b", 0)


def test_of_unknown_machines_only_the_newest_marks_are_kept() -> None:
    fence = Fence(unknown_kept=3)
    for number in range(5):
        fence.set(FenceMark("s", f"ghost-{number}", 1, 1), None)
        fence.set(FenceMark("s", "ghost-1", 1, number + 2), None)  # rewritten, so it stays young
    assert len(fence) == 3
    kept = [name for name in range(5) if not fence.passes(FencingToken("s", 1, 1), f"ghost-{name}", None)]
    assert kept == [1, 3, 4]


def test_marks_of_further_shards_are_bounded_and_the_first_shard_is_never_dropped() -> None:
    fence = Fence(further_kept=2)
    for number in range(10):
        fence.set(FenceMark(f"s-{number}", "a", 1, 1), 0)
    assert len(fence) == 3
    assert not fence.passes(FencingToken("s-0", 1, 1), "a", 0)
    assert fence.passes(FencingToken("s-1", 1, 1), "a", 0)
    assert not fence.passes(FencingToken("s-9", 1, 1), "a", 0)


def test_all_marks_can_be_written_down_and_read_back() -> None:
    rows = {"a": 0, "b": 5000}
    fence = marked(("s", "a", 1, 2), ("t", "a", 3, 4), ("s", "b", 5, 6), ("s", "ghost", 7, 8), rows=rows)
    written = list(fence.marks(rows.items()))
    again = Fence()
    for mark in written:
        again.set(mark, rows.get(mark.machine_id))
    assert len(written) == len(again) == 4
    for mark in written:
        assert again.mark(mark.shard_id, mark.machine_id, rows.get(mark.machine_id)) == (
            mark.epoch,
            mark.sequence,
        )
