"""Rows of the API (`dashboard#compatible-routes`, ADR-0160)."""

import json

import pytest

from bigfleet.dashboard.json_text import write_answer
from bigfleet.dashboard.rows import LEAST_NEED_BYTES, fitting, need_row
from bigfleet.v1alpha1 import capacity_pb2 as capacity
from bigfleet.v1alpha1 import shardread_pb2 as read


def test_no_need_is_smaller_than_the_least_that_is_counted_on() -> None:
    need = capacity.CapacityNeed(
        interruption_penalty_bucket=capacity.PENALTY_BUCKET_ZERO,
        reclamation_penalty_bucket=capacity.PENALTY_BUCKET_ZERO,
    )
    bare = read.NeedView(need=need, satisfied=True, same_satisfiable=True, acquisition_parked=True)
    assert len(json.dumps(need_row(bare), separators=(",", ":"))) >= LEAST_NEED_BYTES


def test_rows_are_cut_where_the_next_would_not_fit() -> None:
    rows = [{"name": "x" * 10}, {"name": "é"}, {"name": "z"}]
    sizes = [len(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()) + 1 for row in rows]
    assert json.loads(fitting(rows, sum(sizes[:2]))) == rows[:2]
    assert json.loads(fitting(rows, sum(sizes[:2]) - 1)) == rows[:1]
    assert json.loads(fitting(rows, 0)) == []


def test_an_answer_contains_encoded_json_unchanged() -> None:
    rows = [{"name": "é"}, {"name": '"'}]
    answer = {"cycle": 7, "needs": fitting(rows, 100), "shardId": 's"'}
    assert json.loads(write_answer(answer)) == {"cycle": 7, "needs": rows, "shardId": 's"'}


def test_a_number_that_json_does_not_know_is_not_written() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        write_answer({"price": float("nan")})


def test_a_value_of_a_newer_shard_is_unspecified() -> None:
    view = read.NeedView.FromString(
        read.NeedView(unmet_reason=read.UnmetReason.ValueType(99)).SerializeToString()
    )
    assert need_row(view)["unmetReason"] == "UNSPECIFIED"
