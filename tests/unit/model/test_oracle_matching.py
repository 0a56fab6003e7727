"""Oracle rows B-01 to B-11: does a machine meet a requirement."""

from dataclasses import replace

import pytest

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import CapacityType, HostRef, Machine, MachineState, Shape
from bigfleet.model.matching import matches
from bigfleet.model.profile import (
    HOST_NAME_KEY,
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    Profile,
    Requirement,
    RequirementOperator,
)

M5 = Shape(
    instance_type="m5",
    capacity_type=CapacityType.SPOT,
    labels=FrozenMap({ZONE_KEY: "za", "gen": "6", "e": ""}),
)
IN_ZB = replace(M5, zone="zb")


NAMED = replace(M5, labels=FrozenMap({HOST_NAME_KEY: "node-7"}))


def idle(shape: Shape) -> Machine:
    return Machine("i-1", MachineState.IDLE, shape, HostRef("rack", "r1"))


def req(key: str, operator: RequirementOperator, *values: str) -> Requirement:
    return Requirement(key, operator, values)


@pytest.mark.rule("engine#matching", "engine#label-lookup")
@pytest.mark.parametrize(
    ("shape", "requirement", "holds"),
    [
        pytest.param(
            M5, req(INSTANCE_TYPE_KEY, RequirementOperator.IN, "c5", "m5"), True, id="B-01 type in list"
        ),
        pytest.param(
            M5, req(INSTANCE_TYPE_KEY, RequirementOperator.NOT_IN, "m5"), False, id="B-02 type not in list"
        ),
        pytest.param(
            M5, req(ZONE_KEY, RequirementOperator.IN, "za"), True, id="B-03 field empty, label used"
        ),
        pytest.param(IN_ZB, req(ZONE_KEY, RequirementOperator.IN, "za"), False, id="B-04 field wins"),
        pytest.param(M5, req("x", RequirementOperator.IN, "1"), False, id="B-05 absent, In"),
        pytest.param(M5, req("x", RequirementOperator.NOT_IN, "1"), True, id="B-05 absent, NotIn"),
        pytest.param(M5, req("x", RequirementOperator.EXISTS), False, id="B-05 absent, Exists"),
        pytest.param(M5, req("x", RequirementOperator.DOES_NOT_EXIST), True, id="B-05 absent, DoesNotExist"),
        pytest.param(M5, req("x", RequirementOperator.SAME), False, id="B-05 absent, Same"),
        pytest.param(M5, req("gen", RequirementOperator.SAME), True, id="B-06 Same without list"),
        pytest.param(M5, req("gen", RequirementOperator.SAME, "7"), False, id="B-06 Same with list"),
        pytest.param(M5, req("e", RequirementOperator.EXISTS), True, id="B-07 empty label exists"),
        pytest.param(M5, req("e", RequirementOperator.IN, ""), True, id="B-07 empty label in list"),
        pytest.param(M5, req("gen", RequirementOperator.IN), False, id="B-08 In without list"),
        pytest.param(
            M5, req("capacity-type", RequirementOperator.EXISTS), False, id="B-09 capacity type is no label"
        ),
        pytest.param(M5, req("gen", RequirementOperator.UNSPECIFIED), False, id="B-10 operator unspecified"),
        pytest.param(
            M5, req("x", RequirementOperator.UNSPECIFIED), False, id="B-10 operator unspecified, key absent"
        ),
        pytest.param(M5, req("gen", RequirementOperator.DOES_NOT_EXIST), False, id="present, DoesNotExist"),
    ],
)
def test_requirement(shape: Shape, requirement: Requirement, holds: bool) -> None:
    assert matches(idle(shape), Profile(requirements=(requirement,))) is holds


@pytest.mark.rule("engine#hostname-domain", "engine#label-lookup")
@pytest.mark.parametrize(
    ("shape", "requirement", "holds"),
    [
        pytest.param(M5, req(HOST_NAME_KEY, RequirementOperator.IN, "i-1"), True, id="the id in the list"),
        pytest.param(M5, req(HOST_NAME_KEY, RequirementOperator.NOT_IN, "i-1"), False, id="the id not in"),
        pytest.param(M5, req(HOST_NAME_KEY, RequirementOperator.EXISTS), True, id="it exists"),
        pytest.param(M5, req(HOST_NAME_KEY, RequirementOperator.DOES_NOT_EXIST), False, id="does not exist"),
        pytest.param(M5, req(HOST_NAME_KEY, RequirementOperator.SAME), True, id="Same"),
        pytest.param(NAMED, req(HOST_NAME_KEY, RequirementOperator.IN, "i-1"), False, id="the label wins"),
        pytest.param(NAMED, req(HOST_NAME_KEY, RequirementOperator.IN, "node-7"), True, id="the label"),
        pytest.param(M5, req("host", RequirementOperator.EXISTS), False, id="no other key has a value"),
    ],
)
def test_a_machine_without_a_host_name_goes_by_its_id(
    shape: Shape, requirement: Requirement, holds: bool
) -> None:
    assert matches(idle(shape), Profile(requirements=(requirement,))) is holds


@pytest.mark.rule("engine#matching")
def test_no_requirements_match_any_machine() -> None:
    assert matches(idle(M5), Profile())


def test_all_requirements_must_hold() -> None:
    both = Profile(
        requirements=(req("gen", RequirementOperator.EXISTS), req("x", RequirementOperator.EXISTS))
    )
    assert not matches(idle(M5), both)


@pytest.mark.parametrize(
    ("requirements", "pinned"),
    [
        ((req(INSTANCE_TYPE_KEY, RequirementOperator.IN, "m5", "c5", "m5"),), ("c5", "m5")),
        ((req(INSTANCE_TYPE_KEY, RequirementOperator.IN),), ()),
        ((req(INSTANCE_TYPE_KEY, RequirementOperator.NOT_IN, "m5"),), ()),
        ((req("gen", RequirementOperator.EXISTS),), ()),
    ],
)
def test_pinned_types_are_those_of_an_in_list_each_once(
    requirements: tuple[Requirement, ...], pinned: tuple[str, ...]
) -> None:
    assert Profile(requirements=requirements).pinned_types == pinned
