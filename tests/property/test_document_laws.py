"""Laws of snapshot documents: writing is exact, reading is total, bytes follow from values alone."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.document.batch import read_batch
from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import (
    SnapshotDocument,
    read_situation,
    sorted_places,
    write_document,
    write_situation,
)
from bigfleet.model.buckets import ALL_BUCKETS
from bigfleet.model.machine import Machine, NeedRef
from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.profile import Profile, Requirement, RequirementOperator, Spread, WhenUnsatisfiable
from bigfleet.model.resources import Resources
from bigfleet.model.situation import GangRef, IdleHolds, Situation
from tests.support.records import NOT_EMPTY, TEXTS, machines

INT32 = st.integers(-(2**31), 2**31 - 1)
SECONDS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
TIMES = st.floats(allow_nan=False, allow_infinity=False)
AMOUNTS = st.dictionaries(TEXTS, st.integers(0, 10**21), max_size=3).map(Resources)
PROFILES = st.builds(
    Profile,
    requirements=st.lists(
        st.builds(
            Requirement, TEXTS, st.sampled_from(RequirementOperator), st.lists(TEXTS, max_size=2).map(tuple)
        ),
        max_size=3,
    ).map(tuple),
    spreads=st.lists(st.builds(Spread, TEXTS, INT32, st.sampled_from(WhenUnsatisfiable)), max_size=2).map(
        tuple
    ),
    priority=INT32,
    interruption_bucket=st.sampled_from(ALL_BUCKETS),
    reclamation_bucket=st.sampled_from(ALL_BUCKETS),
)
NEEDS = st.builds(
    Need,
    cluster=NOT_EMPTY,
    profile=PROFILES,
    total=AMOUNTS,
    unit=AMOUNTS,
    arrival_ns=st.integers(-(2**63), 2**63 - 1),
    group=TEXTS,
)


@st.composite
def any_machines(draw: st.DrawFn) -> Machine:
    """A machine with everything that only a document carries."""
    machine = draw(machines())
    return replace(
        machine,
        assigned=replace(machine.assigned, cluster=draw(TEXTS)),
        idle_since=draw(st.none() | TIMES),
        draining_for=draw(st.none() | st.builds(NeedRef, NOT_EMPTY, TEXTS, TEXTS)),
        drain_grace_remaining_s=draw(SECONDS),
    )


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    needs = draw(st.lists(NEEDS, max_size=4))
    gangs = [
        GangRef(need.cluster, need.group, need.profile.fingerprint)
        for need in needs
        if need.profile.same_key is not None
    ]
    return Situation(
        now=draw(TIMES),
        machines=tuple(draw(st.lists(any_machines(), max_size=4, unique_by=lambda machine: machine.id))),
        needs=tuple(needs),
        parked=draw(st.frozensets(st.sampled_from(gangs))) if gangs else frozenset(),
        reported_clusters=draw(st.none() | st.frozensets(TEXTS, max_size=3)),
        holds=draw(st.builds(IdleHolds, SECONDS, SECONDS)),
    )


@given(situations(), st.booleans())
def test_what_is_written_reads_back_equal_and_is_written_the_same_again(
    situation: Situation, compact: bool
) -> None:
    written = write_situation(situation, compact=compact)
    document = read_situation(written)
    assert document.situation == situation
    assert write_document(document, compact=compact) == written
    assert json.loads(written)["version"] == 1
    assert b"\n" not in written.rstrip(b"\n") or not compact


@given(situations())
def test_the_profiles_read_back_have_the_fingerprints_of_those_written(situation: Situation) -> None:
    again = read_situation(write_situation(situation)).situation
    assert [need.profile.fingerprint for need in again.needs] == [
        need.profile.fingerprint for need in situation.needs
    ]


@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_keys_in_a_file_never_matters(situation: Situation, rng: random.Random) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            names = [*value]
            rng.shuffle(names)
            return {name: shuffled(value[name]) for name in names}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    written = write_situation(situation)
    other = json.dumps(shuffled(json.loads(written)))
    assert write_document(read_situation(other)) == written


@given(situations())
def test_sorting_on_reading_gives_the_order_of_a_needs_table(situation: Situation) -> None:
    table = NeedsTable()
    for cluster in {need.cluster for need in situation.needs}:
        table.replace(cluster, [need for need in situation.needs if need.cluster == cluster])
    whole = json.loads(write_situation(situation)) | {"sort_needs": True}
    document = read_situation(json.dumps(whole))
    assert document.situation.needs == table.snapshot()
    assert document.places == tuple(sorted_places(situation.needs))
    assert [situation.needs[place] for place in document.places] == [*document.situation.needs]


@given(st.lists(situations(), max_size=3))
def test_a_batch_answers_each_line_as_if_it_stood_alone(whole: list[Situation]) -> None:
    lines = [write_situation(situation, compact=True) for situation in whole]
    found = [item.situation for item in read_batch(lines) if isinstance(item, SnapshotDocument)]
    assert found == whole


ODD_VALUES: list[object] = [
    None, True, False, 0, -1, 1.5, -0.0, 2**31, 2**63, 10**400, float("inf"), float("nan"), "", "x", "pinned", "\ud800",
    "1e99", "Same", [], [[]], [1], ["a"], {}, {"a": {}}, {"x-a": 1},
]  # fmt: skip
NAMES = ["id", "state", "host", "x-note", "", "cluster", "unknown", "values", "é", "version", "\udc00"]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (owner, key or index) of a JSON value."""
    keys: list[Any] = (
        [*value] if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []
    )
    found = [(value, key) for key in keys]
    for key in keys:
        found += places(value[key])
    return found


def mutated(whole: dict[str, Any], rng: random.Random) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        around = places(whole)
        if not around:
            break
        owner, key = rng.choice(around)
        kind = rng.choice(["delete", "retype", "retype", "insert", "swap", "repeat"])
        if kind == "delete":
            del owner[key]
        elif kind == "retype":
            owner[key] = rng.choice(ODD_VALUES)
        elif kind == "insert" and isinstance(owner, dict):
            owner[rng.choice(NAMES)] = rng.choice(ODD_VALUES)
        elif kind == "swap":
            other, place = rng.choice(around)
            if place in other if isinstance(other, dict) else place < len(other):
                owner[key] = json.loads(json.dumps(other[place]))
        elif kind == "repeat" and isinstance(owner, list):
            owner.append(owner[key])
    data = bytearray(json.dumps(whole, ensure_ascii=rng.random() < 0.8).encode(errors="surrogatepass"))
    bytewise = rng.random()
    if bytewise < 0.1:
        del data[rng.randrange(len(data) + 1) :]
    elif bytewise < 0.2 and data:
        data[rng.randrange(len(data))] = rng.randrange(256)
    elif bytewise < 0.3:
        start = rng.randrange(len(data) + 1)
        data[start:start] = data[start : start + rng.randrange(60)]  # this also repeats keys
    return bytes(data)


@settings(max_examples=20, deadline=None)
@given(situations(), st.integers(0, 2**32))
def test_a_spoilt_document_is_a_situation_or_an_error_with_a_path(situation: Situation, seed: int) -> None:
    rng = random.Random(seed)
    source = write_situation(situation)
    for _ in range(50):
        judge(mutated(json.loads(source), rng))


@pytest.mark.parametrize("seed", range(500))
def test_a_mutation_of_a_rich_document_is_a_situation_or_an_error_with_a_path(seed: int) -> None:
    judge(mutated(json.loads(RICH), random.Random(seed)))


def judge(data: bytes) -> None:
    (outcome,) = read_batch([data])  # any other exception ends the test
    if isinstance(outcome, DocumentError):
        assert outcome.field
        assert str(outcome).isprintable()
        assert len(str(outcome)) < 1000
    else:
        assert read_situation(write_document(outcome)) == outcome


RICH = json.dumps(
    {
        "version": 1,
        "now": 5,
        "reported_clusters": ["a"],
        "idle_hold_seconds": {"on_demand": 1, "spot": 2.5},
        "sort_needs": True,
        "x-top": {"any": [1, {"deep": None}]},
        "machines": [
            {
                "id": f"m-{number}",
                "state": state,
                "host": {"provider": "p", "ref": "h", "x-h": 1},
                "cluster": "a",
                "capacity_type": "Spot",
                "resources": {"cpu": "4", "memory": "1Gi"},
                "labels": {"rack": "r"},
                "price_per_hour": 1.5,
                "assigned_interruption_penalty": "pinned",
                "draining_for": {"cluster": "b", "fingerprint": "f", "group": "g"},
                "idle_since": 4,
                "last_error": "e",
            }
            for number, state in enumerate(["Idle", "Configured", "Draining", "Failed"])
        ],
        "needs": [
            {
                "cluster": cluster,
                "requirements": [
                    {"key": "rack", "operator": "Same", "x-r": 1},
                    {"key": "a", "operator": "In", "values": ["v"]},
                ],
                "topology_spread": [
                    {"topology_key": "z", "max_skew": 1, "when_unsatisfiable": "DoNotSchedule"}
                ],
                "priority": 7,
                "total": {"cpu": "8"},
                "unit": {"cpu": "500m"},
                "group": "g",
                "arrival": 3,
            }
            for cluster in ("b", "a")
        ],
        "parked": [
            {
                "cluster": "a",
                "group": "g",
                "fingerprint": "p=7|ipb=1|rpb=1|reqs=a:1:v;rack:5:;|spr=z:1:1;",
                "x-p": 1,
            }
        ],
    }
)


def test_the_rich_document_is_sound_and_its_gang_is_parked() -> None:
    document = read_situation(RICH)
    assert len(document.situation.parked) == 1
    assert len(document.extras) == 8
    assert read_situation(write_document(document)) == document
