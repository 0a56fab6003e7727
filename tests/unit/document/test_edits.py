"""Every edit does what it says to a document, leaves the rest alone, and is refused by path when it says nothing."""

import json
from typing import Any

import pytest

from bigfleet.document.edits import KINDS, apply_edits, edits_of, read_edits
from bigfleet.document.edits.draft import EditedDocument
from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import SnapshotDocument, read_situation, write_document
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef, IdleHolds
from tests.support.builders import amounts

GANG = {
    "cluster": "train",
    "group": "g",
    "priority": 7,
    "requirements": [{"key": "rack", "operator": "Same"}, {"key": "gpu", "operator": "Exists"}],
    "topology_spread": [{"topology_key": "zone", "max_skew": 1, "when_unsatisfiable": "DoNotSchedule"}],
    "total": {"gpu": "16"},
    "unit": {"gpu": "8"},
}
SNAPSHOT: dict[str, Any] = {
    "version": 1,
    "now": 1000,
    "machines": [
        {
            "id": "m2",
            "state": "Idle",
            "host": {"provider": "cloud", "ref": "h2"},
            "instance_type": "g8",
            "zone": "za",
            "capacity_type": "Spot",
            "resources": {"gpu": "8"},
            "allocatable": {"gpu": "7"},
            "labels": {"rack": "r1", "gpu": "yes"},
            "price_per_hour": 4,
            "interruption_probability": 0.1,
            "idle_since": 900,
            "assigned_priority": 3,
        },
        {"id": "m1", "state": "Speculative", "instance_type": "g8", "zone": "zb", "resources": {"gpu": "8"}},
        {
            "id": "m3",
            "state": "Configured",
            "host": {"provider": "metal", "ref": "h3"},
            "cluster": "web",
            "instance_type": "c4",
            "zone": "za",
            "resources": {"cpu": "4"},
            "labels": {"rack": "r2"},
        },
    ],
    "needs": [
        {"cluster": "web", "total": {"cpu": "10"}, "priority": 5},
        GANG,
        {"cluster": "web", "total": {"cpu": "1"}},
    ],
}


def document(**changes: object) -> SnapshotDocument:
    return read_situation(json.dumps({**SNAPSHOT, **changes}))


def edited(*edits: dict[str, object], base: SnapshotDocument | None = None) -> EditedDocument:
    return apply_edits(base or document(), edits_of(edits))


def machines(result: EditedDocument) -> dict[str, Machine]:
    return {machine.id: machine for machine in result.document.situation.machines}


def needs(result: EditedDocument) -> dict[int, Need]:
    """By number."""
    found = result.document
    by_place = dict(zip(found.places, found.situation.needs, strict=True))
    return {number: by_place[place] for place, number in enumerate(result.numbers)}


def refused(*edits: object) -> str:
    with pytest.raises(DocumentError) as caught:
        apply_edits(document(), edits_of(edits))
    return str(caught.value)


def test_no_edit_gives_an_equal_document() -> None:
    base = document()
    result = edited(base=base)
    assert result.document == base
    assert result.numbers == (0, 1, 2)


def test_machines_are_added_like_one_that_exists_but_for_its_story() -> None:
    result = edited(
        {
            "edit": "add_machines",
            "count": 2,
            "like": "m2",
            "machine": {"zone": "zc", "labels": {"rack": "r9"}},
        }
    )
    new = machines(result)["added-0001"]
    assert set(machines(result)) == {"m1", "m2", "m3", "added-0000", "added-0001"}
    assert (new.state.label, new.host, new.assigned.priority, new.idle_since) == (
        "Speculative",
        machines(result)["m1"].host,
        0,
        None,
    )
    assert (new.shape.instance_type, new.shape.zone, new.shape.price_per_hour) == ("g8", "zc", 4)
    assert dict(new.shape.labels) == {"rack": "r9", "gpu": "yes"}
    assert new.shape.capacity == amounts(gpu=7)


def test_machines_are_added_like_a_type_and_get_ids_that_are_free() -> None:
    result = edited(
        {"edit": "add_machines", "like": "g8", "id_prefix": "x-"},
        {"edit": "add_machines", "like": "g8", "id_prefix": "x-"},
    )
    assert {"x-0000", "x-0001"} <= set(machines(result))
    assert machines(result)["x-0000"].shape == machines(result)["m1"].shape  # the first of the type by id


def test_a_machine_is_added_in_full_and_an_idle_one_has_a_host_and_is_idle_from_now() -> None:
    made = machines(
        edited({"edit": "add_machines", "count": 2, "machine": {"state": "Idle", "resources": {"cpu": "2"}}})
    )
    new = made["added-0001"]
    assert (new.idle_since, new.host.provider, new.host.ref) == (1000, "what-if", "added-0001")
    assert new.shape.capacity == amounts(cpu=2)


def test_new_resources_displace_the_allocatable_of_the_template() -> None:
    made = machines(edited({"edit": "add_machines", "like": "m2", "machine": {"resources": {"gpu": "4"}}}))
    assert made["added-0000"].shape.capacity == amounts(gpu=4)


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ({"ids": "m1"}, {"m1"}),
        ({"ids": ["m1", "m3"]}, {"m1", "m3"}),
        ({"state": ["Idle", "Configured"]}, {"m2", "m3"}),
        ({"cluster": "web"}, {"m3"}),
        ({"instance_type": "g8"}, {"m1", "m2"}),
        ({"zone": "za", "capacity_type": "Spot"}, {"m2"}),
        ({"provider": "metal"}, {"m3"}),
        ({"labels": {"rack": "r1"}}, {"m2"}),
        ({"requirements": [{"key": "rack", "operator": "DoesNotExist"}]}, {"m1"}),
        ({}, {"m1", "m2", "m3"}),
    ],
)
def test_machines_are_removed_by_selector(where: dict[str, object], gone: set[str]) -> None:
    assert set(machines(edited({"edit": "remove_machines", "where": where}))) == {"m1", "m2", "m3"} - gone


def test_with_a_count_the_first_machines_by_id_are_removed() -> None:
    assert set(machines(edited({"edit": "remove_machines", "where": {}, "count": 2}))) == {"m3"}


def test_a_zone_is_lost_with_slots_and_a_provider_with_its_hosts_only() -> None:
    assert set(machines(edited({"edit": "lose_zone", "zone": "za"}))) == {"m1"}
    assert set(machines(edited({"edit": "lose_provider", "provider": "cloud"}))) == {"m1", "m3"}


def test_a_price_is_set_or_multiplied_by_selector_and_nothing_else_changes() -> None:
    result = machines(
        edited(
            {"edit": "change_machines", "where": {"instance_type": "g8"}, "to": {"price_per_hour": 2}},
            {"edit": "change_machines", "where": {"zone": "za"}, "multiply_price": 1.5},
        )
    )
    assert {key: machine.shape.price_per_hour for key, machine in result.items()} == {
        "m1": 2,
        "m2": 3,
        "m3": 0,
    }
    assert (result["m2"].idle_since, result["m2"].host.ref, dict(result["m2"].shape.labels)["rack"]) == (
        900,
        "h2",
        "r1",
    )


def test_a_machine_changes_its_state_within_the_rules_of_states() -> None:
    fail: dict[str, object] = {
        "edit": "change_machines",
        "where": {"ids": "m3"},
        "to": {"state": "Failed", "last_error": "fire"},
    }
    assert machines(edited(fail))["m3"].last_error == "fire"
    speculative = {"edit": "change_machines", "where": {"ids": "m3"}, "to": {"state": "Speculative"}}
    assert refused(speculative).startswith("edits[0].to.host: found ")


def test_a_need_is_added_at_the_end_by_itself_or_like_another() -> None:
    result = edited(
        {"edit": "add_need", "need": {"cluster": "new", "total": {"cpu": "3"}}},
        {"edit": "add_need", "like": 1, "need": {"group": "h"}},
    )
    assert result.numbers == (0, 1, 2, 3, 4)
    assert (needs(result)[3].cluster, needs(result)[3].total) == ("new", amounts(cpu=3))
    assert (needs(result)[4].group, needs(result)[4].profile) == ("h", needs(result)[1].profile)


def test_needs_keep_their_numbers_when_others_go() -> None:
    result = edited(
        {"edit": "remove_needs", "where": {"needs": 0}},
        {"edit": "change_needs", "where": {"needs": [2]}, "to": {"priority": 9}},
        {"edit": "add_need", "need": {"cluster": "late"}},
    )
    assert result.numbers == (1, 2, 3)
    assert [need.profile.priority for need in needs(result).values()] == [7, 9, 0]


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ({"cluster": "web"}, {0, 2}),
        ({"cluster": ["web", "train"], "priority": [5, 7]}, {0, 1}),
        ({"group": "g"}, {1}),
        ({"fingerprint": "p=5|ipb=1|rpb=1|reqs=|spr="}, {0}),
        ({}, {0, 1, 2}),
    ],
)
def test_needs_are_removed_by_selector(where: dict[str, object], gone: set[int]) -> None:
    assert set(edited({"edit": "remove_needs", "where": where}).numbers) == {0, 1, 2} - gone


def test_a_need_changes_in_everything_that_a_need_has() -> None:
    to = {
        "priority": 8,
        "interruption_penalty_bucket": 3,
        "reclamation_penalty_bucket": 4,
        "total": {"gpu": "24"},
        "unit": {"gpu": "4"},
        "topology_spread": [],
    }
    changed = needs(
        edited({"edit": "change_needs", "where": {"needs": 1}, "to": to, "drop_requirements": ["gpu"]})
    )[1]
    assert changed.profile.precedence == (8, 3, 4)
    assert (changed.total, changed.unit, changed.profile.spreads) == (amounts(gpu=24), amounts(gpu=4), ())
    assert [item.key for item in changed.profile.requirements] == ["rack"]
    assert (changed.cluster, changed.group) == ("train", "g")


def test_a_total_is_scaled_exactly_and_rounded_up() -> None:
    result = edited(
        {"edit": "change_needs", "where": {"needs": 0}, "scale": 0.1},
        {"edit": "change_needs", "where": {"needs": 2}, "scale": 1e-10},
    )
    assert needs(result)[0].total == amounts(cpu=1)
    assert needs(result)[2].total == amounts(cpu="1n")
    assert needs(edited({"edit": "change_needs", "where": {}, "scale": 0}))[0].total.is_zero


def test_a_parked_gang_stays_parked_when_its_fingerprint_changes_and_while_it_is_a_gang() -> None:
    park: dict[str, object] = {"edit": "park", "where": {"cluster": "train"}}
    raised: dict[str, object] = {"edit": "change_needs", "where": {"needs": 1}, "to": {"priority": 99}}
    result = edited(park, raised)
    fingerprint = needs(result)[1].profile.fingerprint
    assert result.document.situation.parked == {GangRef("train", "g", fingerprint)}
    assert edited(park, {"edit": "unpark", "where": {"group": "g"}}).document.situation.parked == frozenset()
    loose: dict[str, object] = {"edit": "change_needs", "where": {"needs": 1}, "drop_requirements": ["rack"]}
    assert edited(park, loose).document.situation.parked == frozenset()


def test_time_holds_and_reports_change() -> None:
    result = edited(
        {"edit": "pass_time", "seconds": 60},
        {"edit": "set_idle_holds", "spot": 0},
        {"edit": "set_reported_clusters", "clusters": ["web"]},
    ).document.situation
    assert (result.now, result.holds, result.reported_clusters) == (
        1060,
        IdleHolds(600, 0),
        frozenset({"web"}),
    )
    again = edited({"edit": "set_reported_clusters", "clusters": None}, base=document(reported_clusters=[]))
    assert again.document.situation.reported_clusters is None


def test_a_document_that_sorts_its_needs_sorts_them_again() -> None:
    base = document(sort_needs=True)
    result = edited({"edit": "change_needs", "where": {"needs": 2}, "to": {"priority": 99}}, base=base)
    assert [need.profile.priority for need in result.document.situation.needs] == [99, 7, 5]
    assert result.document.places == (2, 1, 0)
    assert read_situation(write_document(result.document)).situation == result.document.situation


@pytest.mark.parametrize(
    ("edit", "refusal"),
    [
        ([], "edits[0]: found a list, allowed is an object"),
        ({}, "edits[0].edit: found nothing, allowed is one of add_machines"),
        ({"edit": "addmachines"}, 'edits[0].edit: found "addmachines", allowed is one of add_machines'),
        ({"edit": ["park"]}, "edits[0].edit: found a list"),
        ({"edit": "park"}, "edits[0].where: found nothing, allowed is an object"),
        ({"edit": "park", "where": {"cluster": "web"}}, "edits[0].where: found no gang"),
        ({"edit": "remove_machines", "where": {"zone": "zz"}}, "edits[0].where: found no machine"),
        ({"edit": "remove_machines", "where": {"zon": "za"}}, "edits[0].where.zon: found an unknown field"),
        ({"edit": "remove_machines", "where": {"state": "Busy"}}, 'edits[0].where.state: found "Busy"'),
        ({"edit": "remove_machines", "where": {"ids": []}}, "edits[0].where.ids: found an empty list"),
        ({"edit": "remove_machines", "where": {"ids": ["m1", 2]}}, "edits[0].where.ids[1]: found 2"),
        ({"edit": "remove_machines", "where": {"labels": {"a": 1}}}, "edits[0].where.labels[a]: found 1"),
        (
            {"edit": "remove_machines", "where": {"requirements": [{"key": "a", "operator": "is"}]}},
            'edits[0].where.requirements[0].operator: found "is"',
        ),
        ({"edit": "remove_machines", "where": "all"}, 'edits[0].where: found "all", allowed is an object'),
        ({"edit": "remove_machines", "where": {}, "count": 0}, "edits[0].count: found 0"),
        ({"edit": "remove_needs", "where": {"needs": [0, 7]}}, "edits[0].where.needs[1]: found 7"),
        ({"edit": "remove_needs", "where": {"needs": True}}, "edits[0].where.needs: found true"),
        ({"edit": "remove_needs", "where": {"cluster": "nobody"}}, "edits[0].where: found no need"),
        ({"edit": "add_machines"}, "edits[0].like: found nothing"),
        ({"edit": "add_machines", "like": "m9"}, 'edits[0].like: found "m9"'),
        ({"edit": "add_machines", "like": "m1", "count": 1.5}, "edits[0].count: found 1.5"),
        ({"edit": "add_machines", "machine": {"id": "x"}}, "edits[0].machine.id: found an unknown field"),
        (
            {"edit": "add_machines", "machine": {"state": "Configured"}},
            "edits[0].machine.cluster: found nothing",
        ),
        (
            {"edit": "add_machines", "machine": {"resources": {"cpu": "x"}}},
            'edits[0].machine.resources[cpu]: found "x"',
        ),
        ({"edit": "change_machines", "where": {}}, "edits[0].to: found nothing"),
        (
            {"edit": "change_machines", "where": {}, "to": {"price_per_hour": 1}, "multiply_price": 2},
            "edits[0].multiply_price: found 2.0",
        ),
        ({"edit": "change_machines", "where": {}, "multiply_price": -1}, "edits[0].multiply_price: found -1"),
        (
            {"edit": "change_machines", "where": {}, "to": {"id": "z"}},
            "edits[0].to.id: found an unknown field",
        ),
        ({"edit": "add_need", "need": {}}, "edits[0].need.cluster: found nothing"),
        ({"edit": "add_need", "like": 9}, "edits[0].like: found 9"),
        ({"edit": "change_needs", "where": {}}, "edits[0].to: found nothing"),
        ({"edit": "change_needs", "where": {}, "scale": "2"}, 'edits[0].scale: found "2"'),
        (
            {"edit": "change_needs", "where": {}, "to": {"total": {"cpu": 1}}},
            "edits[0].to.total[cpu]: found 1",
        ),
        (
            {"edit": "change_needs", "where": {"needs": 1}, "drop_requirements": ["zone"]},
            'edits[0].drop_requirements[0]: found "zone", allowed is the key of a requirement: gpu, rack',
        ),
        ({"edit": "lose_zone", "zone": ""}, 'edits[0].zone: found "", allowed is a text that is not empty'),
        ({"edit": "lose_provider", "provider": "x"}, 'edits[0].provider: found "x"'),
        ({"edit": "pass_time", "seconds": -1}, "edits[0].seconds: found -1"),
        ({"edit": "set_idle_holds"}, "edits[0].on_demand: found nothing"),
        ({"edit": "set_reported_clusters"}, "edits[0].clusters: found nothing"),
        ({"edit": "pass_time", "seconds": 1, "second": 2}, "edits[0].second: found an unknown field"),
    ],
)
def test_an_edit_is_refused_by_path(edit: object, refusal: str) -> None:
    assert refused(edit).startswith(refusal)


def test_the_place_of_the_refused_edit_is_told() -> None:
    assert refused({"edit": "pass_time", "seconds": 1}, {"edit": "lose_zone", "zone": "zz"}).startswith(
        "edits[1].zone"
    )


def test_every_kind_may_carry_x_keys() -> None:
    assert len(edits_of([{"edit": "pass_time", "seconds": 1, "x-why": ["a", {"b": 1}]}])) == 1
    assert all("edit" in form for form, _ in KINDS.values())


def test_a_file_of_edits_is_read_as_yaml_and_as_json() -> None:
    yaml = "# the weekend\nversion: 1\nedits:\n- edit: pass_time\n  seconds: 60\n"
    assert read_edits(yaml) == read_edits(b'{"edits": [{"edit": "pass_time", "seconds": 60}]}')
    assert read_edits("edits: []") == ()
