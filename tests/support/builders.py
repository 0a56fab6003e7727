"""Short ways to say what a test is about; everything not said is plain and valid.

Why: a test should show the one thing that matters to it.
"""

from collections.abc import Mapping
from typing import Any

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import (
    CLUSTER_REQUIRED,
    HOST_REQUIRED,
    Assignment,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
    Shape,
)
from bigfleet.model.need import Need
from bigfleet.model.profile import INSTANCE_TYPE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.model.resources import Resources


def amounts(**texts: str | int) -> Resources:
    """A resource vector from quantity texts: `amounts(cpu=4, memory="16Gi")`."""
    return Resources.parse({name: str(text) for name, text in texts.items()})


def shape(
    instance_type: str = "m5",
    *,
    zone: str = "z1",
    price: float = 1.0,
    probability: float = 0.0,
    capacity_type: CapacityType = CapacityType.ON_DEMAND,
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
) -> Shape:
    """A shape; by default a small on-demand machine."""
    return Shape(
        instance_type=instance_type,
        zone=zone,
        capacity_type=capacity_type,
        price_per_hour=price,
        interruption_probability=probability,
        resources=FrozenMap({"cpu": "4", "memory": "16Gi"} if resources is None else resources),
        allocatable=FrozenMap(allocatable or {}),
        labels=FrozenMap(labels or {}),
    )


def machine(machine_id: str = "m-1", state: MachineState = MachineState.IDLE, **given: Any) -> Machine:
    """A valid machine in a state: host, cluster and error text are filled in where the state demands them."""
    fields: dict[str, Any] = {"shape": shape()}
    if state in HOST_REQUIRED:
        fields["host"] = HostRef("rack", f"host-of-{machine_id}")
    if state in CLUSTER_REQUIRED:
        fields["cluster"] = "a"
    if state is MachineState.FAILED:
        fields["last_error"] = "it broke"
    return Machine(id=machine_id, state=state, **(fields | given))


def assigned(
    priority: int = 0, interruption: float = 0.0, reclamation: float = 0.0, **given: str
) -> Assignment:
    """A stamp: `assigned(400_000, 5, 1)`."""
    return Assignment(priority, interruption, reclamation, **given)


def of_type(instance_type: str) -> Requirement:
    """A requirement on the instance type: without one a need may claim machines that do not help it (C-16)."""
    return Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, (instance_type,))


def need(
    cluster: str = "prod",
    *requirements: Requirement,
    priority: int = 0,
    group: str = "",
    unit: Mapping[str, str] | None = None,
    profile: Profile | None = None,
    **total: str | int,
) -> Need:
    """A row of demand: `need("prod", cpu=4)`."""
    return Need(
        cluster,
        profile or Profile(requirements=requirements, priority=priority),
        amounts(**(total or {"cpu": 4})),
        amounts(**(unit or {})),
        group=group,
    )
