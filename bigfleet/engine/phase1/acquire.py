"""Acquisition: what existing machines leave open is filled from Idle, then from Speculative.

Why: the second half of Phase 1; each claim made here becomes a Bootstrap or a Provision.
Must never: depend on anything but precedence, gangs first among equals, and list order (`engine#acquisition-order`,
`engine#commit-broker`, `engine#prepass-order`).
Rules: `engine#acquisition-order`, `engine#ordinary-picker`, `engine#gang-picker`, `engine#spread-picker`; Idle order by
`engine#pools`, what counts as supply by `engine#obtainable`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from bigfleet.engine.amounts import Vector, fill
from bigfleet.engine.asks import GANG, strict_spread
from bigfleet.engine.fleet import Fleet
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.phase1.broker import Broker, CommitMode, Precedence
from bigfleet.engine.phase1.open_needs import OpenNeed, OpenNeeds
from bigfleet.engine.phase1.queues import STATES, Queue, stream_of
from bigfleet.engine.phase1.spread import FEW_VALUES, FewGroups, Groups, ManyGroups
from bigfleet.engine.pools import Stream
from bigfleet.engine.radix import stable_order
from bigfleet.engine.reporter import Reporter
from bigfleet.engine.reporting import free_for, report_acquired
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need

_LOOK = 32
_PLENTY = 2**40
_WORTH_A_PART = 64
"""So many needs, in the mean, make it worth while to look at each rank apart."""


def run_acquisition(fleet: Fleet, open_needs: OpenNeeds, reporter: Reporter | None = None) -> Broker:
    """Serve the needs that miss something, each as if those before it in precedence had been served one by one."""
    broker = Broker(fleet.state.size, _Precedences(open_needs))
    asks, ask_of = open_needs.asks, open_needs.ask_of
    # By precedence, gangs first among equals, then list order.
    rank = asks.precedence * 2 + (asks.queue != GANG)
    order = stable_order(rank[ask_of], 2 * len(asks) + 2)
    pass_ = _Pass(fleet, broker)
    if reporter is None:
        batches = _Batches(fleet, open_needs, broker, pass_)
        for part in _parts(order, rank[ask_of[order]]):
            batches.serve(part)
        return broker
    for number in order.tolist():
        item = open_needs.one(number)
        free = free_for(fleet, item.need, item.domain, broker.taken)
        pass_.serve(number, item)
        open_needs.got(number, broker.held[number], item.missing)
        report_acquired(reporter, fleet, item.place, free, broker.held[number])
    return broker


def _parts(order: Numbers, ranks: Numbers) -> Sequence[Numbers]:
    """Needs that are served one part after the other: queues that share a machine seldom do so within one rank."""
    starts = np.flatnonzero(np.diff(ranks)) + 1
    if not order.size or order.size < _WORTH_A_PART * starts.size:
        return (order,)
    return np.split(order, starts)


class _Precedences:
    """The precedence of each open need."""

    def __init__(self, open_needs: OpenNeeds) -> None:
        self._asks, self._ask_of = open_needs.asks, open_needs.ask_of

    def __getitem__(self, number: int) -> Precedence:
        return self._asks.needs[int(self._ask_of[number])].profile.precedence


class _Batches:
    """Open needs in the order in which they are served, as many in one step as cannot come into each other's way."""

    def __init__(self, fleet: Fleet, open_needs: OpenNeeds, broker: Broker, pass_: "_Pass") -> None:
        self._fleet, self._kinds, self._open = fleet, fleet.kinds, open_needs
        self._broker, self._pass = broker, pass_
        self._asks = open_needs.asks
        self._queue_of = self._asks.queue[open_needs.ask_of]
        self._single = self._asks.single[open_needs.ask_of]
        self._there = fleet.acquirable_counts() > 0
        self._sources: dict[int, Queue] = {}
        self._feeds: dict[int, Iterator[int]] = {}

    def serve(self, order: Numbers) -> None:
        """Serve some needs, given in order, after all that come before them."""
        queue_of, queues = self._queue_of, self._asks.queue_kinds
        used = [int(queue) for queue in np.unique(queue_of[order]) if queue >= 0]
        contested, dry = self._contested(used, order), np.ones(len(queues) + 2, dtype=np.bool_)
        dry[[GANG, -2]] = False
        one_by_one = ~dry
        alone = []
        for queue in used:
            here = queues[queue].flags & self._there
            dry[queue] = not here.any()
            one_by_one[queue] = bool((contested & here).any())
            if not dry[queue] and not one_by_one[queue]:
                alone.append(queue)
        order = order[~dry[queue_of[order]]]  # what nothing fits takes nothing from anybody
        for queue in alone:
            if not self._in_one_step(queue, order[queue_of[order] == queue]):
                one_by_one[queue] = True
        self._one_by_one(order[one_by_one[queue_of[order]]])

    def _contested(self, used: Sequence[int], order: Numbers) -> Flags:
        """The kinds of machines for which the order of needs of different queues matters."""
        uses = np.zeros(len(self._kinds), dtype=np.intp)
        for queue in used:
            uses += self._asks.queue_kinds[queue].flags
        contested: Flags = uses > 1
        for ask in np.unique(self._open.ask_of[order][self._queue_of[order] < 0]).tolist():
            contested |= self._asks.flags[ask]
        return contested

    def _in_one_step(self, queue: int, members: Numbers) -> bool:
        """Serve the needs of a queue from which no other takes; False if sizes differ, so that it takes more than arithmetic."""
        source = self._sources.get(queue)
        if source is None:
            source = self._sources[queue] = self._queue(queue)
        if self._single[members].all():
            rows = source.first(members.size)
            self._covered(members[: rows.size], rows)
            return True
        flags = self._asks.queue_kinds[queue].flags & self._there
        sizes = np.unique(self._kinds.size[flags])
        if sizes.size > 1:
            return False
        size = int(sizes[0])
        counts = self._counts(members, size)
        ends = np.cumsum(counts)
        rows = source.first(min(int(ends[-1]), self._fleet.state.size))
        covered = int(np.searchsorted(ends, rows.size, side="right"))
        whose = np.repeat(members[:covered], counts[:covered])
        self._covered(whose, rows[: whose.size])
        rest = rows[whose.size :]
        if rest.size:  # the next need takes what is left, and those after it find nothing
            number = int(members[covered])
            vector = self._kinds.sizes_for(self._open.one(number).need).vectors[size]
            self._broker.grant(np.full(rest.size, number), rest)
            self._open.got(number, rest, fill(self._open.missing(number), vector, rest.size)[1])
        return True

    def _counts(self, members: Numbers, size: int) -> Numbers:
        """How many machines of one size each need takes; more than there are where they never cover it."""
        known: dict[tuple[int, Vector], int] = {}
        counts = []
        for number, ask in zip(members.tolist(), self._open.ask_of[members].tolist(), strict=True):
            name = (ask, self._open.missing(number))
            count = known.get(name)
            if count is None:
                vector = self._kinds.sizes_for(self._asks.needs[ask]).vectors[size]
                count = known[name] = min(fill(name[1], vector, _PLENTY)[0], self._fleet.state.size + 1)
            counts.append(count)
        return np.array(counts, dtype=np.intp)

    def _queue(self, queue: int) -> Queue:
        return Queue(self._fleet, self._asks.queue_kinds[queue], self._broker.marks)

    def _covered(self, whose: Numbers, rows: Numbers) -> None:
        self._broker.grant(whose, rows)
        self._open.covered(whose, rows)

    def _one_by_one(self, order: Numbers) -> None:
        """Serve needs one after the other, where each may take what another wants."""
        feeds = self._feeds
        for queue in np.unique(self._queue_of[order]).tolist():
            if queue >= 0 and queue not in feeds:
                feeds[queue] = self._queue(queue).one_by_one()
        taken, open_needs, broker = self._broker.marks, self._open, self._broker
        whose: list[int] = []
        rows: list[int] = []
        numbers, queues = order.tolist(), self._queue_of[order].tolist()
        for number, queue, single in zip(numbers, queues, self._single[order].tolist(), strict=True):
            if single and queue >= 0:
                row = next(feeds[queue], None)
                if row is not None:
                    taken[row] = 1
                    whose.append(number)
                    rows.append(row)
                continue
            item = open_needs.one(number)
            self._pass.serve(number, item)
            open_needs.got(number, broker.held.get(number, ()), item.missing)
        self._covered(np.array(whose, dtype=np.intp), np.array(rows, dtype=np.intp))


class _Pass:
    """One pass over open needs, with the streams they share."""

    def __init__(self, fleet: Fleet, broker: Broker) -> None:
        self._fleet, self._kinds, self._broker = fleet, fleet.kinds, broker
        self._streams: dict[tuple[object, ...], Stream] = {}
        self._groups: dict[tuple[object, ...], Groups] = {}

    def serve(self, number: int, item: OpenNeed) -> None:
        key = item.need.profile.same_key
        spread = strict_spread(item.need.profile)
        if key is not None:
            if not item.plan.parked:
                self._serve_gang(number, item, key)
        elif spread is not None:
            groups = self._spread_groups(item.need, spread.topology_key)
            item.missing = groups.pick(
                number, item.credited, item.missing, spread.max_skew, self._kinds.sizes_for(item.need)
            )
        else:
            for state in STATES:
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
        for state in STATES:
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
        eligible = self._kinds.acquirable(need.profile, need.unit)
        bucket = need.profile.interruption_bucket
        name = (state, id(eligible), bucket, where)
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = self._new_stream(need, state, flags)
        return found

    def _new_stream(self, need: Need, state: MachineState, flags: Flags | None) -> Stream:
        wanted = self._kinds.acquirable(need.profile, need.unit)
        wanted = wanted if flags is None else wanted & flags
        return stream_of(self._fleet, state, wanted, need.profile.interruption_bucket)

    def _spread_groups(self, need: Need, key: str) -> Groups:
        name = (need.profile.requirements_text, need.unit, need.profile.interruption_bucket, key)
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = self._new_groups(need, key)
        return found

    def _new_groups(self, need: Need, key: str) -> Groups:
        values, costs = self._kinds.values(key), self._kinds.costs(need.profile.interruption_bucket)
        if len(values.values) > FEW_VALUES:
            idle, speculative = (self._stream(need, state).everything(self._broker.taken) for state in STATES)
            return ManyGroups(self._fleet, self._broker, key, costs, (idle, speculative))

        def streams(value: str) -> tuple[Stream, Stream]:
            here = values.codes == values.code(value)
            # Not shared: the queues of these groups read their streams dry.
            idle, speculative = (self._new_stream(need, state, here) for state in STATES)
            return idle, speculative

        return FewGroups(self._fleet, self._broker, key, costs, streams)
