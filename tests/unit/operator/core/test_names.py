"""Names of the operator's objects, also for ids that cannot be part of a name."""

import hashlib

import pytest

from bigfleet.operator.core.names import hint_name, machine_of, upcoming_annotations, upcoming_name


@pytest.mark.rule("operator#phases")
def test_the_name_is_un_and_the_machine_id() -> None:
    assert upcoming_name("m-0042") == "un-m-0042"
    assert upcoming_annotations("m-0042") == {}


@pytest.mark.rule("operator#n4")
@pytest.mark.parametrize("machine", ["M_42", "a/b", "x" * 300, "naïve", "a..b", "-", ""])
def test_an_id_unfit_for_a_name_is_hashed_and_found_again(machine: str) -> None:
    name = upcoming_name(machine)
    if not machine:
        return
    assert name == f"un-{hashlib.sha256(machine.encode()).hexdigest()}"
    assert machine_of({"name": name, "annotations": upcoming_annotations(machine)}) == machine


def test_the_machine_of_an_ordinary_name() -> None:
    assert machine_of({"name": "un-m-1"}) == "m-1"


@pytest.mark.rule("operator#available-capacity")
def test_the_name_of_a_hint_is_half_a_hash_of_the_whole_key() -> None:
    key = "available:p=1|ipb=0|rpb=0|reqs=|spr="
    assert hint_name(key) == f"ac-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
