"""Machines that leave or drain for a need are counted, and listed up to a bound.

Rules: `dashboard#explain-classes`, `dashboard#budgets`.
"""

from typing import Any

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.document import need_explanation_document
from bigfleet.explain.machine import explain_machine
from bigfleet.explain.need import explain_need
from bigfleet.explain.preemption import VICTIMS_SHOWN
from bigfleet.explain.redecide import Redecider
from bigfleet.explain.tables import need_listings
from bigfleet.model.machine import MachineState as S
from bigfleet.model.machine import NeedRef
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from tests.support.builders import amounts, assigned, machine

MORE = 3
WANTED = VICTIMS_SHOWN + MORE
NEED = Need("a", Profile(priority=1000), amounts(cpu=4 * 2 * WANTED), amounts(cpu=4))


def cycle() -> DecidedCycle:
    """A need for which a hundred and some machines drain, and as many are to leave."""
    draining_for = NeedRef(*NEED.stamp_key)
    machines = [
        *(machine(f"d-{n:03}", S.DRAINING, cluster="b", draining_for=draining_for) for n in range(WANTED)),
        *(machine(f"v-{n:03}", S.CONFIGURED, cluster="b", assigned=assigned(1)) for n in range(WANTED)),
    ]
    situation = Situation(0.0, tuple(machines), (NEED,))
    return Redecider().cycle(SnapshotDocument(situation, (0,)))


def victims_told(content: dict[str, Any]) -> list[tuple[object, object]]:
    listing = next(found for found in need_listings(content, quick=True) if found.name == "victims")
    return [(row["machine"], row["what"]) for row in listing.rows]


def test_the_first_are_told_one_by_one_and_all_are_counted() -> None:
    content: dict[str, Any] = need_explanation_document(explain_need(cycle(), 0))
    found = content["preemption"]
    assert found["in_flight"] == [f"d-{n:03}" for n in range(VICTIMS_SHOWN)]
    assert [victim["machine"] for victim in found["victims"]] == [f"v-{n:03}" for n in range(VICTIMS_SHOWN)]
    assert (found["in_flight_count"], found["victim_count"]) == (WANTED, WANTED)
    assert content["sentence"].endswith(f"the rest waits for {2 * WANTED} machines to drain.")
    rows = victims_told(content)
    assert len(rows) == 2 * VICTIMS_SHOWN + 2
    assert (f"{MORE} others", "draining for it already") in rows
    assert (f"{MORE} others", "leaving for it") in rows


def test_a_machine_that_leaves_is_explained_whether_the_need_names_it_or_not() -> None:
    last = f"v-{WANTED - 1:03}"
    explained = explain_machine(cycle(), last)
    assert explained.victim is not None
    assert explained.victim.machine.id == last


def test_a_shard_that_does_not_say_how_many_they_are_has_told_all() -> None:
    content: dict[str, Any] = need_explanation_document(explain_need(cycle(), 0))
    del content["preemption"]["in_flight_count"], content["preemption"]["victim_count"]
    assert not [row for row in victims_told(content) if str(row[0]).endswith("others")]
