"""Every violation is noticed by its behaviour, and by no other than those that the table lists."""

from collections.abc import Callable

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.provider.conformance.behaviour import Lane
from bigfleet.provider.conformance.catalogue import BEHAVIOURS
from bigfleet.provider.conformance.report import BehaviourStatus, ConformanceReport
from tests.support.conformance.implied import NOTICED_BY
from tests.support.conformance.table import VIOLATIONS
from tests.support.conformance.violation import Violation

Check = Callable[..., ConformanceReport]

IDS = [behaviour.id for behaviour in BEHAVIOURS]
# Which other behaviours are tried along is drawn by this number; all pairs are tried by the long test below.
SEED = 1
OTHERS = (0, 0, 1, 2)
LIES = """ack-early drop-list dup-list empty-list stale-list nan-price bad-probability bound-without-cluster forget-metadata
mangle-metadata alien-state revision-backwards delta-misses idle-bump accept-stale fence-per-shard fence-all fence-reads
fp-for-position new-id-each-time reuse-id early-configured drain-reverts stuck two-hosts host-early late-cluster
implicit-create leak-blob"""


def failed(check: Check, violation: Violation, *behaviour_ids: str) -> tuple[str, ...]:
    # One behaviour at a time on a fresh model: none may owe its result to what another left behind.
    return tuple(
        behaviour_id
        for behaviour_id in behaviour_ids
        if check(violation, only=(behaviour_id,)).result(behaviour_id).status is BehaviourStatus.FAILED
    )


@pytest.mark.rule("providers#self-check")
def test_each_of_the_120_behaviours_has_a_violation_of_its_own() -> None:
    broken = {violation.breaks for violation in VIOLATIONS}
    assert [behaviour.id for behaviour in BEHAVIOURS if behaviour.lane is not Lane.EXTRA] == [
        behaviour_id for behaviour_id in IDS[:120] if behaviour_id in broken
    ]


def test_every_violation_has_a_name_of_its_own_and_says_what_it_breaks() -> None:
    names = [violation.name for violation in VIOLATIONS]
    assert len(set(names)) == len(names)
    assert all(violation.meaning.endswith(".") for violation in VIOLATIONS)


def test_the_lies_of_the_fake_provider_are_part_of_the_zoo() -> None:
    assert set(LIES.split()) <= {violation.name for violation in VIOLATIONS}


def test_the_table_of_who_notices_has_a_row_for_every_violation() -> None:
    assert list(NOTICED_BY) == [violation.name for violation in VIOLATIONS]
    for violation in VIOLATIONS:
        assert violation.breaks in NOTICED_BY[violation.name]
        assert set(NOTICED_BY[violation.name]) <= set(IDS)


@pytest.mark.rule("providers#self-check")
@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda violation: violation.name)
def test_a_violation_is_noticed_by_its_behaviour_and_not_by_a_sample_of_the_others(
    violation: Violation, self_check: Check
) -> None:
    assert failed(self_check, violation, violation.breaks) == (violation.breaks,)
    innocent = [behaviour_id for behaviour_id in IDS if behaviour_id not in NOTICED_BY[violation.name]]
    lots = SeededRng(SEED).stream(violation.name)
    sample = lots.sample(innocent, lots.choice(OTHERS))
    assert failed(self_check, violation, *sample) == ()


@pytest.mark.rule("providers#self-check")
@pytest.mark.long
@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda violation: violation.name)
def test_a_violation_is_noticed_by_exactly_those_that_the_table_lists(
    violation: Violation, self_check: Check
) -> None:
    assert failed(self_check, violation, *IDS) == NOTICED_BY[violation.name]
