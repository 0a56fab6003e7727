"""The profiles against the published ladder and the derivation of their sizes."""

from dataclasses import replace

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.workload.fleet import fleet_size
from bigfleet.workload.profiles import PROFILES, Geometry, SeedCounts, cluster_name, profile_named


@pytest.mark.parametrize(
    ("name", "pods", "clusters", "shards"),
    [
        ("5k", 500_000, 20, 1),
        ("25k", 2_500_000, 100, 1),
        ("50k", 5_000_000, 200, 1),
        ("50k-2shard", 5_000_000, 200, 2),
        ("500k", 50_000_000, 2_000, 1),
        ("1m", 100_000_000, 4_000, 2),
        ("5m", 500_000_000, 20_000, 10),
        ("dev-50", 5_000, 2, 1),
        ("thundering-herd", 500_000, 100, 2),
        ("1m-sim", 100_000_000, 4_000, 4),
    ],
)
def test_the_ladder_is_as_published(name: str, pods: int, clusters: int, shards: int) -> None:
    profile = profile_named(name)
    assert (profile.pods, profile.clusters, profile.shards) == (pods, clusters, shards)


@pytest.mark.parametrize(
    ("name", "machines"),
    [
        ("uber-5k", 22_526),
        ("uber-50k", 225_200),
        ("uber-500k", 2_252_000),
        # Neither Configured nor Idle machines, so what is asked for is what there is.
        ("preemption-5k", 4_300),
        ("cost-routing-5k", 10_000),
    ],
)
def test_a_fleet_has_the_published_size(name: str, machines: int) -> None:
    assert fleet_size(profile_named(name)) == machines


def test_every_special_profile_is_there() -> None:
    named = {
        "failover-leader-kill",
        "failover-shard-kill",
        "failover-partition",
        "failover-soak",
        "preemption-5k",
        "scarcity-5k",
        "oscillation-5k",
        "cost-routing-5k",
        "reclaim-cycle",
        "reclaim-cycle-50k",
        "spot-churn-50k",
        "thundering-herd",
        "spread-5k",
        "gang-heavy-5k",
        "rail-5k",
        "provider-lies-5k",
        "restart-storm-5k",
        "1m-sim",
    }
    assert named < set(PROFILES)
    assert all(profile.name == name for name, profile in PROFILES.items())


def test_seeds_are_fractions_of_the_nominal_size_as_in_published_runs_or_of_the_effective_one() -> None:
    nominal = profile_named("5k")
    assert nominal.seed_counts() == SeedCounts(250, 1_000, 15_000, 0)
    effective = replace(nominal, geometry=Geometry.EFFECTIVE)
    assert effective.seed_counts() == SeedCounts(289, 1_157, 17_352, 0)


def test_a_given_count_of_speculative_machines_stands_instead_of_the_multiplier() -> None:
    assert profile_named("preemption-5k").seed_counts() == SeedCounts(0, 0, 4_300, 0)
    assert profile_named("scarcity-5k").seed_counts() == SeedCounts(150, 0, 0, 0)
    assert profile_named("cost-routing-5k").seed_counts() == SeedCounts(0, 0, 5_000, 5_000)


def test_shards_share_clusters_and_supply_evenly() -> None:
    profile = profile_named("50k-2shard")
    assert [len(profile.clusters_of(ordinal)) for ordinal in (0, 1)] == [100, 100]
    served = sorted([*profile.clusters_of(0), *profile.clusters_of(1)])
    assert served == list(range(200))
    assert profile.seed_counts() == SeedCounts(250, 5_000, 75_000, 0)


def test_the_last_cluster_gets_what_is_left() -> None:
    profile = replace(profile_named("5k"), machines=5_100)
    assert profile.clusters == 21
    assert [profile.pods_of(number) for number in (0, 19, 20)] == [25_000, 25_000, 10_000]


def test_a_published_label_names_the_same_profile() -> None:
    assert profile_named("uber-50k") is profile_named("50k")


@pytest.mark.parametrize("name", ["", "60k", "uber-25k"])
def test_an_unknown_profile_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidFieldError, match=f"profile: found '{name}', allowed is one of 5k, 25k, 50k"):
        profile_named(name)


@pytest.mark.parametrize("ordinal", [-1, 2])
def test_a_shard_that_does_not_exist_is_refused(ordinal: int) -> None:
    with pytest.raises(InvalidFieldError, match=r"ordinal: found .* from 0 to 1"):
        profile_named("50k-2shard").clusters_of(ordinal)


def test_clusters_sort_by_number() -> None:
    names = [cluster_name(number) for number in range(0, 20_000, 37)]
    assert names == sorted(names)
