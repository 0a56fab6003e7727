"""Who sits where: gangs whole in one domain, the rest by their share of the pods."""

from collections import Counter
from dataclasses import replace

from bigfleet.model.profile import ZONE_KEY
from bigfleet.workload.archetype import Archetype, Catalogue, GangRule
from bigfleet.workload.catalogues import REALISTIC
from bigfleet.workload.objects import WorkloadObject
from bigfleet.workload.profiles import ScaleProfile, profile_named
from bigfleet.workload.stamps import Stamper

WORLD = profile_named("5k")
SMALL = REALISTIC.archetype("gpu-training-small")


def gangs(archetype: Archetype, *sizes: int) -> list[WorkloadObject]:
    return [
        WorkloadObject(archetype, number, archetype.main_size, False, size)
        for number, size in enumerate(sizes)
    ]


def seats(archetype: Archetype, machines: int, *sizes: int, world: ScaleProfile = WORLD) -> list[str]:
    """The number of the gang that each machine is stamped for, `-` for none."""
    objects = gangs(archetype, *sizes)
    numbers = {item.group: str(item.number) for item in objects}
    return [numbers.get(stamp.group, "-") for stamp in Stamper(world).stamps(archetype, machines, objects)]


def test_each_gang_sits_whole_in_one_block_the_largest_first() -> None:
    assert "".join(seats(SMALL, 24, 3, 8, 5)) == "11111111" + "22222000" + "--------"


def test_a_gang_that_finds_no_room_is_not_torn_apart() -> None:
    assert "".join(seats(SMALL, 8, 5, 4)) == "00000---"


def test_a_gang_of_a_zone_sits_on_every_third_machine() -> None:
    zonal = replace(SMALL, gang=GangRule(2, 8, ZONE_KEY))
    world = replace(WORLD, catalogue=Catalogue("zonal", (zonal,)))
    assert "".join(seats(zonal, 9, 3, 2, world=world)) == "01-01-0--"


def test_spare_machines_carry_the_worth_of_their_archetype_only() -> None:
    spare = Stamper(WORLD).stamps(SMALL, 2, [])
    assert [(stamp.priority, stamp.interruption_penalty, stamp.reclamation_penalty) for stamp in spare] == [
        (1000, 16384.0, 32768.0)
    ] * 2
    assert {(stamp.fingerprint, stamp.group) for stamp in spare} == {("", "")}


def test_a_gang_that_fits_on_one_machine_is_stamped_as_folded() -> None:
    cache = REALISTIC.archetype("memory-cache")
    (stamp,) = set(Stamper(WORLD).stamps(cache, 15, gangs(cache, 3, 4, 5)))
    assert stamp.group == ""
    assert stamp.fingerprint == cache.demand_profile(REALISTIC.zones, spread=False).without_same.fingerprint


def test_a_gang_cut_to_one_pod_is_stamped_as_folded_too() -> None:
    (stamp,) = set(Stamper(WORLD).stamps(SMALL, 8, gangs(SMALL, 1)))
    assert stamp.group == ""
    assert stamp.fingerprint == SMALL.demand_profile(REALISTIC.zones, spread=False).without_same.fingerprint


def test_machines_are_split_by_pods_between_the_needs_of_one_archetype() -> None:
    service = REALISTIC.archetype("cpu-service")
    objects = [
        WorkloadObject(service, 0, service.main_size, True, 300),
        WorkloadObject(service, 1, service.main_size, False, 100),
    ]
    stamps = Stamper(WORLD).stamps(service, 28, objects)
    spread, loose = (
        service.demand_profile(REALISTIC.zones, spread=flag).fingerprint for flag in (True, False)
    )
    assert Counter(stamp.fingerprint for stamp in stamps) == {spread: 21, loose: 7}


def test_clusters_share_their_stamps() -> None:
    stamper = Stamper(WORLD)
    one, other = (stamper.stamps(SMALL, 8, gangs(SMALL, 8)) for _ in range(2))
    assert one[0] is other[0]
