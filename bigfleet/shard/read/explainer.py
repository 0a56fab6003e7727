"""Explains the needs and machines of the last cycle on request.

Why: a view holds a cycle's input and decision, and the engine is a pure function, so a cycle records nothing extra. What
only a reporter sees, such as the supply of each domain for a gang, comes from a second run with the same decision
(ADR-0120).
Must never: run on the event loop, run more than two at once, or let more than a few wait. On a large fleet it skips what
needs further runs of the engine, and the answer says so.
Rules: `dashboard#explain`, `dashboard#insight-service`.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide
from bigfleet.explain.changes import Proposal, propose
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.document import machine_explanation_document, need_explanation_document
from bigfleet.explain.domain_ranking import DomainNotes, DomainRecorder
from bigfleet.explain.left_out import next_attempt, offering_name
from bigfleet.explain.lookup import find_need, known_machine
from bigfleet.explain.machine import explain_left_out, explain_machine
from bigfleet.explain.need import explain_need
from bigfleet.explain.redecide import Redecider
from bigfleet.model.machine import Machine, NeedRef
from bigfleet.model.situation import Situation
from bigfleet.shard.core.coverage import Coverage
from bigfleet.shard.core.read.left_out_machines import left_out_of
from bigfleet.shard.core.read.machine_hold_offs import STOCKED_OUT, MachineHoldOff, MachineHoldOffs
from bigfleet.shard.core.views import CycleView
from bigfleet.shard.read.request_limit import RequestLimit

AT_ONCE: Final = 2
WAITING: Final = 8
LARGE: Final = 50_000
"""Above this many machines, explanations run one at a time, cache nothing, and use no further runs of the engine."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explained:
    """One explanation as JSON, and the need it is about."""

    document: bytes
    need: NeedRef | None = None
    changes_tried: bool = False


@dataclass(frozen=True, slots=True)
class PresentFacts:
    """What an explanation knows beyond the cycle."""

    coverage: Coverage
    """Of the cycle that is explained."""
    now_s: float
    """On the clock of `CycleView.now`."""


class _Opened:
    """A cycle prepared for explanations; records are made only where changes are tried."""

    def __init__(self, view: CycleView) -> None:
        self.view = view
        self.cycle = DecidedCycle(view.snapshot, view.decision, _terms_of(view), view.demand)
        self._notes: DomainNotes | None = None
        self._document: SnapshotDocument | None = None

    def notes(self, place: int) -> DomainNotes | None:
        """The notes of a reporter; only gangs need them."""
        if (
            self._notes is None
            and self.cycle.need(place).profile.same_key is not None
            and not is_large(self.view)
        ):
            view, recorder = self.view, DomainRecorder()
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
        """The changes that were tried; they edit records, so this makes the records."""
        if self._document is None:
            situation = situation_of(self.view)
            self._document = SnapshotDocument(situation, tuple(range(len(situation.needs))))
        return propose(self.cycle, self._document, place, Redecider())

    def place_of(self, need: NeedRef) -> int | None:
        """The place of a need; a folded need is found by its class."""
        wanted = (need.cluster, need.fingerprint, need.group)
        cycle = self.cycle
        return next(
            (place for place in cycle.places_of(need.cluster) if cycle.need(place).stamp_key == wanted), None
        )


class Explainer:
    """Explains needs and machines, a bounded number at a time."""

    def __init__(self) -> None:
        self._slots = RequestLimit("explanations", at_once=AT_ONCE, waiting=WAITING)
        self._alone = asyncio.Lock()
        self._opened: _Opened | None = None

    async def need(
        self,
        view: CycleView,
        text: str,
        key: NeedRef | None,
        *,
        quick: bool,
        now: PresentFacts,
    ) -> Explained:
        """Explain a need, by exact key or by a name; NOT_FOUND when there is no such need."""
        return await self._off_loop(view, lambda: self._need(view, text, key, quick, now))

    async def machine(self, view: CycleView, machine_id: str, *, now_s: float) -> Explained:
        """Explain a machine; NOT_FOUND when there is no such machine."""
        return await self._off_loop(view, lambda: self._machine(view, machine_id, now_s))

    def _need(
        self,
        view: CycleView,
        text: str,
        key: NeedRef | None,
        quick: bool,
        now: PresentFacts,
    ) -> Explained:
        opened = self._open(view)
        if key is not None:
            place = opened.place_of(key)
            if place is None:
                raise RpcRefusedError(
                    Code.NOT_FOUND, f"no need {key.cluster}/{key.group} of this profile in this cycle"
                )
        else:
            place = find_need(opened.cycle, text, "need")
        tries = not quick and not is_large(view)
        proposals = opened.proposals(place) if tries else ()
        need = opened.cycle.need(place)
        explanation = explain_need(
            opened.cycle,
            place,
            opened.notes(place),
            proposals,
            coverage=now.coverage.of(place),
            left_out=left_out_of(view, now.now_s),
        )
        content = need_explanation_document(explanation)
        key = NeedRef(need.cluster, need.profile.fingerprint, need.group)
        return Explained(_json(content), key, changes_tried=tries)

    def _machine(self, view: CycleView, machine_id: str, now_s: float) -> Explained:
        cycle = self._open(view).cycle
        row = view.every_machine.row_of(machine_id)
        if row is None:
            # Raises, and names similar ids.
            known_machine(cycle, machine_id, "machine")
            raise KeyError(machine_id)
        machine = view.every_machine.machine(row)
        held = MachineHoldOffs(view, now_s).of(machine)
        words = "" if held is None else _held_off(machine, held)
        if machine_id in cycle.machines:
            explanation = explain_machine(cycle, machine_id, words)
        else:
            explanation = explain_left_out(machine, words or "the decision left it out")
        return Explained(_json(machine_explanation_document(explanation)))

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


def _held_off(machine: Machine, held: MachineHoldOff) -> str:
    if held.reason == STOCKED_OUT:
        shape = machine.shape
        offering = offering_name(shape.instance_type, shape.zone, shape.capacity_type)
        return f"{offering} is stocked out, {next_attempt(held.left_s)}"
    return f"its last action failed ({held.error}), {next_attempt(held.left_s)}"


def is_large(view: CycleView) -> bool:
    """Whether the fleet of a cycle is too large for further runs of the engine."""
    return len(view.snapshot) > LARGE


def situation_of(view: CycleView) -> Situation:
    """The input of a cycle as plain records."""
    return replace(bare_situation_of(view), machines=tuple(view.snapshot.machines()))


def bare_situation_of(view: CycleView) -> Situation:
    """The input of a cycle without its machines, which may be many."""
    return replace(_terms_of(view), needs=view.demand.rows)


def _terms_of(view: CycleView) -> Situation:
    return Situation(
        now=view.now,
        parked=view.parked,
        reported_clusters=view.reported_clusters,
        holds=view.holds,
    )


def _json(content: dict[str, Any]) -> bytes:  # Any: a JSON document
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
