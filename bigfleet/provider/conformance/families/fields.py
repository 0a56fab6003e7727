"""Behaviours B801 to B807: every field of a record, duty by duty.

Must never: fill in a field that is not there; an absent `allocatable` means `resources`.
Rules: `providers#record-fields`, `providers#family-fields`; ADR-0005.
"""

import math
from typing import Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.quantity import parse_quantity
from bigfleet.provider.conformance.behaviour import Behaviour, Prerequisite, behaviour
from bigfleet.provider.conformance.checks import accepted, require, unbound
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import (
    BOUND,
    REAL,
    TRANSITIONAL,
    C,
    F,
    I,
    S,
    has_host,
    state_name,
)
from bigfleet.v1alpha1 import provider_pb2 as pb

FORBIDDEN_LABELS: Final = (
    "instance-type",
    "instance_type",
    "instanceType",
    "zone",
    "availability-zone",
    "availability_zone",
    "capacity-type",
    "capacity_type",
    "capacityType",
)
_CAPACITY_TYPES: Final = (
    pb.CAPACITY_TYPE_BARE_METAL,
    pb.CAPACITY_TYPE_RESERVED,
    pb.CAPACITY_TYPE_ON_DEMAND,
    pb.CAPACITY_TYPE_SPOT,
)


@behaviour("B801")
async def identity(context: BehaviourContext) -> None:
    """Every record has an id, a type and a real state, and hides nothing in labels.

    1. List everything: id and instance_type not empty, state one of the eight, no label key that has a field of its own.
    """
    for machine in (await context.all()).machines:
        check_identity(machine)


@behaviour("B802", profiles=(ConformanceProfile.CORE, ConformanceProfile.SPOT))
async def cost(context: BehaviourContext) -> None:
    """Costs are finite, and a spot machine may be interrupted.

    1. List everything: price finite and at least 0; probability from 0 to 1, above 0 for SPOT.
    """
    for machine in (await context.all()).machines:
        check_cost(machine)


@behaviour("B803")
async def host_and_cluster(context: BehaviourContext) -> None:
    """Host and cluster go with the state.

    1. List everything: host and cluster are as each record's state says.
    2. Walk a machine through S, I and C: the same at each. On bare metal through I and C.
    """
    for machine in (await context.all()).machines:
        _check_shape(machine)
    if context.bare_metal:
        machine_id = await context.idle()
    else:
        machine_id = await context.slot()
        _check_shape(await context.get(machine_id))
        accepted(await context.calls.create(machine_id), "Create")
    _check_shape(await context.settle(machine_id, I))
    _check_shape(await context.bind(machine_id))


@behaviour("B804")
async def quantities(context: BehaviourContext) -> None:
    """Resources are quantities.

    1. List everything; of records that have both maps: every dimension of `resources` and `allocatable` can be read;
       resources above 0, allocatable at least 0. Skipped when no record has both.
    """
    machines = (await context.all()).machines
    both = [m for m in machines if m.resources.resources and m.allocatable.resources]
    if not both:
        context.skip("no record has both resources and allocatable")
    for machine in both:
        for key, text in sorted(machine.resources.resources.items()):
            require(_read(machine, key, text) > 0, f"{machine.id}: resources {key} is {text}, due is above 0")
        for key, text in sorted(machine.allocatable.resources.items()):
            require(_read(machine, key, text) >= 0, f"{machine.id}: allocatable {key} is {text}, below 0")


@behaviour("B805")
async def host_provider(context: BehaviourContext) -> None:
    """The name of the provider in `host` never changes.

    1. Walk a machine to I, C and I again; Get and List at each: host.provider not empty and always the same.
    """
    machine_id = await context.idle()
    texts = await _providers(context, machine_id)
    await context.bind(machine_id)
    texts += await _providers(context, machine_id)
    await context.unbind(machine_id)
    texts += await _providers(context, machine_id)
    require(all(texts), f"{machine_id} has a host without provider")
    require(len(set(texts)) == 1, f"host.provider of {machine_id} changes: {', '.join(sorted(set(texts)))}")


@behaviour("B806")
async def zone_and_capacity_type(context: BehaviourContext) -> None:
    """A machine that exists has a zone and a capacity type.

    1. List everything, and Get a walked machine at I and C: a record in a stable state with a host has a zone and one of
       the four capacity types.
    """
    for machine in (await context.all()).machines:
        _check_place(machine)
    machine_id = await context.idle()
    _check_place(await context.get(machine_id))
    _check_place(await context.bind(machine_id))


@behaviour(
    "B807",
    profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD),
    needs=(Prerequisite.DELETE,),
    bare_metal=False,
)
async def clean_slot(context: BehaviourContext) -> None:
    """A deleted machine is a clean slot.

    1. Walk a machine to C with a map, Drain it with grace 0, Delete it.
    2. At S: no host, no cluster, no map.
    """
    machine_id = await context.configured(metadata={"key": "value"})
    await context.unbind(machine_id, 0)
    accepted(await context.calls.delete(machine_id), "Delete")
    machine = await context.settle(machine_id, S)
    require(not has_host(machine), f"the slot {machine_id} still has its host")
    unbound(machine, "at S")


def check_identity(machine: pb.Machine) -> None:
    """Require the fields that tell records apart."""
    require(bool(machine.id), "a record has no id")
    require(bool(machine.instance_type), f"{machine.id} has no instance_type")
    require(machine.state in REAL, f"{machine.id} has state number {machine.state}, allowed is 1 to 8")
    hidden = [key for key in FORBIDDEN_LABELS if key in machine.labels]
    require(not hidden, f"{machine.id} has the label {', '.join(hidden)}, which has a field of its own")


def check_cost(machine: pb.Machine) -> None:
    """Demand prices and probabilities within their bounds."""
    price, probability = machine.price_per_hour, machine.interruption_probability
    require(
        math.isfinite(price) and price >= 0, f"{machine.id}: price is {price}, due is finite and at least 0"
    )
    require(0 <= probability <= 1, f"{machine.id}: interruption probability is {probability}, due is 0 to 1")
    if machine.capacity_type == pb.CAPACITY_TYPE_SPOT:
        require(probability > 0, f"{machine.id} is spot with interruption probability 0")


def check_capacity_type(machine: pb.Machine) -> None:
    """Demand one of the four capacity types."""
    found = machine.capacity_type
    require(found in _CAPACITY_TYPES, f"{machine.id} has capacity type {found}, allowed is 1 to 4")


def _check_shape(machine: pb.Machine) -> None:
    if machine.state == F or machine.state not in REAL:
        return
    name = state_name(machine.state)
    hosted = machine.state not in (S, pb.MACHINE_STATE_CREATING)
    require(has_host(machine) == hosted, f"{machine.id} is {name} {'without' if hosted else 'with'} a host")
    bound = machine.state in BOUND
    require(
        bool(machine.cluster) == bound, f"{machine.id} is {name} {'without' if bound else 'with'} a cluster"
    )


def _check_place(machine: pb.Machine) -> None:
    if machine.state not in TRANSITIONAL and machine.state in (I, C) and has_host(machine):
        check_capacity_type(machine)
        require(bool(machine.zone), f"{machine.id} has a host and no zone")


def _read(machine: pb.Machine, key: str, text: str) -> int:
    try:
        return parse_quantity(text, f"{machine.id}: {key}")
    except InvalidFieldError as error:
        require(False, str(error))
        raise


async def _providers(context: BehaviourContext, machine_id: str) -> list[str]:
    listed = [machine for machine in (await context.all()).machines if machine.id == machine_id]
    require(len(listed) == 1, f"List lacks {machine_id}")
    return [(await context.get(machine_id)).host.provider, listed[0].host.provider]


FIELDS: Final[tuple[Behaviour, ...]] = (
    identity,
    cost,
    host_and_cluster,
    quantities,
    host_provider,
    zone_and_capacity_type,
    clean_slot,
)
