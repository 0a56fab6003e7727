"""Acquisition: what existing machines leave open is filled from Idle, then from Speculative.

Why: the second half of Phase 1; each claim made here becomes a Bootstrap or a Provision.
Must never: depend on anything but precedence, gangs first among equals, and list order (`engine#acquisition-order`,
`engine#commit-broker`, `engine#prepass-order`).
Rules: `engine#acquisition-order`, `engine#ordinary-picker`, `engine#gang-picker`, `engine#spread-picker`; Idle order by
`engine#pools`, what counts as supply by `engine#obtainable`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bigfleet.engine.amounts import Vector
from bigfleet.engine.fleet import Fleet
from bigfleet.engine.fold import PlannedNeed
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.phase1.broker import Broker, CommitMode
from bigfleet.engine.phase1.spread import FEW_VALUES, FewGroups, Groups, ManyGroups
from bigfleet.engine.pools import Stream
from bigfleet.engine.reporter import Reporter
from bigfleet.engine.reporting import free_for, report_acquired
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.profile import Spread, WhenUnsatisfiable

_STATES = (MachineState.IDLE, MachineState.SPECULATIVE)
_LOOK = 32


@dataclass(slots=True)
class OpenNeed:
    """A need that the pre-pass did not cover, while acquisition and Phase 2 work on it."""

    place: int
    """In list order."""
    plan: PlannedNeed
    domain: str | None
    credited: Numbers
    """Rows it holds already."""
    missing: Vector
    acquired: Sequence[int] = ()

    @property
    def need(self) -> Need:
        """The need itself."""
        return self.plan.need

    @property
    def rank(self) -> tuple[object, ...]:
        """By precedence, gangs first among equals, then list order."""
        priority, interruption, reclamation = self.need.profile.precedence
        return (-priority, -interruption, -reclamation, self.need.profile.same_key is None, self.place)


def run_acquisition(fleet: Fleet, open_needs: Sequence[OpenNeed], reporter: Reporter | None = None) -> Broker:
    """Serve the needs that miss something, one after the other."""
    broker = Broker(fleet.state.size, [item.need.profile.precedence for item in open_needs])
    pass_ = _Pass(fleet, broker)
    for number, item in sorted(enumerate(open_needs), key=lambda pair: pair[1].rank):
        if reporter is None:
            pass_.serve(number, item)
            continue
        free = free_for(fleet, item.need, item.domain, broker.taken)
        pass_.serve(number, item)
        report_acquired(reporter, fleet, item.place, free, broker.held[number])
    for number, item in enumerate(open_needs):
        item.acquired = broker.held[number]
    return broker


def strict_spread(need: Need) -> Spread | None:
    """The one spread that is enforced: the first in canonical order that forbids scheduling otherwise."""
    strict = (
        item for item in need.profile.spreads if item.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    )
    return next(strict, None)


class _Pass:
    """One pass over open needs, with the streams they share."""

    def __init__(self, fleet: Fleet, broker: Broker) -> None:
        self._fleet, self._kinds, self._broker = fleet, fleet.kinds, broker
        self._streams: dict[tuple[object, ...], Stream] = {}
        self._groups: dict[tuple[object, ...], Groups] = {}
        self._dry: dict[MachineState, Stream] = {}
        """One for all needs that no kind of machine fits."""

    def serve(self, number: int, item: OpenNeed) -> None:
        key = item.need.profile.same_key
        spread = strict_spread(item.need)
        if key is not None:
            if not item.plan.parked:
                self._serve_gang(number, item, key)
        elif spread is not None:
            groups = self._spread_groups(item.need, spread.topology_key)
            item.missing = groups.pick(
                number, item.credited, item.missing, spread.max_skew, self._kinds.sizes_for(item.need)
            )
        else:
            for state in _STATES:
                self._take(number, item, self._stream(item.need, state), CommitMode.INCREMENTAL)

    def _take(self, number: int, item: OpenNeed, stream: Stream, mode: CommitMode) -> int:
        """Claim from a stream until nothing is missing or it is dry; return how many were taken."""
        look, taken = _LOOK, 0
        while any(item.missing):
            rows = stream.ahead(self._broker.taken, look)
            if not rows.size:
                break
            count, item.missing = self._cover(item.need, rows[:look], item.missing)
            self._broker.propose(number, rows[:count], mode)
            taken += count
            look *= 4
        return taken

    def _cover(self, need: Need, rows: Numbers, missing: Vector) -> tuple[int, Vector]:
        return self._kinds.sizes_for(need).cover(self._kinds.size[self._fleet.kind[rows]], missing)

    def _serve_gang(self, number: int, item: OpenNeed, key: str) -> None:
        values = self._kinds.values(key)
        mode = CommitMode.INCREMENTAL if item.need.unit.covers(item.need.total) else CommitMode.ALL_OR_NOTHING
        domain = item.domain
        for state in _STATES:
            chosen = domain
            if chosen is None and any(item.missing):
                chosen = self._fallback_domain(item, state, key)
            if chosen is None:
                continue
            here = values.codes == values.code(chosen)
            taken = self._take(number, item, self._stream(item.need, state, (key, chosen), here), mode)
            if domain is None and taken:
                domain = chosen  # what Idle yielded binds the Speculative step (`engine#gang-picker`)

    def _fallback_domain(self, item: OpenNeed, state: MachineState, key: str) -> str | None:
        """Where a gang without a domain looks: a value that covers it, by cost of its first machine; else the fullest."""
        values = self._kinds.values(key)
        free = self._stream(item.need, state, (key,), values.present).everything(self._broker.taken)
        codes = values.codes[self._fleet.kind[free]]
        costs = self._kinds.costs(item.need.profile.interruption_bucket)
        best: tuple[object, ...] | None = None
        chosen: str | None = None
        for code in np.unique(codes).tolist():
            rows = free[codes == code]
            covers = not any(self._cover(item.need, rows, item.missing)[1])
            cost = float(costs[self._fleet.kind[rows[0]]])
            rank = (False, 0, cost, code) if covers else (True, -rows.size, cost, code)
            if best is None or rank < best:
                best, chosen = rank, values.values[code]
        return chosen

    def _stream(
        self, need: Need, state: MachineState, where: tuple[str, ...] = (), flags: Flags | None = None
    ) -> Stream:
        """The stream of machines in a state that a need may acquire, perhaps only where some label says so."""
        profile = need.profile
        name = (state, profile.requirements_text, need.unit, profile.interruption_bucket, where)
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = self._new_stream(need, state, flags)
        return found

    def _new_stream(self, need: Need, state: MachineState, flags: Flags | None) -> Stream:
        wanted = self._kinds.acquirable(need.profile, need.unit)
        wanted = wanted if flags is None else wanted & flags
        order, tiers = self._kinds.by_cost(need.profile.interruption_bucket)
        kinds = order[wanted[order]]
        if not kinds.size and state in self._dry:
            return self._dry[state]
        second = self._fleet.reclamation_penalty if state is MachineState.IDLE else None
        stream = Stream(self._fleet.pool(state), kinds, tiers[kinds], second)
        if not kinds.size:
            self._dry[state] = stream
        return stream

    def _spread_groups(self, need: Need, key: str) -> Groups:
        name = (need.profile.requirements_text, need.unit, need.profile.interruption_bucket, key)
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = self._new_groups(need, key)
        return found

    def _new_groups(self, need: Need, key: str) -> Groups:
        values, costs = self._kinds.values(key), self._kinds.costs(need.profile.interruption_bucket)
        if len(values.values) > FEW_VALUES:
            idle, speculative = (
                self._stream(need, state).everything(self._broker.taken) for state in _STATES
            )
            return ManyGroups(self._fleet, self._broker, key, costs, (idle, speculative))

        def streams(value: str) -> tuple[Stream, Stream]:
            here = values.codes == values.code(value)
            # Not shared: the queues of these groups read their streams dry.
            idle, speculative = (self._new_stream(need, state, here) for state in _STATES)
            return idle, speculative

        return FewGroups(self._fleet, self._broker, key, costs, streams)
