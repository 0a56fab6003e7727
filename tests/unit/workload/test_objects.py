"""What is drawn for a cluster: shares over a million objects, cutting, bursts, and the group a gang goes by."""

import hashlib
import random
from collections import Counter
from itertools import islice

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.model.profile import ZONE_KEY
from bigfleet.workload.archetype import RACK_KEY, REPLICA_BANDS
from bigfleet.workload.catalogues import REALISTIC
from bigfleet.workload.objects import (
    GROUP_KEY,
    NAMESPACE,
    ProfileBook,
    WorkloadObject,
    draw_object,
    draw_objects,
    objects_of,
)
from bigfleet.workload.profiles import profile_named

MANY = 1_000_000


@pytest.fixture(scope="module")
def drawn() -> Counter[tuple[str, int, bool, int]]:
    """A million objects by archetype, place of their size, spread and replicas."""
    places = {
        item.name: {size.amounts: at for at, size in enumerate(item.sizes)} for item in REALISTIC.steady
    }
    objects = islice(draw_objects(REALISTIC, 10**9, random.Random(11)), MANY)
    return Counter(
        (item.archetype.name, places[item.archetype.name][item.size], item.spread, item.replicas)
        for item in objects
    )


def count(drawn: Counter[tuple[str, int, bool, int]], name: str) -> int:
    return sum(many for key, many in drawn.items() if key[0] == name)


def test_archetypes_come_by_weight(drawn: Counter[tuple[str, int, bool, int]]) -> None:
    weights = sum(archetype.weight for archetype in REALISTIC.steady)
    for archetype in REALISTIC.steady:
        assert count(drawn, archetype.name) / MANY == pytest.approx(archetype.weight / weights, abs=0.005)
    assert count(drawn, "gpu-training-large") == 0


def test_sizes_and_spreads_come_as_often_as_the_table_says(
    drawn: Counter[tuple[str, int, bool, int]],
) -> None:
    for name in ("tiny-stateless", "cpu-service", "cpu-batch"):
        archetype, all_of_it = REALISTIC.archetype(name), count(drawn, name)
        first = sum(many for key, many in drawn.items() if key[0] == name and key[1] == 0)
        spread = sum(many for key, many in drawn.items() if key[0] == name and key[2])
        assert archetype.spread is not None
        assert first / all_of_it == pytest.approx(archetype.sizes[0].share / 100, abs=0.005)
        assert spread / all_of_it == pytest.approx(archetype.spread.probability, abs=0.005)


def test_replicas_come_in_their_bands_and_eighteen_and_a_half_pods_make_an_object(
    drawn: Counter[tuple[str, int, bool, int]],
) -> None:
    tiny = count(drawn, "tiny-stateless")
    for weight, fewest, most in REPLICA_BANDS:
        inside = sum(
            many for key, many in drawn.items() if key[0] == "tiny-stateless" and fewest <= key[3] <= most
        )
        assert inside / tiny == pytest.approx(weight / 100, abs=0.005)
    assert sum(key[3] * many for key, many in drawn.items()) / MANY == pytest.approx(18.52, rel=0.005)


def test_gangs_have_every_size_of_their_range_and_no_other(
    drawn: Counter[tuple[str, int, bool, int]],
) -> None:
    for archetype in REALISTIC.steady:
        if archetype.gang is not None:
            sizes = {key[3] for key in drawn if key[0] == archetype.name}
            assert sizes == set(range(archetype.gang.fewest, archetype.gang.most + 1))


def test_only_the_last_object_is_cut_and_the_target_is_met_exactly() -> None:
    whole = list(draw_objects(REALISTIC, 2_000, random.Random(3)))
    longer = list(draw_objects(REALISTIC, 20_000, random.Random(3)))
    assert sum(item.replicas for item in whole) == 2_000
    assert whole[:-1] == longer[: len(whole) - 1]
    assert whole[-1].replicas <= longer[len(whole) - 1].replicas
    assert [item.number for item in whole] == list(range(len(whole)))


def test_a_burst_of_a_burst_only_archetype_is_not_cut() -> None:
    large = REALISTIC.archetype("gpu-training-large")
    gang = draw_object(large, 7, random.Random(2))
    assert 64 <= gang.replicas <= 256
    assert gang.group == f"{NAMESPACE}\0{ZONE_KEY}\0{GROUP_KEY}=gpu-training-large-7,;"
    assert draw_object(large, 7, random.Random(2), most=10).replicas == 10


def test_a_gang_goes_by_scope_key_and_selector_and_nothing_else_has_a_group() -> None:
    cache, tiny = REALISTIC.archetype("memory-cache"), REALISTIC.archetype("tiny-stateless")
    size = cache.sizes[0].amounts
    assert (
        WorkloadObject(cache, 12, size, False, 3).group
        == f"scaletest\0{RACK_KEY}\0scaletest.bigfleet/group=memory-cache-12,;"
    )
    assert WorkloadObject(tiny, 12, size, False, 3).group == ""


def test_a_clusters_objects_do_not_hang_on_other_clusters_or_on_the_number_of_shards() -> None:
    alone = list(objects_of(profile_named("50k"), 3, SeededRng(4)))
    source = SeededRng(4)
    for cluster in (0, 1, 2):
        list(objects_of(profile_named("50k-2shard"), cluster, source))
    assert list(objects_of(profile_named("50k-2shard"), 3, source)) == alone
    assert list(objects_of(profile_named("50k"), 2, SeededRng(4))) != alone


def test_objects_of_one_kind_share_one_profile() -> None:
    book = ProfileBook(REALISTIC)
    service = REALISTIC.archetype("cpu-service")
    one, other = (WorkloadObject(service, at, service.sizes[at].amounts, True, 5) for at in (0, 1))
    assert book.of(one) is book.of(other)
    cache = WorkloadObject(REALISTIC.archetype("memory-cache"), 0, service.sizes[0].amounts, False, 3)
    assert book.of(cache).same_key == RACK_KEY
    assert book.folded(cache).same_key is None


def test_what_a_seed_draws_is_pinned() -> None:
    """Should this move, every saved seed would mean another world, and figures would no longer compare."""
    objects = objects_of(profile_named("5k"), 0, SeededRng(42))
    lines = [f"{item.name} {item.size.texts()} {item.spread} {item.replicas}" for item in objects]
    assert lines[0] == "cpu-service-0 {'cpu': '4.2', 'memory': '17301504000'} False 93"
    assert (
        hashlib.sha256("\n".join(lines).encode()).hexdigest()
        == "7fc61593f966ff924678205a6fa19c17b145e97efe8cfe928735e4fbf635b201"
    )
