"""Archetypes: replicas in the mean, pods per machine, and what an operator would send for their pods."""

from dataclasses import replace
from fractions import Fraction

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, RequirementOperator
from bigfleet.workload.archetype import GPU, RACK_KEY, GangRule, Size, SpreadRule
from bigfleet.workload.catalogues import REALISTIC
from tests.support.builders import amounts

PLAIN = REALISTIC.archetype("tiny-stateless")
ZONES = REALISTIC.zones


def test_the_bands_of_replicas_have_the_published_mean() -> None:
    assert PLAIN.mean_replicas == Fraction("21.375")


def test_a_stateful_set_that_is_no_gang_is_capped_and_its_mean_knows() -> None:
    stateful = replace(PLAIN, stateful=True)
    assert [stateful.capped(count) for count in (1, 25, 26, 400)] == [1, 25, 25, 25]
    assert stateful.mean_replicas == Fraction("10.05")  # 0.55 × 3 + 0.30 × 15.5 + 0.15 × 25


def test_a_gang_has_the_middle_of_its_range_in_the_mean() -> None:
    assert replace(PLAIN, gang=GangRule(2, 8)).mean_replicas == 5


def test_density_applies_to_cpu_and_memory_only() -> None:
    device = replace(PLAIN, sizes=(Size(amounts(cpu=1)), Size(amounts(**{GPU: 1}))))
    assert PLAIN.pods_per_machine(100) == 100
    assert device.pods_per_machine(100) == 1
    assert replace(device, pods_per_node=8).pods_per_machine(100) == 8


def test_only_gangs_of_one_rack_lie_in_blocks() -> None:
    assert PLAIN.block == 1
    assert replace(PLAIN, gang=GangRule(2, 8)).block == 8
    assert replace(PLAIN, gang=GangRule(2, 8, ZONE_KEY)).block == 1


def test_pods_ask_for_their_types_in_all_zones() -> None:
    profile = PLAIN.demand_profile(ZONES, spread=False)
    assert [(item.key, item.operator, item.values) for item in profile.requirements] == [
        (INSTANCE_TYPE_KEY, RequirementOperator.IN, PLAIN.instance_types),
        (ZONE_KEY, RequirementOperator.IN, ZONES),
    ]
    assert profile.precedence == (100, 8, 9)  # $32 and $64


def test_a_soft_spread_is_not_sent_and_a_strict_one_is() -> None:
    soft = replace(PLAIN, spread=SpreadRule(1.0, 2, strict=False))
    strict = replace(PLAIN, spread=SpreadRule(1.0, 2, strict=True))
    assert soft.demand_profile(ZONES, spread=True) == soft.demand_profile(ZONES, spread=False)
    (sent,) = strict.demand_profile(ZONES, spread=True).spreads
    assert (sent.topology_key, sent.max_skew) == (ZONE_KEY, 2)
    assert strict.demand_profile(ZONES, spread=False).spreads == ()


@pytest.mark.parametrize("key", [RACK_KEY, ZONE_KEY])
def test_a_gang_shares_its_topology_key(key: str) -> None:
    gang = replace(PLAIN, gang=GangRule(2, 8, key))
    profile = gang.demand_profile(ZONES, spread=False)
    assert profile.same_key == key
    assert profile.without_same == PLAIN.demand_profile(ZONES, spread=False)


def test_an_unknown_archetype_is_refused_by_name() -> None:
    with pytest.raises(
        InvalidFieldError, match=r"archetype: found 'nginx', allowed is one of tiny-stateless"
    ):
        REALISTIC.archetype("nginx")
