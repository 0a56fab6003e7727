"""Snapshot documents: defaults, the order of needs, what is kept besides, and the one way of writing."""

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bigfleet.document.errors import DocumentError
from bigfleet.document.fields import REQUIRED, Form
from bigfleet.document.machines import MACHINE
from bigfleet.document.needs import NEED
from bigfleet.document.snapshot import (
    SNAPSHOT,
    SnapshotDocument,
    read_situation,
    write_document,
    write_situation,
)
from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import (
    Assignment,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
    NeedRef,
    Shape,
)
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator, Spread, WhenUnsatisfiable
from bigfleet.model.situation import GangRef, IdleHolds, Situation
from tests.support.builders import amounts, machine, shape

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "snapshot.md").read_text(encoding="utf-8")


def read(**fields: object) -> SnapshotDocument:
    return read_situation(json.dumps({"version": 1, "now": 0, "machines": [], "needs": [], **fields}))


def example() -> str:
    found = re.search(r"```json\n(\{.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_smallest_document_has_every_default() -> None:
    assert read() == SnapshotDocument(Situation(now=0.0), ())
    assert read().situation.holds == IdleHolds(600, 60)
    assert read().situation.reported_clusters is None


def test_a_machine_without_more_than_id_and_state_has_every_default() -> None:
    (found,) = read(machines=[{"id": "s", "state": "Speculative"}]).situation.machines
    assert found == Machine("s", MachineState.SPECULATIVE)


def test_a_need_without_more_than_its_cluster_has_every_default() -> None:
    (found,) = read(needs=[{"cluster": "a"}]).situation.needs
    assert found == Need("a", Profile())
    assert found.profile.interruption_bucket == 1


def test_every_field_of_a_machine_arrives_where_it_belongs() -> None:
    whole = {
        "id": "d",
        "state": "Draining",
        "host": {"provider": "p", "ref": "h"},
        "cluster": "a",
        "instance_type": "m5",
        "zone": "za",
        "capacity_type": "BareMetal",
        "resources": {"memory": "0.5Ti", "cpu": "4"},
        "allocatable": {"cpu": "3900m"},
        "labels": {"rack": ""},
        "price_per_hour": 2,
        "interruption_probability": 0.25,
        "assigned_priority": -5,
        "assigned_interruption_penalty": 0.5,
        "assigned_reclamation_penalty": "pinned",
        "assigned_fingerprint": "f",
        "assigned_group": "g",
        "assigned_cluster": "b",
        "draining_for": {"cluster": "c", "fingerprint": "f2", "group": "g2"},
        "drain_grace_remaining_seconds": 30.5,
        "idle_since": 7,
        "last_error": "odd",
    }
    (found,) = read(machines=[whole]).situation.machines
    assert found == Machine(
        id="d",
        state=MachineState.DRAINING,
        shape=Shape(
            "m5", "za", CapacityType.BARE_METAL, 2.0, 0.25,
            FrozenMap({"cpu": "4", "memory": "0.5Ti"}), FrozenMap({"cpu": "3900m"}), FrozenMap({"rack": ""}),
        ),
        host=HostRef("p", "h"),
        cluster="a",
        assigned=Assignment(-5, 0.5, math.inf, "f", "g", "b"),
        last_error="odd",
        idle_since=7.0,
        draining_for=NeedRef("c", "f2", "g2"),
        drain_grace_remaining_s=30.5,
    )  # fmt: skip
    assert set(whole) == set(MACHINE), "a field that the form has and this test forgot"


def test_every_field_of_a_need_arrives_where_it_belongs() -> None:
    whole = {
        "cluster": "a",
        "requirements": [
            {"key": "zone", "operator": "In", "values": ["zb", "za"]},
            {"key": "rack", "operator": "Same"},
        ],
        "topology_spread": [{"topology_key": "host", "max_skew": 2, "when_unsatisfiable": "ScheduleAnyway"}],
        "priority": 1000,
        "interruption_penalty_bucket": 0,
        "reclamation_penalty_bucket": 27,
        "total": {"cpu": "1500m", "gpu": "0"},
        "unit": {"memory": "1Ki"},
        "group": "g",
        "arrival": 2**63 - 1,
        "max_units_per_machine": 2**31 - 1,
        "for_fragments": True,
    }
    (found,) = read(needs=[whole]).situation.needs
    assert found == Need(
        cluster="a",
        profile=Profile(
            (
                Requirement("rack", RequirementOperator.SAME),
                Requirement("zone", RequirementOperator.IN, ("za", "zb")),
            ),
            (Spread("host", 2, WhenUnsatisfiable.SCHEDULE_ANYWAY),),
            1000,
            PenaltyBucket(0),
            PenaltyBucket(27),
        ),
        total=amounts(cpu="1.5"),
        unit=amounts(memory=1024),
        arrival_ns=2**63 - 1,
        group="g",
        max_units=2**31 - 1,
        for_fragments=True,
    )
    assert set(whole) == set(NEED), "a field that the form has and this test forgot"


def test_needs_stay_in_the_order_of_the_file_unless_it_asks_to_sort() -> None:
    needs = [
        {"cluster": "b", "priority": 1, "arrival": 5},
        {"cluster": "a", "priority": 1, "arrival": 5, "group": "first"},
        {"cluster": "z", "priority": 9},
        {"cluster": "a", "priority": 1, "arrival": 5, "group": "second"},
        {"cluster": "c", "priority": 1, "arrival": 4},
    ]
    assert [need.cluster for need in read(needs=needs).situation.needs] == ["b", "a", "z", "a", "c"]
    assert read(needs=needs).places == (0, 1, 2, 3, 4)
    in_order = read(needs=needs, sort_needs=True)
    assert [(need.cluster, need.group) for need in in_order.situation.needs] == [
        ("z", ""), ("c", ""), ("a", "first"), ("a", "second"), ("b", ""),
    ]  # fmt: skip
    assert in_order.places == (2, 4, 1, 3, 0)
    assert json.loads(write_document(in_order))["needs"][0] == needs[0]
    assert read_situation(write_document(in_order)) == in_order


def test_an_idle_hold_that_is_not_named_keeps_its_own_default() -> None:
    assert read(idle_hold_seconds={"spot": 0}).situation.holds == IdleHolds(600, 0)
    assert read(idle_hold_seconds={}).situation.holds == IdleHolds()


def test_parked_entries_that_name_no_gang_are_ignored() -> None:
    gang = Profile(requirements=(Requirement("rack", RequirementOperator.SAME),))
    needs = [
        {"cluster": "a", "group": "g", "requirements": [{"key": "rack", "operator": "Same"}]},
        {"cluster": "b"},
    ]
    named = {"cluster": "a", "group": "g", "fingerprint": gang.fingerprint}
    strays = [
        {"cluster": "b", "group": "", "fingerprint": Profile().fingerprint},  # a need, but no gang
        named | {"group": "other"},
        named | {"cluster": "b"},
        named | {"fingerprint": "f"},
    ]
    assert read(needs=needs, parked=[*strays, named, named]).situation.parked == {
        GangRef("a", "g", gang.fingerprint)
    }
    assert read(needs=needs, parked=strays) == read(needs=needs)


def test_what_no_decision_looks_at_is_not_written() -> None:
    known = machine("m-1")
    labelled = replace(known, metadata=FrozenMap({"bigfleet.lucy.sh/assigned-priority": "7"}))
    stray = frozenset({GangRef("a", "g", "f")})
    assert write_situation(Situation(now=0, machines=(labelled,), parked=stray)) == write_situation(
        Situation(now=0, machines=(known,))
    )


def test_x_keys_are_kept_at_their_places_and_change_nothing_else() -> None:
    plain: dict[str, Any] = json.loads(example())
    marked = json.loads(example())
    for mark, owner in enumerate(owners(marked)):
        owner["x-mark"] = mark
        owner["x-any"] = {"deep": [1, None, {"ü": True}]}
    with_marks, without = read_situation(json.dumps(marked)), read_situation(json.dumps(plain))
    assert replace(with_marks, extras={}) == replace(without, extras={})
    written = json.loads(write_document(with_marks))
    assert len(owners(written)) == len(owners(marked)) > 12
    assert {owner["x-mark"] for owner in owners(written)} == set(range(len(owners(marked))))
    assert read_situation(write_document(with_marks)) == with_marks
    sorted_twice = write_document(read_situation(write_document(with_marks)))
    assert sorted_twice == write_document(with_marks)


def owners(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Every object of a document that has fields, as maps have none."""
    found = [whole, whole["idle_hold_seconds"], *whole["machines"], *whole["needs"], *whole["parked"]]
    for record in whole["machines"]:
        found += [record[name] for name in ("host", "draining_for") if record.get(name)]
    for record in whole["needs"]:
        found += record.get("requirements", []) + record.get("topology_spread", [])
    return found


def test_an_x_key_follows_its_requirement_when_they_are_sorted() -> None:
    requirements = [
        {"key": "z", "operator": "Exists", "x-mark": "of z"},
        {"key": "m", "operator": "Exists"},
        {"key": "a", "operator": "Exists", "x-mark": "of a"},
    ]
    found = read(needs=[{"cluster": "a", "requirements": requirements}])
    (need,) = json.loads(write_document(found))["needs"]
    assert [(item["key"], item.get("x-mark")) for item in need["requirements"]] == [
        ("a", "of a"), ("m", None), ("z", "of z"),
    ]  # fmt: skip


def test_an_object_that_says_no_more_than_its_default_is_still_written_for_its_x_key() -> None:
    empty_host = {"provider": "", "ref": "", "x-why": "rack is empty"}
    found = read(
        idle_hold_seconds={"x-why": "as agreed"},
        machines=[{"id": "s", "state": "Speculative", "host": empty_host}],
    )
    assert read_situation(write_document(found)) == found
    assert b"as agreed" in write_document(found)
    assert b"rack is empty" in write_document(found)


def test_a_label_that_begins_with_x_is_a_label() -> None:
    found = read(machines=[{"id": "s", "state": "Speculative", "labels": {"x-rack": "1"}}])
    assert found.situation.machines[0].shape.labels == FrozenMap({"x-rack": "1"})
    assert found.extras == {}


def test_equal_shapes_stamps_and_profiles_are_one_object() -> None:
    machines = [
        {
            "id": f"m-{number}",
            "state": "Speculative",
            "labels": {"a": "1", "b": "2"} if number % 2 else {"b": "2", "a": "1"},
            "price_per_hour": 1 if number % 2 else 1.0,
            "assigned_priority": 5,
        }
        for number in range(50)
    ]
    found = read(machines=machines, needs=[{"cluster": "a", "priority": 3}] * 20).situation
    assert len({id(record.shape) for record in found.machines}) == 1
    assert len({id(record.assigned) for record in found.machines}) == 1
    assert len({id(need.profile) for need in found.needs}) == 1


def test_writing_leaves_defaults_out_and_keeps_the_order_of_the_form() -> None:
    situation = Situation(
        now=1700000000.5,
        machines=(
            machine("m-1", shape=shape(price=2.0, resources={"memory": "16Gi", "cpu": "4000m"})),
            Machine("s", MachineState.SPECULATIVE),
        ),
        needs=(Need("a", Profile(priority=7), total=amounts(cpu="1500m", memory="1Ki")),),
        reported_clusters=frozenset({"b", "a"}),
        holds=IdleHolds(0, 60.5),
    )
    assert write_situation(situation).decode() == (
        "{\n"
        '"version": 1,\n'
        '"now": 1700000000.5,\n'
        '"reported_clusters": ["a","b"],\n'
        '"idle_hold_seconds": {"on_demand":0,"spot":60.5},\n'
        '"machines": [\n'
        '{"id":"m-1","state":"Idle","host":{"provider":"rack","ref":"host-of-m-1"},"instance_type":"m5",'
        '"zone":"z1","capacity_type":"OnDemand","resources":{"cpu":"4000m","memory":"16Gi"},"price_per_hour":2},\n'
        '{"id":"s","state":"Speculative"}\n'
        "],\n"
        '"needs": [\n'
        '{"cluster":"a","priority":7,"total":{"cpu":"1.5","memory":"1024"}}\n'
        "]\n"
        "}\n"
    )


def test_a_compact_document_is_one_line_and_says_the_same() -> None:
    whole = read_situation(example())
    line = write_document(whole, compact=True)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert read_situation(line) == whole


def test_zero_has_one_text() -> None:
    minus = read(now=-0.0, machines=[{"id": "s", "state": "Speculative", "price_per_hour": -0.0}])
    assert write_document(minus) == write_document(read(machines=[{"id": "s", "state": "Speculative"}]))
    assert math.copysign(1, minus.situation.now) == 1


@pytest.mark.parametrize(
    "situation",
    [
        Situation(now=math.inf),
        Situation(now=0, machines=(Machine("m", MachineState.IDLE, Shape(price_per_hour=math.nan)),)),
        Situation(now=0, machines=(Machine("\ud800", MachineState.IDLE),)),
    ],
)
def test_what_no_reader_could_read_is_not_written(situation: Situation) -> None:
    with pytest.raises(DocumentError, match=r"^document: found a"):
        write_situation(situation)


def test_the_example_of_the_page_is_written_as_it_is_shown_and_uses_every_field() -> None:
    whole = read_situation(example())
    assert read_situation(write_document(whole)) == whole
    shown = json.loads(example())
    assert set(shown) - {"x-comment"} == set(SNAPSHOT)
    assert {name for record in shown["machines"] for name in record} == set(MACHINE)
    assert {name for need in shown["needs"] for name in need} == set(NEED)


@pytest.mark.rule("packaging#generated-pages")
@pytest.mark.parametrize(
    ("heading", "form"), [("The document", SNAPSHOT), ("Machine", MACHINE), ("Need", NEED)]
)
def test_the_page_names_every_field_with_its_default_in_order(heading: str, form: Form) -> None:
    (section,) = (part for part in PAGE.split("\n## ") if part.startswith(f"{heading}\n"))
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", section, re.MULTILINE)
    assert rows == [
        (name, "required" if default is REQUIRED else f"`{json.dumps(default)}`")
        for name, default in form.items()
    ]


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_bytes_do_not_depend_on_the_hash_seed(seed: str, tmp_path: Path) -> None:
    source = tmp_path / "snapshot.json"
    source.write_text(example(), encoding="utf-8")
    program = (
        "import sys; from pathlib import Path;"
        "from bigfleet.document.snapshot import read_situation, write_document;"
        "sys.stdout.buffer.write(write_document(read_situation(Path(sys.argv[1]).read_bytes())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(source)],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        timeout=60,
    )
    assert done.stdout == write_document(read_situation(example()))
