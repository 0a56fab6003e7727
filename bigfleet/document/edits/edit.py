"""Reads edits of a snapshot document and applies them.

Why: a what-if runs the production engine on a real situation, and the edits must be as plain, as strict and as
easy to keep as the situation itself.
Must never: apply half a file in silence. An edit that cannot be read, or selects nothing, is refused with its path.
Rules: `dashboard#what-if`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bigfleet.document.edits import machines, needs
from bigfleet.document.edits.draft import Draft, EditedDocument
from bigfleet.document.errors import NOTHING, WHOLE, DocumentError, shown
from bigfleet.document.fields import REQUIRED, Fields, Form
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.document.yaml_text import parse_text
from bigfleet.model.situation import IdleHolds

VERSION = 1

EDITS: Form = {"version": VERSION, "edits": REQUIRED}
PASS_TIME: Form = {"edit": REQUIRED, "seconds": REQUIRED}
SET_IDLE_HOLDS: Form = {"edit": REQUIRED, "on_demand": None, "spot": None}
SET_REPORTED_CLUSTERS: Form = {"edit": REQUIRED, "clusters": REQUIRED}

_NOT_NEGATIVE = "seconds, a finite number that is not negative"


class Edit(Protocol):
    """One change that was read."""

    def apply(self, draft: Draft) -> None:
        """Change the draft, or refuse with a path inside the edit."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """Time that passes while nothing else happens: idle holds run out."""

    seconds: float

    def apply(self, draft: Draft) -> None:
        """Advance the time of the situation."""
        draft.now += self.seconds


@dataclass(frozen=True, slots=True)
class SetIdleHolds:
    """How long bought machines may idle."""

    on_demand_s: float | None
    spot_s: float | None

    def apply(self, draft: Draft) -> None:
        """Replace what is given."""
        on_demand = draft.holds.on_demand_s if self.on_demand_s is None else self.on_demand_s
        draft.holds = IdleHolds(on_demand, draft.holds.spot_s if self.spot_s is None else self.spot_s)


@dataclass(frozen=True, slots=True)
class SetReportedClusters:
    """Which clusters have reported, so that machines may be reclaimed from them; None means all."""

    clusters: frozenset[str] | None

    def apply(self, draft: Draft) -> None:
        """Replace the list."""
        draft.reported_clusters = self.clusters


def _read_pass_time(_raw: Mapping[str, object], fields: Fields) -> PassTime:
    return PassTime(fields.number("seconds", low=0, allowed=_NOT_NEGATIVE))


def _read_idle_holds(raw: Mapping[str, object], fields: Fields) -> SetIdleHolds:
    on_demand, spot = (
        fields.number(name, low=0, allowed=_NOT_NEGATIVE) if name in raw else None
        for name in ("on_demand", "spot")
    )
    if on_demand is None and spot is None:
        raise DocumentError("on_demand", NOTHING, "seconds for on_demand, spot or both")
    return SetIdleHolds(on_demand, spot)


def _read_reported(_raw: Mapping[str, object], fields: Fields) -> SetReportedClusters:
    clusters = fields.texts_or_null("clusters")
    return SetReportedClusters(None if clusters is None else frozenset(clusters))


Reader = Callable[[Mapping[str, object], Fields], Edit]

KINDS: Mapping[str, tuple[Form, Reader]] = {
    "add_machines": (machines.ADD_MACHINES, machines.read_add_machines),
    "remove_machines": (machines.REMOVE_MACHINES, machines.read_remove_machines),
    "lose_zone": (machines.LOSE_ZONE, machines.read_lose_zone),
    "lose_provider": (machines.LOSE_PROVIDER, machines.read_lose_provider),
    "change_machines": (machines.CHANGE_MACHINES, machines.read_change_machines),
    "add_need": (needs.ADD_NEED, needs.read_add_need),
    "remove_needs": (needs.REMOVE_NEEDS, needs.read_remove_needs),
    "change_needs": (needs.CHANGE_NEEDS, needs.read_change_needs),
    "park": (needs.PARK, needs.read_park),
    "unpark": (needs.UNPARK, needs.read_unpark),
    "pass_time": (PASS_TIME, _read_pass_time),
    "set_idle_holds": (SET_IDLE_HOLDS, _read_idle_holds),
    "set_reported_clusters": (SET_REPORTED_CLUSTERS, _read_reported),
}
"""Every edit by its name: its form and its reader."""


def read_edits(data: bytes | str) -> tuple[Edit, ...]:
    """Read an edits file, YAML or JSON, or refuse it with the path of its first flaw."""
    try:
        fields = Fields(parse_text(data), EDITS)
        fields.integer("version", (VERSION, VERSION))
        return edits_of(fields.entries("edits"))
    except DocumentError as error:
        raise (error if error.field else error.under(WHOLE)) from None


def edits_of(values: Iterable[object]) -> tuple[Edit, ...]:
    """Read edits that are plain values already."""
    made: list[Edit] = []
    for place, raw in enumerate(values):
        try:
            made.append(_edit(raw))
        except DocumentError as error:
            raise error.under(f"edits[{place}]") from None
    return tuple(made)


def _edit(raw: object) -> Edit:
    given = raw if type(raw) is dict else {}
    kind = given.get("edit", REQUIRED)
    if not isinstance(kind, str) or kind not in KINDS:
        if type(raw) is not dict:
            Fields(raw, {})  # refuses what is no object, or has a key twice
        found = NOTHING if kind is REQUIRED else shown(kind)
        raise DocumentError("edit", found, f"one of {', '.join(KINDS)}")
    form, read = KINDS[kind]
    return read(given, Fields(raw, form))


def apply_edits(document: SnapshotDocument, edits: Iterable[Edit]) -> EditedDocument:
    """Apply edits one after the other to a document, which stays as it is."""
    draft = Draft(document)
    for place, edit in enumerate(edits):
        try:
            edit.apply(draft)
        except DocumentError as error:
            raise error.under(f"edits[{place}]") from None
    return draft.finished()
