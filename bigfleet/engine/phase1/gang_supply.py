"""What gangs may count on: acquirable machines by domain, less those that a gang before them will take.

Why: a gang that is short fills up from its domain later. So that gangs visited afterwards do not count on the same
machines, it marks them (`engine#consumption`); marks are only for the pre-pass.
Must never: see ordinary needs, which neither make marks nor see them.
Rules: `engine#gang-supply`, `engine#consumption`, `engine#obtainable`.
"""

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import Vector
from bigfleet.engine.fleet import Fleet
from bigfleet.engine.fold import PlannedNeed
from bigfleet.engine.key_values import Numbers
from bigfleet.engine.phase1.domains import Supply
from bigfleet.engine.pools import Stream
from bigfleet.model.machine import MachineState
from bigfleet.model.resources import Resources

PoolName = tuple[str, Resources, int, str, bool]
"""What gangs of one pool have in common; the flag says that interruptible machines are refused."""

_A_FEW = 12  # machines that a gang or two have taken since the last look; beyond that arrays are quicker


class GangSupply:
    """One cycle's acquirable machines as gangs see them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._kinds = fleet, fleet.kinds
        self._counts = fleet.acquirable_counts()
        self._kind_of = fleet.kind
        self._whole: dict[PoolName, Supply] = {}
        self._left: dict[PoolName, tuple[Supply, int]] = {}
        self._streams: dict[tuple[PoolName, int, MachineState], Stream] = {}
        self._consumed: NDArray[np.bool_] | None = None
        self._log: list[int] = []  # the kind of every machine consumed, in order
        self._turns: list[tuple[object, ...]] = []  # of the gang that consumed it

    def now(self, plan: PlannedNeed, key: str) -> Supply:
        """What is left for a gang whose turn it is."""
        name = _name(plan, key)
        left, seen = self._left.get(name) or (self._all(plan, key), 0)
        if seen < len(self._log):
            left = self._less(left, plan, key, self._log[seen:])
        self._left[name] = (left, len(self._log))
        return left

    def at(self, plan: PlannedNeed, key: str) -> Supply:
        """What was left when it was this gang's turn."""
        return self._less(self._all(plan, key), plan, key, self._log[: bisect_left(self._turns, plan.turn)])

    def consume(self, plan: PlannedNeed, key: str, domain: int, missing: Vector) -> None:
        """Mark what the gang will take in its domain; by id, or for pinned types type by type, cheapest first."""
        if self._consumed is None:
            self._consumed = np.zeros(self._fleet.state.size, dtype=np.bool_)
        sizes = self._kinds.sizes_for(plan.need)
        for state in (MachineState.IDLE, MachineState.SPECULATIVE):
            stream = self._stream(plan, key, domain, state)
            count = 64
            while any(missing):
                rows = stream.ahead(self._consumed, count)
                if not rows.size:
                    break
                kinds = self._fleet.kind[rows].astype(np.intp)
                taken, missing = sizes.cover(self._kinds.size[kinds], missing)
                self._consumed[rows[:taken]] = True
                self._log += kinds[:taken].tolist()
                self._turns += [plan.turn] * taken
                count *= 4

    def _all(self, plan: PlannedNeed, key: str) -> Supply:
        name = _name(plan, key)
        found = self._whole.get(name)
        if found is None:
            kinds = np.flatnonzero(self._usable(plan, key) & (self._counts > 0))
            found = self._whole[name] = self._added_up(plan, key, kinds, self._counts[kinds])
        return found

    def _less(self, supply: Supply, plan: PlannedNeed, key: str, log: list[int]) -> Supply:
        usable = self._usable(plan, key)
        if len(log) <= _A_FEW:
            return self._less_a_few(supply, plan, key, [kind for kind in log if usable[kind]])
        kinds, counts = np.unique(np.array(log, dtype=np.intp), return_counts=True)
        there = usable[kinds]
        gone = self._added_up(plan, key, kinds[there], counts[there])
        return Supply(supply.count - gone.count, supply.total - gone.total)

    def _less_a_few(self, supply: Supply, plan: PlannedNeed, key: str, kinds: list[int]) -> Supply:
        if not kinds:
            return supply
        codes, sizes = self._kinds.values(key).codes, self._kinds.sizes_for(plan.need).matrix
        count, total = supply.count.copy(), supply.total.copy()
        for kind in kinds:
            count[codes[kind]] -= 1
            total[codes[kind]] -= sizes[self._kinds.size[kind]]
        return Supply(count, total)

    def _added_up(self, plan: PlannedNeed, key: str, kinds: Numbers, counts: NDArray[np.int64]) -> Supply:
        values, sizes = self._kinds.values(key), self._kinds.sizes_for(plan.need).matrix
        codes = values.codes[kinds]
        count = np.zeros(len(values.values), dtype=np.int64)
        total = np.zeros((len(values.values), sizes.shape[1]), dtype=sizes.dtype)
        np.add.at(count, codes, counts)
        np.add.at(total, codes, sizes[self._kinds.size[kinds]] * counts[:, None])
        return Supply(count, total)

    def _usable(self, plan: PlannedNeed, key: str) -> NDArray[np.bool_]:
        profile, unit = plan.need.profile, plan.need.unit
        flags = self._kinds.usable(profile, unit, key)
        if not profile.pinned_types and not profile.refuses_interruptible:
            return flags
        return flags & self._kinds.obtainable(profile)

    def _stream(self, plan: PlannedNeed, key: str, domain: int, state: MachineState) -> Stream:
        name = (_name(plan, key), domain, state)
        found = self._streams.get(name)
        if found is None:
            here = self._usable(plan, key) & (self._kinds.values(key).codes == domain)
            kinds = np.flatnonzero(here)
            tiers = np.zeros(kinds.size, dtype=np.intp)
            types = plan.need.profile.pinned_types
            if types:
                ranks = self._kinds.type_ranks(types)[kinds] * self._kinds.price_ranks
                tiers = ranks + self._kinds.price_rank[kinds]
                order = np.argsort(tiers, kind="stable")
                kinds, tiers = kinds[order], tiers[order]
            found = self._streams[name] = Stream(self._fleet.pool(state), kinds, tiers)
        return found


def _name(plan: PlannedNeed, key: str) -> PoolName:
    profile, need = plan.need.profile, plan.need
    return (profile.requirements_text, need.unit, need.max_units, key, profile.refuses_interruptible)
