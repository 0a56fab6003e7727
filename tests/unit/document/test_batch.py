"""Batches: the n-th answer belongs to the n-th line (`engine#snapshot-batch`)."""

import json
from collections.abc import Iterator
from io import BytesIO

from bigfleet.document.batch import read_batch, write_refusal
from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import SnapshotDocument, write_situation
from bigfleet.model.situation import Situation


def line(now: float) -> bytes:
    return write_situation(Situation(now=now), compact=True)


def test_a_bad_line_costs_its_own_answer_and_no_other() -> None:
    file = BytesIO(line(1) + b"{}\n" + b"\n" + line(2) + b"\xff\n" + line(3).rstrip())
    outcomes = list(read_batch(file))
    assert [type(outcome) for outcome in outcomes] == [
        SnapshotDocument, DocumentError, DocumentError, SnapshotDocument, DocumentError, SnapshotDocument,
    ]  # fmt: skip
    assert [outcome.situation.now for outcome in outcomes if isinstance(outcome, SnapshotDocument)] == [
        1,
        2,
        3,
    ]


def test_a_refusal_is_one_line_with_the_path() -> None:
    (error,) = read_batch(['{"version": 1, "now": "ü\\n"}'])
    assert isinstance(error, DocumentError)
    written = write_refusal(error)
    assert written.count(b"\n") == 1
    assert json.loads(written) == {"error": str(error)}
    assert str(error).startswith("now: found ")


def test_lines_are_taken_one_at_a_time() -> None:
    taken = []

    def lines() -> Iterator[bytes]:
        for now in range(3):
            taken.append(now)
            yield line(now)

    outcomes = read_batch(lines())
    next(outcomes)
    assert taken == [0]


def test_an_empty_batch_has_no_answers() -> None:
    assert list(read_batch([])) == []
