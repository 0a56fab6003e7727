"""Random situations for laws about decisions: small fleets in which everything collides.

Why: the rules meet where few sizes, zones, types, priorities and stamps meet; a wide range of values would hardly ever make
a tie, a fold or a full domain.
Called by: property tests of the naive model, and those that compare the fast engine with it.
Must never: build a machine that breaks an invariant, or a parked gang that no need names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bigfleet.model.buckets import PenaltyBucket, upper_bound
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import (
    CLUSTER_REQUIRED,
    HOST_REQUIRED,
    NO_HOST,
    Assignment,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
    NeedRef,
    Shape,
)
from bigfleet.model.need import Need
from bigfleet.model.profile import (
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    Operator,
    Profile,
    Requirement,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import GangRef, IdleHolds, Situation

T = TypeVar("T")
S = MachineState
NOW = 1_700_000_000.0
RACK_KEY = "rack"
CLUSTERS = ("x", "x", "y", "z")
PLACES = (
    *(("za", "r0"), ("za", "r0"), ("za", "r1"), ("zb", "r0"), ("zb", "r0"), ("zb", "r1")),
    *(("zc", "r2"), ("za", ""), ("", "r0"), ("", "")),
)
TYPES = ("a3", "a3", "m5", "")
PRICES = (0.0, 1.0, 1.0, 2.5)
PRIORITIES = (100, 100, 100, 1_000, 1_000_000, 0)
BUCKETS = tuple(map(PenaltyBucket, (0, 1, 3, 6, 27)))
SIZES: tuple[Mapping[str, str], ...] = (
    {"gpu": "8"},
    {"gpu": "4", "cpu": "3"},
    {"cpu": "4", "memory": "16Gi"},
    {"cpu": "7", "memory": "8Gi", "gpu": "1"},
)
AMOUNTS = ("1", "3", "10", "500m", "24Gi")
UNITS: tuple[Mapping[str, str], ...] = ({}, {"cpu": "1"}, {"gpu": "4"})

_EVERY = (S.SPECULATIVE, S.IDLE, S.CONFIGURED, S.CONFIGURING, S.CREATING, S.DRAINING, S.DELETING, S.FAILED)
_FREE = (S.SPECULATIVE, S.IDLE)
_BOUND = (S.CONFIGURED, S.CONFIGURED, S.CONFIGURED, S.CONFIGURING)
MIXES = (
    _EVERY,
    (*_FREE, *_FREE, *_BOUND, S.CREATING, S.DRAINING),
    (*_FREE, *_FREE, *_FREE, S.CONFIGURED),
    (*_BOUND, *_BOUND, S.IDLE, S.DRAINING),
)
"""What the machines of one fleet do: anything, a little of all, mostly nothing, mostly work."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What may occur in a situation."""

    max_machines: int = 16
    max_needs: int = 5
    gangs: bool = True
    spreads: bool = True
    sizes: Sequence[Mapping[str, str]] = SIZES
    distinct_priorities: bool = False
    parked: bool = True


@st.composite
def situations(draw: st.DrawFn, kind: Kind | None = None) -> Situation:
    """A whole situation of a kind; by default of any."""
    kind = kind or Kind()
    shapes = draw(st.lists(_shapes(kind), min_size=1, max_size=3))
    profiles = draw(st.lists(_profiles(kind, shapes), min_size=1, max_size=3))
    needs = draw(_some(kind.max_needs, _needs(kind, profiles, shapes)))
    if kind.distinct_priorities:
        priorities = draw(st.permutations(range(100, 100 + 100 * len(needs), 100)))
        needs = [_at(need, priority) for need, priority in zip(needs, priorities, strict=True)]
    states = draw(st.sampled_from(MIXES))
    machines = draw(_some(kind.max_machines, _machines(shapes, states, needs)))
    gangs = [need for need in needs if need.profile.same_key is not None]
    parked = draw(st.lists(st.sampled_from(gangs), max_size=1)) if kind.parked and gangs else []
    return Situation(
        now=NOW,
        machines=tuple(_named(machine, place) for place, machine in enumerate(machines)),
        needs=tuple(needs),
        parked=frozenset(GangRef(need.cluster, need.group, need.profile.fingerprint) for need in parked),
        reported_clusters=draw(st.sampled_from([None, None, frozenset(), frozenset({"x", "y"})])),
        holds=draw(st.sampled_from([IdleHolds(), IdleHolds(0.0, 0.0), IdleHolds(60.0, 0.0)])),
    )


def _some(most: int, items: SearchStrategy[T]) -> SearchStrategy[list[T]]:
    """From none to most, often most; lists left to themselves are short."""
    counts = st.sampled_from([most, most, most, most, most // 2, most // 2, 1, 0])
    return counts.flatmap(lambda count: st.lists(items, min_size=count, max_size=count))


def _at(need: Need, priority: int) -> Need:
    return replace(need, profile=replace(need.profile, priority=priority))


def _named(machine: Machine, place: int) -> Machine:
    machine_id = f"m{place:02d}"
    host = HostRef("rack", machine_id) if machine.state in HOST_REQUIRED else NO_HOST
    return replace(machine, id=machine_id, host=host)


_OTHER_REQUIREMENTS = (
    *(None, None, None, None, None),
    Requirement(ZONE_KEY, Operator.NOT_IN, ("zc",)),
    Requirement(RACK_KEY, Operator.EXISTS),
    Requirement(RACK_KEY, Operator.DOES_NOT_EXIST),
)
_SPREADS = (
    *(Spread(key, skew) for key in (ZONE_KEY, RACK_KEY) for skew in (0, 1, 2)),
    Spread(ZONE_KEY, 1, WhenUnsatisfiable.SCHEDULE_ANYWAY),
)


@st.composite
def _profiles(draw: st.DrawFn, kind: Kind, shapes: Sequence[Shape]) -> Profile:
    requirements: list[Requirement] = []
    present = tuple(shape.instance_type for shape in shapes if shape.instance_type)
    if types := draw(st.sampled_from([(), present, present[:1], present, ("a3", "m5"), ("m5",)])):
        requirements.append(Requirement(INSTANCE_TYPE_KEY, Operator.IN, types))
    if other := draw(st.sampled_from(_OTHER_REQUIREMENTS)):
        requirements.append(other)
    gathers = draw(st.sampled_from(["", ZONE_KEY, RACK_KEY])) if kind.gangs else ""
    if gathers:
        requirements.append(Requirement(gathers, Operator.SAME))
    spreads = draw(st.lists(st.sampled_from(_SPREADS), max_size=1)) if kind.spreads else []
    return Profile(
        requirements=tuple(requirements),
        spreads=tuple(spreads),
        priority=draw(st.sampled_from(PRIORITIES)),
        interruption_bucket=draw(st.sampled_from(BUCKETS)),
        reclamation_bucket=draw(st.sampled_from(BUCKETS)),
    )


@st.composite
def _needs(draw: st.DrawFn, kind: Kind, profiles: Sequence[Profile], shapes: Sequence[Shape]) -> Need:
    profile = draw(st.sampled_from(profiles))
    member = draw(st.sampled_from(shapes)).capacity
    count = draw(st.sampled_from([2, 2, 2, 3, 3, 1, 5, 0]))
    total = member.scaled(count) if count else ZERO
    if len(kind.sizes) > 1 and draw(st.integers(0, 3)) == 0:  # no whole number of machines of one size
        name = draw(st.sampled_from(["cpu", "memory", "gpu"]))
        total += Resources.parse({name: draw(st.sampled_from(AMOUNTS))})
    unit = draw(st.sampled_from([member, member, *map(Resources.parse, UNITS)]))
    return Need(
        cluster=draw(st.sampled_from(CLUSTERS)),
        profile=profile,
        total=total,
        unit=unit,
        arrival_ns=draw(st.sampled_from([0, 100, 200])),
        group=draw(st.sampled_from(["", "A", "B"])) if profile.same_key else "",
    )


@st.composite
def _shapes(draw: st.DrawFn, kind: Kind) -> Shape:
    return Shape(
        instance_type=draw(st.sampled_from(TYPES)),
        capacity_type=draw(st.sampled_from(CapacityType)),
        price_per_hour=draw(st.sampled_from(PRICES)),
        interruption_probability=draw(st.sampled_from([0.0, 0.0, 0.5])),
        resources=FrozenMap(draw(st.sampled_from(kind.sizes))),
        allocatable=draw(st.sampled_from([NO_TEXTS, NO_TEXTS, NO_TEXTS, FrozenMap({"cpu": "2"})]))
        if len(kind.sizes) > 1
        else NO_TEXTS,
    )


@st.composite
def _machines(
    draw: st.DrawFn, shapes: Sequence[Shape], states: Sequence[MachineState], needs: Sequence[Need]
) -> Machine:
    zone, rack = draw(st.sampled_from(PLACES))
    shape = replace(
        draw(st.sampled_from(shapes)), zone=zone, labels=FrozenMap({RACK_KEY: rack} if rack else {})
    )
    state = draw(st.sampled_from(states))
    served = draw(st.sampled_from([None, *needs, *needs]))
    cluster = draw(st.sampled_from(CLUSTERS)) if served is None else served.cluster
    idle_for = draw(st.sampled_from([None, 0.0, 60.0, 600.0])) if state is S.IDLE else None
    return Machine(
        id="",
        state=state,
        shape=shape,
        cluster=cluster if state in CLUSTER_REQUIRED else "",
        assigned=draw(_stamps(served, state)),
        last_error="it broke" if state is S.FAILED else "",
        idle_since=None if idle_for is None else NOW - idle_for,
        draining_for=draw(_drained(needs)) if state is S.DRAINING else None,
        drain_grace_remaining_s=draw(st.sampled_from([0.0, 600.0])) if state is S.CONFIGURED else 0.0,
    )


@st.composite
def _stamps(draw: st.DrawFn, served: Need | None, state: MachineState) -> Assignment:
    """A stamp as the executor would have written it, here and there lost or out of date."""
    if served is None:
        return Assignment(draw(st.sampled_from(PRIORITIES)), 0.0, draw(st.sampled_from([0.0, 5.0])))
    profile = draw(st.sampled_from([served.profile, served.profile.without_same]))
    return Assignment(
        priority=draw(st.sampled_from([profile.priority, profile.priority, 0])),
        interruption_penalty=upper_bound(profile.interruption_bucket),
        reclamation_penalty=upper_bound(profile.reclamation_bucket),
        fingerprint=profile.fingerprint,
        group=draw(st.sampled_from([served.group, served.group, "B", ""])),
        cluster=draw(st.sampled_from([served.cluster, served.cluster, "y", ""]))
        if state is S.CREATING
        else "",
    )


def _drained(needs: Sequence[Need]) -> SearchStrategy[NeedRef | None]:
    """The need a machine was preempted for, as it was given or folded; None when it was reclaimed."""
    given = [NeedRef(*need.key) for need in needs]
    folded = [NeedRef(need.cluster, need.profile.without_same.fingerprint) for need in needs]
    return st.sampled_from([None, *given, *folded])
