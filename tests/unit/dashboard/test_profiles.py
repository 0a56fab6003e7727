"""Profiles in words (`dashboard#page-contents`, `dashboard#look`)."""

from bigfleet.dashboard.pages.profiles import profile_text
from bigfleet.dashboard.rows import need_row
from bigfleet.v1alpha1 import capacity_pb2 as pb
from bigfleet.v1alpha1.shardread_pb2 import NeedView

R = pb.NodeSelectorRequirement


def words(**given: object) -> str:
    return profile_text(need_row(NeedView(need=pb.CapacityNeed(**given))))  # type: ignore[arg-type]


def test_a_profile_that_asks_for_nothing_takes_any_machine() -> None:
    assert words(priority=5000) == "Priority 5,000 · any machine"


def test_every_kind_of_requirement_has_words() -> None:
    asked = [
        R(key="zone", operator=R.OPERATOR_IN, values=["a", "b"]),
        R(key="type", operator=R.OPERATOR_NOT_IN, values=["m5"]),
        R(key="gpu", operator=R.OPERATOR_EXISTS),
        R(key="old", operator=R.OPERATOR_DOES_NOT_EXIST),
        R(key="rack", operator=R.OPERATOR_SAME),
    ]
    assert words(requirements=asked) == (
        "Priority 0 · zone is a or b; type is not m5; has gpu; has no old; all in one rack"
    )
    assert "key, which is not understood" in words(requirements=[R(key="key")])


def test_spreads_and_penalties_have_words() -> None:
    strict = pb.TopologySpread(
        topology_key="zone",
        max_skew=1,
        when_unsatisfiable=pb.TopologySpread.WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE,
    )
    loose = pb.TopologySpread(topology_key="host", max_skew=2)
    assert words(spread=[strict, loose]) == (
        "Priority 0 · spread over zone, at most 1 apart; spread over host, at most 2 apart, if possible"
    )
    assert (
        words(
            interruption_penalty_bucket=pb.PENALTY_BUCKET_8192,
            reclamation_penalty_bucket=pb.PENALTY_BUCKET_PINNED,
        )
        == "Priority 0 · any machine · $8,192 if interrupted · must not be reclaimed"
    )
    assert "$0.50 if interrupted" in words(interruption_penalty_bucket=pb.PENALTY_BUCKET_HALF_DOLLAR)
