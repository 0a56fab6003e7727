"""Laws of profiles: the canonical form and its text (`engine#fingerprint`, ADR-0089)."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from bigfleet.model.buckets import ALL_BUCKETS
from bigfleet.model.profile import Profile, Requirement, RequirementOperator, Spread, WhenUnsatisfiable

# Few letters, among them all that the fingerprint itself uses, so that accidents happen.
TRICKY = st.text(alphabet="ab%,;:|=1", max_size=3)
REQUIREMENTS = st.builds(
    Requirement, TRICKY, st.sampled_from(RequirementOperator), st.lists(TRICKY, max_size=3).map(tuple)
)
SPREADS = st.builds(Spread, TRICKY, st.integers(-1, 3), st.sampled_from(WhenUnsatisfiable))
PROFILES = st.builds(
    Profile,
    requirements=st.lists(REQUIREMENTS, max_size=3).map(tuple),
    spreads=st.lists(SPREADS, max_size=2).map(tuple),
    priority=st.integers(-(2**31), 2**31 - 1),
    interruption_bucket=st.sampled_from(ALL_BUCKETS),
    reclamation_bucket=st.sampled_from(ALL_BUCKETS),
)


def with_values(*values: str) -> Profile:
    return Profile(requirements=(Requirement("k", RequirementOperator.IN, values),))


@given(PROFILES, PROFILES)
@example(with_values("a,b"), with_values("a", "b"))
@example(with_values(""), with_values())
@example(with_values("%"), with_values(""))
@example(with_values("a;b:1:"), with_values("a"))
def test_fingerprints_are_equal_exactly_when_canonical_profiles_are(one: Profile, other: Profile) -> None:
    assert (one.fingerprint == other.fingerprint) == (one == other)


@given(PROFILES, st.randoms(use_true_random=False))
def test_the_order_in_which_parts_are_given_never_matters(profile: Profile, rng: object) -> None:
    shuffle = rng.shuffle  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    requirements, spreads = list(profile.requirements), list(profile.spreads)
    shuffle(requirements)
    shuffle(spreads)
    shuffled = Profile(
        tuple(Requirement(item.key, item.operator, tuple(reversed(item.values))) for item in requirements),
        tuple(spreads),
        profile.priority,
        profile.interruption_bucket,
        profile.reclamation_bucket,
    )
    assert shuffled == profile
    assert shuffled.fingerprint == profile.fingerprint


LEGAL = st.from_regex(r"[a-z0-9]([-a-z0-9_./]{0,6}[a-z0-9])?", fullmatch=True)


@given(
    st.lists(
        st.builds(
            Requirement, LEGAL, st.sampled_from(RequirementOperator), st.lists(LEGAL, max_size=3).map(tuple)
        ),
        max_size=3,
    )
)
def test_labels_that_kubernetes_accepts_are_written_as_the_original_writes_them(
    items: list[Requirement],
) -> None:
    profile = Profile(requirements=tuple(items), priority=7)
    plain = "".join(
        f"{item.key}:{int(item.operator)}:{','.join(item.values)};" for item in profile.requirements
    )
    assert profile.fingerprint == f"p=7|ipb=1|rpb=1|reqs={plain}|spr="


def test_the_example_of_the_contract() -> None:
    profile = Profile(
        requirements=(Requirement("node.kubernetes.io/instance-type", RequirementOperator.IN, ("m5",)),),
        spreads=(Spread("zone", 2, WhenUnsatisfiable.SCHEDULE_ANYWAY),),
        priority=100,
        interruption_bucket=ALL_BUCKETS[13],
        reclamation_bucket=ALL_BUCKETS[3],
    )
    assert (
        profile.fingerprint == "p=100|ipb=13|rpb=3|reqs=node.kubernetes.io/instance-type:1:m5;|spr=zone:2:2;"
    )


@given(PROFILES)
def test_stripping_same_leaves_everything_else(profile: Profile) -> None:
    stripped = profile.without_same
    assert stripped.same_key is None
    assert [item for item in profile.requirements if item.operator is not RequirementOperator.SAME] == [
        *stripped.requirements
    ]
    assert re.sub(r"reqs=.*\|spr", "", stripped.fingerprint) == re.sub(
        r"reqs=.*\|spr", "", profile.fingerprint
    )
