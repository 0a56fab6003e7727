"""Rows of the API (`dashboard#compatible-routes`, ADR-0160)."""

import json

import pytest

from bigfleet.dashboard.core.need_list import NeedList
from bigfleet.dashboard.json_text import write_answer
from bigfleet.dashboard.pages.frame import Frame
from bigfleet.dashboard.pages.needs import needs
from bigfleet.dashboard.rows import LEAST_NEED_BYTES, exported_need, fitting, need_row
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


@pytest.mark.rule("dashboard#need-parts")
def test_a_need_of_an_older_shard_has_unknown_parts_and_not_zero() -> None:
    row = need_row(read.NeedView(cluster_id="web", satisfied=True, claimed_machine_count=4))
    assert row["coverage"] is None
    assert exported_need(row)["running"] is None
    chosen = {"shard": "s0", "cluster": "", "status": "", "reason": "", "q": "", "page": ""}
    listed = NeedList(cycle=1, computed_at_ns=1, needs=1, total=1, short=0, before_first_short=1, rows=[row])
    text = str(needs(Frame(), ["s0"], ["web"], listed, chosen=chosen))
    assert [text.count(words) for words in ("4 decided", ">unknown<", "● covered")] == [1, 3, 1]
