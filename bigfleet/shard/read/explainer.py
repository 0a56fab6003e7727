"""Explanations of the last cycle, made when somebody asks.

Why: a view holds all that a cycle decided on and the decision itself, and the engine is a function; so nothing is written
down while deciding. What only a listener hears, such as what each domain held for a gang, is heard on a second run, whose
decision is the same one (ADR-0120).
Must never: run on the event loop, run more than two at once, or let more than a few wait. Must never answer more slowly
than it helps: on a large fleet what takes further runs of the engine is left out, and the answer says so.
Rules: dashboard 6 and 8.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from bigfleet.aio.net import Code, RefusedError
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide
from bigfleet.explain.case import Case
from bigfleet.explain.changes import Proposal, propose
from bigfleet.explain.cycle_case import CycleCase
from bigfleet.explain.document import machine_explanation_document, need_explanation_document
from bigfleet.explain.finding import find_need, known_machine
from bigfleet.explain.machine import explain_machine
from bigfleet.explain.need import explain_need
from bigfleet.explain.notes import Notes, Recorder
from bigfleet.explain.redecide import Redecider
from bigfleet.model.machine import NeedRef
from bigfleet.model.situation import Situation
from bigfleet.shard.core.views import CycleView
from bigfleet.shard.read.request_limit import RequestLimit

AT_ONCE: Final = 2
WAITING: Final = 8
LARGE: Final = 50_000
"""Beyond so many machines an explanation runs alone, keeps nothing, and is made without further runs of the engine."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explained:
    """One explanation as JSON, and which need it is about."""

    document: bytes
    need: NeedRef | None = None
    changes_tried: bool = False


class _Opened:
    """A cycle as explanations need it: its columns, and records in their place only where changes are tried."""

    def __init__(self, view: CycleView) -> None:
        self.view = view
        self.case = CycleCase(view.snapshot, view.demand, _terms_of(view), view.decision)
        self._notes: Notes | None = None
        self._records: Case | None = None

    def notes(self, place: int) -> Notes | None:
        """What a listener hears; asked for gangs alone, as for other needs it adds nothing."""
        if (
            self._notes is None
            and self.case.need(place).profile.same_key is not None
            and not is_large(self.view)
        ):
            view, recorder = self.view, Recorder()
            decide(
                view.snapshot,
                view.demand.rows,
                parked=view.parked,
                reported_clusters=view.reported_clusters,
                holds=view.holds,
                now=view.now,
                reporter=recorder,
            )
            self._notes = recorder.notes
        return self._notes

    def proposals(self, place: int) -> tuple[Proposal, ...]:
        """Changes that were tried; edits are made on records, so this is what makes them."""
        if self._records is None:
            situation = situation_of(self.view)
            document = SnapshotDocument(situation, tuple(range(len(situation.needs))))
            self._records = Case(document, self.view.decision)
        return tuple(propose(self._records, place, Redecider()))

    def place_of(self, need: NeedRef) -> int | None:
        """Where exactly this need stands; folded ones are found by the class they became."""
        wanted = (need.cluster, need.fingerprint, need.group)
        case = self.case
        return next((place for place in case.places_of(need.cluster) if case.need(place).key == wanted), None)


class Explainer:
    """Explains, a bounded number at a time."""

    def __init__(self) -> None:
        self._slots = RequestLimit("explanations", at_once=AT_ONCE, waiting=WAITING)
        self._alone = asyncio.Lock()
        self._opened: _Opened | None = None

    async def need(self, view: CycleView, text: str, key: NeedRef | None, *, quick: bool) -> Explained:
        """Explain a need, by exact key or by what people call it; a need that is not there is NOT_FOUND."""
        return await self._off_loop(view, lambda: self._need(view, text, key, quick))

    async def machine(self, view: CycleView, machine_id: str) -> Explained:
        """Explain a machine; one that is not there is NOT_FOUND."""
        return await self._off_loop(view, lambda: self._machine(view, machine_id))

    def _need(self, view: CycleView, text: str, key: NeedRef | None, quick: bool) -> Explained:
        opened = self._open(view)
        if key is not None:
            place = opened.place_of(key)
            if place is None:
                raise RefusedError(
                    Code.NOT_FOUND, f"no need {key.cluster}/{key.group} of this profile in this cycle"
                )
        else:
            place = find_need(opened.case, text, "need")
        tries = not quick and not is_large(view)
        proposals = opened.proposals(place) if tries else ()
        need = opened.case.need(place)
        content = need_explanation_document(explain_need(opened.case, place, opened.notes(place), proposals))
        key = NeedRef(need.cluster, need.profile.fingerprint, need.group)
        return Explained(_json(content), key, changes_tried=tries)

    def _machine(self, view: CycleView, machine_id: str) -> Explained:
        case = self._open(view).case
        if machine_id not in case.machines:
            # Raises, naming what is near.
            known_machine(case, machine_id, "machine")
        return Explained(_json(machine_explanation_document(explain_machine(case, machine_id))))

    def _open(self, view: CycleView) -> _Opened:
        kept = self._opened
        if kept is not None and kept.view is view:
            return kept
        opened = _Opened(view)
        self._opened = None if is_large(view) else opened
        return opened

    async def _off_loop(self, view: CycleView, work: Callable[[], T]) -> T:
        async with self._slots.one():
            if not is_large(view):
                return await asyncio.to_thread(work)
            async with self._alone:
                return await asyncio.to_thread(work)


def is_large(view: CycleView) -> bool:
    """Whether the fleet of a cycle is so large that an explanation has to be sparing."""
    return len(view.snapshot) > LARGE


def situation_of(view: CycleView) -> Situation:
    """All that a cycle decided on, as plain records."""
    return replace(bare_situation_of(view), machines=tuple(view.snapshot.machines()))


def bare_situation_of(view: CycleView) -> Situation:
    """The same without the machines, which may be many."""
    return replace(_terms_of(view), needs=view.demand.rows)


def _terms_of(view: CycleView) -> Situation:
    return Situation(
        now=view.now,
        parked=view.parked,
        reported_clusters=view.reported_clusters,
        holds=view.holds,
    )


def _json(content: dict[str, Any]) -> bytes:  # Any: a document of our own making
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
