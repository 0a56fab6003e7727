"""Reads the `machine` and `need` lines of engine scripts.

Why: a row of the oracle names what differs from a few standard machines and profiles; so does a line here.
Rules: `engine#examples`, `engine#examples-folding`. They define the standard machines GPU8 and CPU4, the profiles G and
C, and R6.

    machine i1..i4 Idle                         four GPU8 machines
    machine v1 Configured @batch P400 $6        bound to batch, stamped with priority 400, $6 an hour
    machine s1 Speculative CPU4 $2 zone=za cpu=8 memory=16Gi
    machine cr Creating stamp=a/A               ordered for the need of cluster a, group A
    need a 3xG P2000                            three times gpu 8, priority 2000
    need a cpu=10 unit=cpu:2                    profile C, whose unit is cpu 1 unless said
    need x 2xG same=zone group=A spread=rack:1

Of a machine also: rack= host-name= prob= type= type-label= (only as a label) allocatable=cpu:16,memory:32Gi
penalties=5/1 (dollars, interruption and reclamation) idle-for= (seconds, or never) grace-left= folded-stamp= (without
Same) fingerprint= to= (the cluster a Creating one was ordered for, `-` for none) draining-for= and a capacity type such
as Spot.
Of a need also: interruption= reclamation= (buckets) types=m5,t2 (or any) hosts=i1,i2 no-hosts= arrival=
spread=zone:1:anyway (or none) k=1 (units per machine at most) and `fragments`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import (
    CLUSTER_REQUIRED,
    HOST_REQUIRED,
    NO_HOST,
    Assignment,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
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
from tests.support.golden import ScriptError

STATES = {state.label: state for state in MachineState if state}
CAPACITY_TYPES = {kind.label: kind for kind in CapacityType}
KEYS = {"zone": ZONE_KEY, "type": INSTANCE_TYPE_KEY, "host": HOST_NAME_KEY}  # any other key is used as it is
AMOUNTS = frozenset({"cpu", "memory", "gpu", "pods"})
_RANGE = re.compile(r"(.*?)(\d+)\.\.\1(\d+)")


def _texts(**texts: str) -> FrozenMap[str]:
    return FrozenMap(texts)


@dataclass(frozen=True, slots=True)
class Standard:
    """A machine and the demand for it, as the oracle abbreviates them."""

    shape: Shape
    profile: Profile
    member: Resources
    """What "n times" multiplies."""
    unit: Resources


def _pinned(instance_type: str, priority: int, interruption: int, reclamation: int) -> Profile:
    return Profile(
        requirements=(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, (instance_type,)),),
        priority=priority,
        interruption_bucket=PenaltyBucket(interruption),
        reclamation_bucket=PenaltyBucket(reclamation),
    )


_R6 = _pinned("r6", 1000, 15, 18)
_R6_MEMBER = Resources.parse({"cpu": "2", "memory": "16Gi"})
STANDARDS: Mapping[str, Standard] = {
    "G": Standard(
        Shape("a3", "z1", CapacityType.BARE_METAL, resources=_texts(gpu="8")),
        _pinned("a3", 1000, 16, 27),
        Resources.parse({"gpu": "8"}),
        Resources.parse({"gpu": "8"}),
    ),
    "C": Standard(
        Shape("m5", "z1", CapacityType.ON_DEMAND, 1.0, resources=_texts(cpu="4", memory="16Gi")),
        _pinned("m5", 100, 13, 3),
        Resources.parse({"cpu": "4"}),
        Resources.parse({"cpu": "1"}),
    ),
    "R6": Standard(
        Shape(
            "r6",
            "z1",
            CapacityType.BARE_METAL,
            resources=_texts(cpu="16", memory="128Gi"),
            labels=_texts(rack="r0"),
        ),
        replace(
            _R6,
            requirements=(*_R6.requirements, Requirement("rack", RequirementOperator.SAME)),
            spreads=(Spread(ZONE_KEY, 1),),
        ),
        _R6_MEMBER,
        _R6_MEMBER,
    ),
}
MACHINE_KINDS = {"GPU8": "G", "CPU4": "C", "R6": "R6"}


@dataclass(frozen=True, slots=True)
class MachineLine:
    """A machine as a script says it; stamps that name a need are filled in once the needs are known."""

    machine: Machine
    stamp: str = ""
    """`cluster` or `cluster/group` of the need whose fingerprint it carries."""
    folded_stamp: str = ""
    """The same, for the fingerprint without Same."""
    draining_for: str = ""


@dataclass(slots=True)
class _Words:
    """Words of one line, taken one kind after the other; what is left over is a mistake."""

    words: list[str]
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for word in self.words:
            key, equals, value = word.partition("=")
            if equals:
                self.options[key] = value
        self.words = [word for word in self.words if "=" not in word]

    def take(self, known: Mapping[str, object]) -> str | None:
        """The first word that is one of these."""
        word = next((word for word in self.words if word in known), None)
        if word is not None:
            self.words.remove(word)
        return word

    def after(self, mark: str) -> str | None:
        """What follows a mark as in `@a`, `$6` or `P100`."""
        word = next((word for word in self.words if word.startswith(mark) and word != mark), None)
        if word is not None:
            self.words.remove(word)
        return word and word.removeprefix(mark)

    def option(self, key: str, default: str = "") -> str:
        """The value of `key=value`."""
        return self.options.pop(key, default)

    def amounts(self) -> dict[str, str]:
        """Resource amounts said as `cpu=4 memory=16Gi`."""
        return {name: self.options.pop(name) for name in sorted(AMOUNTS & self.options.keys())}

    def end(self) -> None:
        """Refuse words that were not used."""
        left = [*self.words, *(f"{key}={value}" for key, value in self.options.items())]
        if left:
            raise ScriptError(f"do not understand {' '.join(left)!r}")


def ids(text: str) -> Iterator[str]:
    """The ids of `a,b` and of `i1..i4`."""
    for part in text.split(","):
        span = _RANGE.fullmatch(part)
        if span is None:
            yield part
        else:
            prefix, first, last = span.groups()
            yield from (f"{prefix}{n:0{len(first)}d}" for n in range(int(first), int(last) + 1))


def vector(text: str) -> FrozenMap[str]:
    """The map of `cpu:16,memory:32Gi`."""
    parts = (part.partition(":") for part in text.split(",")) if text else ()
    return FrozenMap((name, amount) for name, _, amount in parts)


def machine_lines(words: Sequence[str], now: float) -> list[MachineLine]:
    """Read the words after `machine`."""
    if len(words) < 2 or words[1] not in STATES:
        raise ScriptError(f"a machine has an id and one of the states {', '.join(STATES)}")
    state = STATES[words[1]]
    said = _Words(list(words[2:]))
    standard = STANDARDS[MACHINE_KINDS[said.take(MACHINE_KINDS) or "GPU8"]]
    shape = _shape(said, standard.shape)
    cluster = said.after("@") or ""
    priority = int(said.after("P") or (standard.profile.priority if cluster else 0))
    interruption, _, reclamation = said.option("penalties", "0/0").partition("/")
    idle_for = said.option("idle-for", "0")
    line = MachineLine(
        Machine(
            id="",
            state=state,
            shape=shape,
            cluster=cluster,
            assigned=Assignment(
                priority,
                float(interruption),
                float(reclamation),
                said.option("fingerprint"),
                said.option("group"),
                said.option("to"),
            ),
            last_error="it broke" if state is MachineState.FAILED else "",
            idle_since=now - float(idle_for) if state is MachineState.IDLE and idle_for != "never" else None,
            drain_grace_remaining_s=float(said.option("grace-left", "0")),
        ),
        stamp=said.option("stamp"),
        folded_stamp=said.option("folded-stamp"),
        draining_for=said.option("draining-for"),
    )
    said.end()
    if state in CLUSTER_REQUIRED and not cluster:
        raise ScriptError(f"a machine that is {state.label} needs a cluster, as in @a")
    return [replace(line, machine=_named(line.machine, machine_id)) for machine_id in ids(words[0])]


def _named(machine: Machine, machine_id: str) -> Machine:
    host = HostRef("rack", machine_id) if machine.state in HOST_REQUIRED else NO_HOST
    return replace(machine, id=machine_id, host=host)


def _shape(said: _Words, standard: Shape) -> Shape:
    labels = dict(standard.labels)
    if rack := said.option("rack"):
        labels["rack"] = rack
    if host_name := said.option("host-name"):
        labels[HOST_NAME_KEY] = host_name
    if label := said.option("type-label"):
        labels[INSTANCE_TYPE_KEY] = label
    capacity_type = said.take(CAPACITY_TYPES)
    return replace(
        standard,
        instance_type=said.option("type", standard.instance_type),
        zone=said.option("zone", standard.zone).replace("none", ""),
        capacity_type=CAPACITY_TYPES[capacity_type] if capacity_type else standard.capacity_type,
        price_per_hour=float(said.after("$") or standard.price_per_hour),
        interruption_probability=float(said.option("prob", "0")),
        resources=FrozenMap(said.amounts() or standard.resources),
        allocatable=vector(said.option("allocatable")),
        labels=FrozenMap(labels),
    )


def needs_of_line(words: Sequence[str]) -> list[Need]:
    """Read the words after `need`; a range of groups says one need for each."""
    if not words:
        raise ScriptError("a need has a cluster")
    said = _Words(list(words[1:]))
    times = next((word for word in said.words if re.fullmatch(r"\d+x(G|C|R6)", word)), "")
    if times:
        said.words.remove(times)
    count, _, kind = times.partition("x")
    standard = STANDARDS[kind or said.take(STANDARDS) or "C"]
    total = standard.member.scaled(int(count)) if int(count or 0) else ZERO
    unit = said.option("unit")
    for_fragments = said.take({"fragments": True}) is not None
    need = Need(
        cluster=words[0],
        profile=_profile(said, standard.profile),
        total=total + Resources.parse(said.amounts()),
        unit=Resources.parse(vector(unit)) if unit else standard.unit,
        arrival_ns=int(said.option("arrival", "0")),
        max_units=int(said.option("k", "0")),
        for_fragments=for_fragments,
    )
    groups = [*ids(said.option("group"))]
    said.end()
    return [replace(need, group=group) for group in groups]


def _profile(said: _Words, standard: Profile) -> Profile:
    requirements = standard.requirements
    if types := said.option("types"):
        others = tuple(item for item in requirements if item.key != INSTANCE_TYPE_KEY)
        pinned = Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, tuple(types.split(",")))
        requirements = others if types == "any" else (*others, pinned)
    for word, operator in (("hosts", RequirementOperator.IN), ("no-hosts", RequirementOperator.NOT_IN)):
        if hosts := said.option(word):
            requirements = (*requirements, Requirement(HOST_NAME_KEY, operator, tuple(hosts.split(","))))
    if same := said.option("same"):
        requirements = (*requirements, Requirement(KEYS.get(same, same), RequirementOperator.SAME))
    spread = said.option("spread")
    return replace(
        standard,
        requirements=requirements,
        spreads=standard.spreads if not spread else tuple(_spreads(spread)),
        priority=int(said.after("P") or standard.priority),
        interruption_bucket=PenaltyBucket(
            int(said.option("interruption", str(standard.interruption_bucket)))
        ),
        reclamation_bucket=PenaltyBucket(int(said.option("reclamation", str(standard.reclamation_bucket)))),
    )


def _spreads(text: str) -> Iterator[Spread]:
    for part in () if text == "none" else text.split(","):
        key, skew, *anyway = part.split(":")
        when = WhenUnsatisfiable.SCHEDULE_ANYWAY if anyway else WhenUnsatisfiable.DO_NOT_SCHEDULE
        yield Spread(KEYS.get(key, key), int(skew), when)
