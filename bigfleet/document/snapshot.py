"""The snapshot document: everything a decision depends on, as JSON, read and written.

Why: a situation that can be saved can be decided again, explained, compared and edited; this is the form of it that
users and other programs see, so its names are contract.
Must never: read a document halfway. It is a situation or one `DocumentError` with the path of the first flaw.
Rules: `engine#snapshot-form`, `engine#snapshot-strict`, `engine#snapshot-decision`, `engine#snapshot-parked`. Writing
is exact: it reads back as an equal situation, with two things left behind that no decision looks at, the provider's
metadata and `parked` entries that name no gang.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bigfleet.document.canonical import many_lines, one_line, plain, without_defaults
from bigfleet.document.errors import WHOLE, DocumentError, quoted
from bigfleet.document.fields import REQUIRED, Extras, Fields, Form, under
from bigfleet.document.machines import MACHINE, MachineReader, machine_object
from bigfleet.document.needs import NEED, NeedReader, need_object
from bigfleet.document.parse import parse_json
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef, IdleHolds, Situation

VERSION = 1

SNAPSHOT: Form = {
    "version": REQUIRED,
    "now": REQUIRED,
    "reported_clusters": None,
    "idle_hold_seconds": {"on_demand": 600, "spot": 60},
    "machines": REQUIRED,
    "needs": REQUIRED,
    "sort_needs": False,
    "parked": [],
}
IDLE_HOLDS: Form = {"on_demand": 600, "spot": 60}
PARKED: Form = {"cluster": REQUIRED, "group": "", "fingerprint": REQUIRED}


@dataclass(frozen=True, slots=True)
class SnapshotDocument:
    """A situation, and what its document said besides."""

    situation: Situation
    places: tuple[int, ...]
    """For each need of the situation its place in the document; they differ where the document asks to sort."""
    sort_needs: bool = False
    extras: Extras = field(default_factory=dict)
    """The `x-` keys by the way to their object; kept for writing, otherwise ignored. The ways hold for this situation:
    code that replaces it drops them or moves them along."""


def read_situation(data: bytes | str) -> SnapshotDocument:
    """Read a snapshot document, or refuse it with the path of its first flaw."""
    try:
        return _read(Fields(parse_json(data), SNAPSHOT))
    except DocumentError as error:
        raise (error if error.field else error.under(WHOLE)) from None


def _read(fields: Fields) -> SnapshotDocument:
    _check_version(fields)
    now = fields.number("now")
    reported = fields.texts_or_null("reported_clusters")
    holds = _holds(fields)
    machines, of_machines = fields.items("machines", MACHINE, MachineReader().read)
    _check_ids(machines)
    listed, of_needs = fields.items("needs", NEED, NeedReader().read)
    sort_needs = fields.flag("sort_needs")
    places = sorted_places(listed) if sort_needs else range(len(listed))
    parked, of_parked = fields.items("parked", PARKED, _gang)
    real = _gangs(listed) if parked else frozenset()
    extras = dict(fields.extras)
    for name, kept_of in (("machines", of_machines), ("needs", of_needs)):
        for place, kept in kept_of.items():
            extras.update(under((name, place), kept))
    written = {gang: place for place, gang in enumerate(sorted(real.intersection(parked)))}
    for place, kept in of_parked.items():
        if parked[place] in written:
            extras.update(under(("parked", written[parked[place]]), kept))
    situation = Situation(
        now=now,
        machines=tuple(machines),
        needs=tuple(listed[place] for place in places),
        parked=frozenset(written),
        reported_clusters=None if reported is None else frozenset(reported),
        holds=holds,
    )
    return SnapshotDocument(situation, tuple(places), sort_needs, extras)


def _check_version(fields: Fields) -> None:
    try:
        fields.integer("version", (VERSION, VERSION))
    except DocumentError as error:
        raise DocumentError(error.field, str(error.found), str(VERSION)) from None


def _holds(fields: Fields) -> IdleHolds:
    part = fields.part("idle_hold_seconds", IDLE_HOLDS)
    allowed = "seconds, a finite number that is not negative"
    try:
        return IdleHolds(
            part.number("on_demand", low=0, allowed=allowed), part.number("spot", low=0, allowed=allowed)
        )
    except DocumentError as error:
        raise error.under("idle_hold_seconds") from None


def _check_ids(machines: Sequence[Machine]) -> None:
    seen: dict[str, int] = {}
    for place, machine in enumerate(machines):
        first = seen.setdefault(machine.id, place)
        if first != place:
            raise DocumentError(
                f"machines[{place}].id",
                quoted(machine.id),
                f"an id of its own, not that of machines[{first}]",
            )


def sorted_places(needs: Sequence[Need]) -> list[int]:
    """The places of needs in the order of a needs table; equal ones keep theirs."""

    def key(place: int) -> tuple[int, int, str]:
        need = needs[place]
        return (-need.profile.priority, need.arrival_ns, need.cluster)

    return sorted(range(len(needs)), key=key)


def _gang(fields: Fields) -> GangRef:
    return GangRef(fields.text("cluster"), fields.text("group"), fields.text("fingerprint"))


def _gangs(needs: Sequence[Need]) -> frozenset[GangRef]:
    return frozenset(
        GangRef(need.cluster, need.group, need.profile.fingerprint)
        for need in needs
        if need.profile.same_key is not None
    )


def write_situation(situation: Situation, *, compact: bool = False) -> bytes:
    """Write a situation as a document: one line per machine and need, or all on one line for a batch."""
    return write_document(SnapshotDocument(situation, tuple(range(len(situation.needs)))), compact=compact)


def write_document(document: SnapshotDocument, *, compact: bool = False) -> bytes:
    """Write a document that was read: needs in its own order, `x-` keys at their places."""
    written = situation_object(document)
    return one_line(written) if compact else many_lines(written)


def situation_object(document: SnapshotDocument) -> dict[str, object]:
    """A document as JSON has it, in the order of its form."""
    situation = document.situation
    by_place = dict(zip(document.places, situation.needs, strict=True))
    machines = [machine_object(machine) for machine in situation.machines]
    needs = [need_object(by_place[place]) for place in range(len(by_place))]
    reported, holds = situation.reported_clusters, situation.holds
    gangs = _gangs(situation.needs) if situation.parked else frozenset()
    parked = [
        without_defaults(PARKED, (gang.cluster, gang.group, gang.fingerprint))
        for gang in sorted(situation.parked & gangs)
    ]
    full = (
        VERSION,
        plain(situation.now),
        None if reported is None else sorted(reported),
        {"on_demand": plain(holds.on_demand_s), "spot": plain(holds.spot_s)},
        machines,
        needs,
        document.sort_needs,
        parked,
    )
    written = without_defaults(SNAPSHOT, full)
    _put_back(written, document.extras)
    return written


_LEFT_OUT: Mapping[str, Mapping[str, object]] = {
    "idle_hold_seconds": {},
    "host": {"provider": "", "ref": ""},
}
"""Objects that are equal to their default, and so not written, unless they carry an `x-` key."""


def _put_back(written: dict[str, object], extras: Extras) -> None:
    for path, kept in extras.items():
        owner: Any = written  # JSON of our own making, whose every level another type would describe
        for step in path:
            if isinstance(step, str) and step not in owner:
                owner[step] = dict(_LEFT_OUT[step])
            owner = owner[step]
        owner.update(sorted(kept.items()))
