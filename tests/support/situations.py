"""Random situations for laws about decisions: small fleets in which everything collides.

Why: the rules meet where few sizes, zones, types, priorities and stamps meet; a wide range of values would hardly ever make
a tie, a fold or a full domain.
Must never: build a machine that breaks an invariant, or a parked gang that no need names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from hypothesis import strategies as st

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
    HOST_NAME_KEY,
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    Profile,
    Requirement,
    RequirementOperator,
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
MANY_PLACES = tuple((f"z{'abc'[number % 3]}", f"r{number}") for number in range(9))
"""More racks than a verdict lists candidates."""

TYPES = ("a3", "a3", "m5", "")
PRICES = (0.0, 1.0, 1.0, 2.5)
PRIORITIES = (100, 100, 1_000, 1_000_000, 0)
BUCKETS = tuple(map(PenaltyBucket, (0, 1, 3, 6, 27)))
STATED_PODS: tuple[Mapping[str, str], ...] = (*({},) * 4, {"pods": "2"}, {"pods": "58"}, {"pods": "0"})
TOTAL_PODS = ("0", "1", "60", "220", "300", "111500m")
UNIT_PODS = ("0", "0", "1", "30", "110", "111")
HOST_NAMES = (*(None,) * 6, "h0", "h0", "m01", "")
"""Host names that machines are labelled with; the others go by their ids."""
SIZES: tuple[Mapping[str, str], ...] = (
    {"gpu": "8"},
    {"gpu": "4", "cpu": "3"},
    {"cpu": "4", "memory": "16Gi"},
    {"cpu": "7", "memory": "8Gi", "gpu": "1"},
)
AMOUNTS = ("1", "3", "10", "500m", "100u", "24Gi")
UNITS: tuple[Mapping[str, str], ...] = ({}, {"cpu": "1"}, {"gpu": "4"})
COUNTS = (2, 2, 2, 3, 3, 1, 5, 0)
ONE_OR_TWO = (1, 1, 1, 2)
"""How many machines a need is worth; gangs worth one of them fold."""

_EVERY = (S.SPECULATIVE, S.IDLE, S.CONFIGURED, S.CONFIGURING, S.CREATING, S.DRAINING, S.DELETING, S.FAILED)
_FREE = (S.SPECULATIVE, S.IDLE)
_BOUND = (S.CONFIGURED, S.CONFIGURED, S.CONFIGURED, S.CONFIGURING)
MIXES = (
    _EVERY,
    (*_FREE, *_FREE, *_BOUND, S.CREATING, S.DRAINING),
    (*_FREE, *_FREE, *_FREE, S.CONFIGURED),
    (*_BOUND, *_BOUND, S.IDLE, S.DRAINING),
    (*(S.CONFIGURED,) * 9, S.DRAINING),
)
"""What the machines of one fleet do: anything, a little of all, mostly nothing, mostly work, only work."""


HOSTS, LIMITS, FRAGMENTS, PODS = "hosts", "limits", "fragments", "pods"
FLAVOURS = (
    *(frozenset[str](),) * 4,
    *map(
        frozenset, ((HOSTS,), (LIMITS,), (PODS,), (LIMITS, FRAGMENTS, PODS), (HOSTS, LIMITS, FRAGMENTS, PODS))
    ),
)


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
    flavours: Sequence[frozenset[str]] = FLAVOURS
    """What a situation may be about beside the rest; empty for the situations that a seed gave before there were any."""

    mixes: Sequence[Sequence[MachineState]] = ()
    """What its machines may do; any of the usual if there are none."""
    alike: int = 0
    """From how many needs all others are copied, to other clusters and arrivals; 0 if each is drawn for itself."""

    def has(self, flavour: str) -> bool:
        """Whether the one situation that is being made is about something."""
        return any(flavour in flavours for flavours in self.flavours)


_MOSTLY_FREE = (_FREE, _FREE, (*_FREE, S.CONFIGURED))
_CROWDED = Kind(max_machines=24, max_needs=20, alike=6, mixes=_MOSTLY_FREE)
CROWDED = (
    replace(_CROWDED, mixes=MIXES),
    replace(_CROWDED, gangs=False),
    replace(_CROWDED, gangs=False, spreads=False),
    replace(_CROWDED, gangs=False, spreads=False),
)
"""Many open needs of few sorts, which meet in the same machines; with and without needs that are served alone."""


class Pick(Protocol):
    """Chooses one of several; hypothesis can take a choice back, a seeded source is quick."""

    def __call__(self, options: Sequence[T], /) -> T: ...


@st.composite
def situations(draw: st.DrawFn, kind: Kind | None = None) -> Situation:
    """A whole situation of a kind, by default of any; one that breaks a law is made as small as can be."""

    def pick(options: Sequence[T], /) -> T:
        return draw(st.sampled_from(options))

    return situation_of(pick, kind)


def situation_of(pick: Pick, kind: Kind | None = None) -> Situation:
    """A whole situation of a kind from any source of choices, such as a seeded `random.Random(1).choice`."""
    kind = kind or Kind()
    if kind.flavours:
        kind = replace(kind, flavours=(pick(kind.flavours),))
    shapes = [_shape(pick, kind) for _ in range(pick((1, 1, 2, 3)))]
    profiles = [_profile(pick, kind, shapes)]
    for _ in range(pick((0, 1, 2))):
        alike = pick((False, True))  # but for priority and penalties: who shares what is then easily mixed up
        profiles.append(_ranked(pick, profiles[0]) if alike else _profile(pick, kind, shapes))
    counts = pick((COUNTS, COUNTS, ONE_OR_TWO))
    needs = [_need(pick, kind, profiles, shapes, counts) for _ in range(_some(pick, kind.max_needs))]
    if kind.alike:
        sorts = needs[: pick(range(1, kind.alike + 1))]
        needs = [_like(pick, pick(sorts)) for _ in needs]
    if kind.distinct_priorities:
        needs = [_at(need, priority) for need, priority in zip(needs, _priorities(pick, needs), strict=True)]
    states, places = pick(kind.mixes or MIXES), pick((PLACES, PLACES, PLACES, MANY_PLACES))
    known: Sequence[Need | None] = [None, *needs, *needs]
    served = pick((known, known, known[:1]))
    machines = [_machine(pick, shapes, states, places, served) for _ in range(_some(pick, kind.max_machines))]
    if kind.has(HOSTS):
        machines = [_with_host_name(pick, machine) for machine in machines]
    gangs = [need for need in needs if need.profile.same_key is not None]
    parked = [pick(gangs)] if kind.parked and gangs and pick((False, True)) else []
    return Situation(
        now=NOW,
        machines=tuple(_named(machine, place) for place, machine in enumerate(machines)),
        needs=tuple(needs),
        parked=frozenset(GangRef(need.cluster, need.group, need.profile.fingerprint) for need in parked),
        reported_clusters=pick((None, None, frozenset[str](), frozenset({"x", "y"}))),
        holds=pick((IdleHolds(), IdleHolds(0.0, 0.0), IdleHolds(60.0, 0.0))),
    )


def _some(pick: Pick, most: int) -> int:
    """From none to most, often most."""
    return pick((*(most,) * 10, *(most // 2,) * 4, 1, 0))


def _priorities(pick: Pick, needs: Sequence[Need]) -> list[int]:
    """As many different priorities as there are needs, in any order."""
    left = list(range(100, 100 + 100 * len(needs), 100))
    return [left.pop(pick(range(len(left)))) for _ in needs]


def _at(need: Need, priority: int) -> Need:
    return replace(need, profile=replace(need.profile, priority=priority))


def _named(machine: Machine, place: int) -> Machine:
    machine_id = f"m{place:02d}"
    host = HostRef("rack", machine_id) if machine.state in HOST_REQUIRED else NO_HOST
    return replace(machine, id=machine_id, host=host)


_OTHER_REQUIREMENTS = (
    *(None,) * 12,
    Requirement(ZONE_KEY, RequirementOperator.NOT_IN, ("zc",)),
    Requirement(RACK_KEY, RequirementOperator.EXISTS),
    Requirement(RACK_KEY, RequirementOperator.DOES_NOT_EXIST),
    Requirement(RACK_KEY, RequirementOperator.IN, ("r0", "r2")),
    Requirement(INSTANCE_TYPE_KEY, RequirementOperator.NOT_IN, ("m5",)),
)
_SAME: tuple[tuple[Requirement, ...], ...] = (
    *((), (), (), ()),
    *((Requirement(ZONE_KEY, RequirementOperator.SAME),), (Requirement(RACK_KEY, RequirementOperator.SAME),))
    * 2,
    (
        Requirement(ZONE_KEY, RequirementOperator.SAME),
        Requirement(RACK_KEY, RequirementOperator.SAME),
    ),  # the rack is the key that counts
    (Requirement(RACK_KEY, RequirementOperator.SAME, ("r0", "r1")),),
)
_SPREADS = (
    *(Spread(key, skew) for key in (ZONE_KEY, RACK_KEY) for skew in (0, 1, 2)),
    Spread(ZONE_KEY, 1, WhenUnsatisfiable.SCHEDULE_ANYWAY),
)


_OF_HOSTS = (
    *(None,) * 6,
    Requirement(HOST_NAME_KEY, RequirementOperator.IN, ("m00", "m03", "m07", "h0")),
    Requirement(HOST_NAME_KEY, RequirementOperator.NOT_IN, ("m00", "h0")),
    Requirement(HOST_NAME_KEY, RequirementOperator.EXISTS),
    Requirement(HOST_NAME_KEY, RequirementOperator.DOES_NOT_EXIST),
)
_SAME_HOST = (
    *((Requirement(HOST_NAME_KEY, RequirementOperator.SAME),),) * 3,
    (Requirement(HOST_NAME_KEY, RequirementOperator.SAME, ("m01", "m02", "h0")),),
    (Requirement(HOST_NAME_KEY, RequirementOperator.SAME), Requirement(ZONE_KEY, RequirementOperator.SAME)),
)
_HOST_SPREADS = tuple(Spread(HOST_NAME_KEY, skew) for skew in (1, 2))


def _profile(pick: Pick, kind: Kind, shapes: Sequence[Shape]) -> Profile:
    requirements: list[Requirement] = []
    present = tuple(shape.instance_type for shape in shapes if shape.instance_type)
    if types := pick(((), (), present, present[:1], present, present, ("a3", "m5"), ("m5",))):
        requirements.append(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, types))
    if other := pick(_OTHER_REQUIREMENTS):
        requirements.append(other)
    if kind.has(HOSTS) and (other := pick(_OF_HOSTS)):
        requirements.append(other)
    if kind.gangs:
        requirements += pick((*_SAME, *_SAME_HOST) if kind.has(HOSTS) else _SAME)
    known = (*_SPREADS, *_HOST_SPREADS * 3) if kind.has(HOSTS) else _SPREADS
    spreads = ((), (pick(known),), (pick(known), pick(known)))[
        pick((0, 0, 0, 1, 1, 2)) if kind.spreads else 0
    ]
    return _ranked(pick, Profile(requirements=tuple(requirements), spreads=spreads))


def _ranked(pick: Pick, profile: Profile) -> Profile:
    return replace(
        profile,
        priority=pick(PRIORITIES),
        interruption_bucket=pick(BUCKETS),
        reclamation_bucket=pick(BUCKETS),
    )


def _need(
    pick: Pick, kind: Kind, profiles: Sequence[Profile], shapes: Sequence[Shape], counts: Sequence[int]
) -> Need:
    profile = pick(profiles)
    member = pick(shapes).capacity
    count = pick(counts)
    total = member.scaled(count) if count else ZERO
    if len(kind.sizes) > 1 and pick((False, False, False, True)):  # no whole number of machines of one size
        total += Resources.parse({pick(("cpu", "memory", "gpu")): pick(AMOUNTS)})
    unit = pick([member, member, *map(Resources.parse, UNITS)])
    if kind.has(PODS):
        total, unit = total + _pods(pick, TOTAL_PODS), unit + _pods(pick, UNIT_PODS)
    limited = kind.has(LIMITS) and not unit.is_zero
    return Need(
        cluster=pick(CLUSTERS),
        profile=profile,
        total=total,
        unit=unit,
        arrival_ns=pick((0, 100, 200)),
        group=pick(("", "A", "B")) if profile.same_key else "",
        max_units=pick((0, 0, 1, 1, 2, 3)) if limited else 0,
        for_fragments=kind.has(FRAGMENTS) and pick((False, True)),
    )


def _like(pick: Pick, need: Need) -> Need:
    """A need of the same sort, here and there for one machine only."""
    single = pick((False, True)) and not need.unit.is_zero
    return replace(
        need,
        cluster=pick(CLUSTERS),
        arrival_ns=pick((0, 100, 200)),
        group=pick(("", "A", "B", "C")) if need.group or need.profile.same_key else "",
        total=need.unit if single else need.total,
    )


def _pods(pick: Pick, counts: Sequence[str]) -> Resources:
    return Resources.parse({"pods": pick(counts)})


def _shape(pick: Pick, kind: Kind) -> Shape:
    plain = len(kind.sizes) == 1
    instance_type = pick(TYPES)
    # credited, but not to be got (`engine#pinned-types`)
    told_by_label = not instance_type and pick((False, True))
    stated = pick(STATED_PODS) if kind.has(PODS) and not plain else {}
    return Shape(
        instance_type=instance_type,
        labels=FrozenMap({INSTANCE_TYPE_KEY: "a3"}) if told_by_label else NO_TEXTS,
        capacity_type=pick(tuple(CapacityType)),
        price_per_hour=pick(PRICES),
        interruption_probability=pick((0.0, 0.0, 0.5)),
        resources=FrozenMap({**pick(kind.sizes), **stated}),
        allocatable=NO_TEXTS if plain else pick((NO_TEXTS, NO_TEXTS, NO_TEXTS, FrozenMap({"cpu": "2"}))),
    )


def _machine(
    pick: Pick,
    shapes: Sequence[Shape],
    states: Sequence[MachineState],
    places: Sequence[tuple[str, str]],
    may_serve: Sequence[Need | None],
) -> Machine:
    zone, rack = pick(places)
    plain = pick(shapes)
    shape = replace(
        plain, zone=zone, labels=FrozenMap({**plain.labels, **({RACK_KEY: rack} if rack else {})})
    )
    state = pick(states)
    served = pick(may_serve)
    cluster = pick(CLUSTERS) if served is None else served.cluster
    idle_for = pick((None, 0.0, 60.0, 600.0)) if state is S.IDLE else None
    return Machine(
        id="",
        state=state,
        shape=shape,
        cluster=cluster if state in CLUSTER_REQUIRED else "",
        assigned=_stamp(pick, served, state),
        last_error="it broke" if state is S.FAILED else "",
        idle_since=None if idle_for is None else NOW - idle_for,
        draining_for=_drained_for(pick, may_serve) if state is S.DRAINING else None,
        drain_grace_remaining_s=pick((0.0, 600.0)) if state is S.CONFIGURED else 0.0,
    )


def _with_host_name(pick: Pick, machine: Machine) -> Machine:
    name = pick(HOST_NAMES)
    if name is None:
        return machine
    labels = FrozenMap({**machine.shape.labels, HOST_NAME_KEY: name})
    return replace(machine, shape=machine.shape.with_labels(labels))


def _stamp(pick: Pick, served: Need | None, state: MachineState) -> Assignment:
    """A stamp as the executor would have written it, here and there lost or out of date."""
    if served is None:
        return Assignment(pick(PRIORITIES), 0.0, pick((0.0, 5.0)))
    profile = pick((served.profile, served.profile.without_same))
    return Assignment(
        priority=pick((profile.priority, profile.priority, 0)),
        interruption_penalty=upper_bound(profile.interruption_bucket),
        reclamation_penalty=upper_bound(profile.reclamation_bucket),
        fingerprint=profile.fingerprint,
        group=pick((served.group, served.group, "B", "")),
        cluster=pick((served.cluster, served.cluster, "y", "")) if state is S.CREATING else "",
    )


def _drained_for(pick: Pick, may_serve: Sequence[Need | None]) -> NeedRef | None:
    """The need a machine was preempted for, as it was given or folded; None when it was reclaimed."""
    need = pick(may_serve)
    if need is None:
        return None
    return pick((NeedRef(*need.stamp_key), NeedRef(need.cluster, need.profile.without_same.fingerprint)))
