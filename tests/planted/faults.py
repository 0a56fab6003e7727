"""Deliberate faults in the engine, one line each, and the test that must notice each of them.

A suite that stays green whatever the code does proves nothing. Each fault here is a plausible slip; it is
put into the source in memory, and the test that is named beside it has to fail.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANNER_TESTS = "tests/unit/engine/test_planner.py"


@dataclass(frozen=True, slots=True)
class Fault:
    """A line of a module, what it is turned into, and who notices."""

    what: str
    module: str
    line: str
    instead: str
    caught_by: str
    """The beginning of a golden script's name, or the name of a test of the planner."""

    @property
    def source(self) -> str:
        """The module's text with the fault in it."""
        text = (ROOT / self.module).with_suffix(".py").read_text(encoding="utf-8")
        if text.count(self.line) != 1:
            raise ValueError(
                f"{self.what}: {self.line!r} occurs {text.count(self.line)} times in {self.module}"
            )
        return text.replace(self.line, self.instead)

    @property
    def module_name(self) -> str:
        """The module as Python imports it."""
        return self.module.replace("/", ".")


_FOLD, _FLEET, _KINDS = "bigfleet/engine/fold", "bigfleet/engine/fleet", "bigfleet/engine/kinds"
_RUN, _DOMAINS = "bigfleet/engine/phase1/cluster_run", "bigfleet/engine/phase1/domains"
_GANGS, _ACQUIRE = "bigfleet/engine/phase1/gang_supply", "bigfleet/engine/phase1/acquire"
_ASKS, _QUEUES = "bigfleet/engine/asks", "bigfleet/engine/phase1/queues"
_OPEN, _LISTING = "bigfleet/engine/phase1/open_needs", "bigfleet/engine/list_order"
_SPREAD, _PHASE2, _PHASE3 = (
    "bigfleet/engine/phase1/spread",
    "bigfleet/engine/phase2",
    "bigfleet/engine/phase3",
)
_VALUES = "bigfleet/engine/key_values"
_VERDICTS, _STAMPS = "bigfleet/engine/verdicts", "bigfleet/engine/stamps"
_AMOUNTS, _DEMAND, _POOLS = "bigfleet/engine/amounts", "bigfleet/model/demand", "bigfleet/engine/pools"

RULES: tuple[Fault, ...] = (
    # Folding
    Fault(
        "a machine on order for the class makes nothing fold (engine#foldable)",
        _FOLD,
        "        return ordered is not None and bool(fitting[members.kinds[ordered]].any())",
        "        return False",
        "e-07",
    ),
    Fault(
        "pinned types are forgotten when folding",
        _FOLD,
        " & self._fleet.kinds.obtainable(group.profile)",
        "",
        "q-06",
    ),
    Fault(
        "a free machine makes a gang fold that it is refused to (engine#obtainable)",
        _FOLD,
        "self._fleet.kinds.obtainable(group.profile)",
        "self._fleet.kinds.pinned(group.profile)",
        "e-11",
    ),
    Fault(
        "a pinned gang folds as one does that is not pinned (engine#obtainable)",
        _FOLD,
        "group.total, group.profile.refuses_interruptible)",
        "group.total, False)",
        "e-11",
    ),
    Fault(
        "a folded class loses its members' unit",
        _DEMAND,
        "profile, added_up, total, min",
        "profile, added_up, ZERO, min",
        "e-03",
    ),
    # Crediting
    Fault(
        "gangs and ordinary needs of one priority are visited as listed (engine#acquisition-order)",
        _FOLD,
        "planned.sort(key=itemgetter(0))",
        "planned.sort(key=lambda item: (item.turn[0], item.turn[2]))",
        "gangs_come_before",
    ),
    Fault(
        "a machine on order without a cluster is credited to a cluster (engine#crediting)",
        _FLEET,
        "            name = self.stamps[int(self.assignment[row])].cluster\n            if name:",
        '            name = self.stamps[int(self.assignment[row])].cluster or "a"\n            if name:',
        "c-22",
    ),
    Fault(
        "Configuring machines are credited before Configured ones",
        _FLEET,
        "code = (self.state[bound] == MachineState.CONFIGURING) *",
        "code = (self.state[bound] == MachineState.CONFIGURED) *",
        "c-26",
    ),
    Fault(
        "what is cheap to take is kept first",
        _STAMPS,
        "dense_ranks(-self.reclamation)",
        "dense_ranks(self.reclamation)",
        "h-04",
    ),
    Fault(
        "machines that do not cover the unit are eligible",
        _KINDS,
        "self.matching(profile) & self.covering(unit)",
        "self.matching(profile)",
        "c-12",
    ),
    Fault(
        "a gang's own machines are credited last",
        _RUN,
        "[self._members[here & self._own], self._members[here & ~self._own]]",
        "[self._members[here & ~self._own], self._members[here & self._own]]",
        "edge-01",
    ),
    Fault(
        "a machine that has nothing of what is missing is passed over",
        _AMOUNTS,
        "                return available, less(missing, size, available)",
        "                continue",
        "c-16",
    ),
    # Domains
    Fault(
        "a gang gathers where there is most room instead of where it just fits",
        _DOMAINS,
        "_most(among, -supply.total[among], wanted)",
        "_most(among, supply.total[among], wanted)",
        "f-03",
    ),
    Fault(
        "a look-alike's machines count as much as a gang's own",
        _DOMAINS,
        "        among = _most_covered(among, supply.own, goal, wanted)\n",
        "",
        "edge-02",
    ),
    Fault(
        "a served gang leaves its machines for a tighter domain",
        _DOMAINS,
        "        among = among[fits]\n        among = _most_covered(among, supply.creditable, goal, wanted)",
        "        among = among[fits]",
        "f-06",
    ),
    Fault(
        "a gang counts on machines that an earlier one will take",
        _GANGS,
        "                self._consumed[rows[:taken]] = True\n                self._log += kinds[:taken].tolist()",
        "                self._log += []",
        "f-19",
    ),
    Fault(
        "a pinned gang counts on interruptible machines (engine#obtainable)",
        _GANGS,
        "if not profile.pinned_types and not profile.refuses_interruptible:\n            return flags\n        return flags & self._kinds.obtainable(profile)",
        "if not profile.pinned_types:\n            return flags\n        return flags & self._kinds.pinned(profile)",
        "f-32",
    ),
    Fault(
        "a gang that is not pinned counts on what one counts on that is (engine#obtainable)",
        _GANGS,
        "need.max_units, key, profile.refuses_interruptible)",
        "need.max_units, key, False)",
        "f-32",
    ),
    # Acquisition
    Fault(
        "interruptible machines are supply for pinned work (engine#obtainable)",
        _KINDS,
        "return pinned & ~self.interruptible if profile.refuses_interruptible else pinned",
        "return pinned",
        "c-29",
    ),
    Fault(
        "interruptible machines are refused to everybody (engine#obtainable)",
        _KINDS,
        "return pinned & ~self.interruptible if profile.refuses_interruptible else pinned",
        "return pinned & ~self.interruptible",
        "c-29",
    ),
    Fault(
        "what is refused to pinned work is refused to all that ask for the same (engine#obtainable)",
        _KINDS,
        "key = (profile.requirements_text, unit, profile.refuses_interruptible)",
        "key = (profile.requirements_text, unit, False)",
        "c-29",
    ),
    Fault(
        "Idle machines are taken by price (engine#pools)",
        _QUEUES,
        "    order, tiers = fleet.kinds.by_cost(bucket)\n",
        "    idle = state is MachineState.IDLE\n"
        "    ranks = fleet.kinds.price_rank\n"
        "    by_price = (np.argsort(ranks, kind='stable'), ranks)\n"
        "    order, tiers = by_price if idle else fleet.kinds.by_cost(bucket)\n",
        "c-28",
    ),
    Fault(
        "needs of different penalties share a stream of Idle machines (engine#pools)",
        _ASKS,
        "(id(flags), profile.interruption_bucket, spread_key)",
        "(id(flags), ZERO_DOLLARS, spread_key)",
        "c-28",
    ),
    Fault(
        "the fallback compares prices per hour (engine#gang-picker)",
        _ACQUIRE,
        "cost = float(costs[self._fleet.kind[rows[0]]])",
        "cost = float(self._kinds.price[self._fleet.kind[rows[0]]])",
        "q-04",
    ),
    Fault(
        "idle machines are taken without a look at their penalty (engine#pools)",
        _QUEUES,
        "    second = fleet.reclamation_penalty if state is MachineState.IDLE else None\n"
        "    return Stream(fleet.pool(state), kinds, tiers[kinds], second)",
        "    return Stream(fleet.pool(state), kinds, tiers[kinds], None)",
        "the_least_valuable_idle",
    ),
    Fault(
        "penalty buckets play no part in precedence",
        _ASKS,
        "sorted(self._precedence_number, reverse=True)",
        "sorted(self._precedence_number, key=lambda precedence: -precedence[0])",
        "c-09",
    ),
    Fault(
        "ordinary needs acquire before gangs of the same precedence (engine#acquisition-order)",
        _ACQUIRE,
        "    rank = asks.precedence * 2 + (asks.queue != GANG)",
        "    rank = asks.precedence * 2 + (asks.queue == GANG)",
        "gangs_come_before",
    ),
    Fault(
        "the risk of losing a machine has no price",
        _KINDS,
        "found[risky] += self.probability[risky] * max(0.0, upper_bound(bucket))",
        "pass",
        "c-03",
    ),
    Fault(
        "Speculative machines are bought while Idle ones wait",
        _QUEUES,
        "\nSTATES = (MachineState.IDLE, MachineState.SPECULATIVE)",
        "\nSTATES = (MachineState.SPECULATIVE, MachineState.IDLE)",
        "c-05",
    ),
    Fault(
        "what Idle yielded does not bind the Speculative step (engine#gang-picker)",
        _ACQUIRE,
        "            if domain is None and taken:",
        "            if False:",
        "q-04",
    ),
    Fault(
        "a parked gang acquires",
        _ACQUIRE,
        "            if not item.plan.parked:",
        "            if True:",
        "f-27",
    ),
    Fault(
        "machines of one price are taken in any order but that of ids",
        _POOLS,
        "            return np.sort(ranks)",
        "            return np.sort(ranks)[::-1]",
        "c-01",
    ),
    # Needs that are served in batches
    Fault(
        "needs of two queues that share machines are served queue by queue (engine#open-demand)",
        _ACQUIRE,
        "contested: Flags = uses > 1",
        "contested: Flags = uses > 2",
        "open-01",
    ),
    Fault(
        "needs are served before a gang that outranks them and wants their machines (engine#open-demand)",
        _ACQUIRE,
        "            contested |= self._asks.flags[ask]",
        "            pass",
        "open-02",
    ),
    Fault(
        "needs of a queue are served as they are listed (engine#open-demand)",
        _ACQUIRE,
        "order[queue_of[order] == queue]):",
        "np.sort(order[queue_of[order] == queue])):",
        "c-08",
    ),
    Fault(
        "the last need that finds something gets nothing (engine#open-demand)",
        _ACQUIRE,
        "        if rest.size:  #",
        "        if False:  #",
        "open-03",
    ),
    Fault(
        "a need takes one machine though it wants more (engine#open-demand)",
        _ASKS,
        "single = need.unit.covers(need.total)",
        "single = True",
        "c-01",
    ),
    Fault(
        "machines of two sizes are counted as of one (engine#open-demand)",
        _ACQUIRE,
        "        if sizes.size > 1:",
        "        if False:",
        "open-09",
    ),
    Fault(
        "sorts of needs that differ in the total are taken for one (engine#open-demand)",
        _DEMAND,
        "by_value.setdefault((profile.fingerprint, total, unit, limit), len(found))",
        "by_value.setdefault((profile.fingerprint, unit, unit, limit), len(found))",
        "open-10",
    ),
    Fault(
        "sorts of needs of two clusters that differ in the total are taken for one (engine#open-demand)",
        _ASKS,
        "name = (need.profile.fingerprint, need.total, need.unit, need.max_units)",
        "name = (need.profile.fingerprint, need.unit, need.unit, need.max_units)",
        "open-03",
    ),
    Fault(
        "a spread of one machine goes by value first (engine#spread-picker)",
        _QUEUES,
        "ranks[kinds] * len(values.values) + values.codes[kinds]",
        "ranks[kinds] + fleet.kinds.price_ranks * values.codes[kinds]",
        "open-04",
    ),
    Fault(
        "a spread of one machine takes one without the key (engine#spread-picker)",
        _QUEUES,
        "(flags & values.present)",
        "flags",
        "open-04",
    ),
    Fault(
        "a machine that is taken is handed out again (engine#open-demand)",
        _QUEUES,
        "                    if not taken[row]:",
        "                    if True:",
        "open-01",
    ),
    Fault(
        "a cluster in which a need was covered is not searched again (engine#crediting)",
        _RUN,
        "            if any(missing):  # it took",
        "            if True:  # it took",
        "c-25",
    ),
    Fault(
        "a cluster in which one sort of needs found too little is not searched for others (engine#crediting)",
        _RUN,
        "            if id(eligible) in self._spent:",
        "            if self._spent:",
        "open-05",
    ),
    Fault(
        "clusters are listed one after the other (engine#needs-table)",
        _LISTING,
        "    return any(one.last > other.first for one, other in pairwise(blocks))",
        "    return False",
        "open-08",
    ),
    Fault(
        "what a need lacks is forgotten once it got something",
        _OPEN,
        "return self._left.get(number, outcome.missing)",
        "return outcome.missing",
        "c-07",
    ),
    # Strict spread
    Fault(
        "what a need holds already does not count for its spread (engine#spread-picker)",
        _SPREAD,
        "        counts = dict.fromkeys(heads, 0)\n        for code in self._codes[self._fleet.kind[credited]].tolist():",
        "        counts = dict.fromkeys(heads, 0)\n        for code in ():",
        "spread_is_one_walk",
    ),
    Fault(
        "the skew is one too wide (engine#spread-picker)",
        _SPREAD,
        "self._evenly if max_skew <= 1 else partial(self._within, max_skew - 1)",
        "partial(self._within, max(1, max_skew))",
        "d-01",
    ),
    Fault(
        "a group's cheaper Speculative machine comes before an Idle one (engine#spread-picker)",
        _SPREAD,
        "return self._later, self._costs[self._next]",
        "return False, self._costs[self._next]",
        "spread_is_one_walk",
    ),
    Fault(
        "groups of few values compare prices per hour (engine#spread-picker)",
        _SPREAD,
        "self._costs = self._cost_of_kind[kinds].tolist()",
        "self._costs = self._fleet.kinds.price[kinds].tolist()",
        "open-07",
    ),
    Fault(
        "values without machines are forgotten when the least is sought (engine#spread-picker)",
        _SPREAD,
        "            if len(round_) < len(behind):",
        "            if not round_:",
        "d-02",
    ),
    Fault(
        "needs of different penalties share the groups of a spread (engine#spread-picker)",
        _ACQUIRE,
        "need.unit, need.profile.interruption_bucket, key)",
        "need.unit, key)",
        "open-07",
    ),
    # Phase 2
    Fault(
        "a need preempts what one of its own rank claims (engine#victims)",
        _PHASE2,
        "self._holders.rank[self._rows[places]] >= self._holders.places[mine]",
        "self._holders.rank[self._rows[places]] > self._holders.places[mine]",
        "g-12",
    ),
    Fault(
        "machines that drain for a need already are not counted (engine#preemption-in-flight)",
        _PHASE2,
        "        if waiting is None:",
        "        if True:",
        "preemption_in_flight",
    ),
    Fault(
        "victims for pinned work are those for other work of its priority (engine#obtainable)",
        _PHASE2,
        "item.domain, profile.priority, refuses)",
        "item.domain, profile.priority, False)",
        "g-16",
    ),
    Fault(
        "drain grace costs nothing (engine#victim-cost)",
        _PHASE2,
        "costs = costs + hours * fleet.kinds.price[self._kind]",
        "pass",
        "g-11",
    ),
    Fault(
        "the most expensive victim goes first (engine#victim-cost)",
        _PHASE2,
        "np.lexsort((ranks, self._priority[places], self._costs[places]))",
        "np.lexsort((ranks, self._priority[places], -self._costs[places]))",
        "g-03",
    ),
    Fault(
        "equal priority can be preempted",
        _PHASE2,
        "(self._priority < profile.priority)",
        "(self._priority <= profile.priority)",
        "edge-03",
    ),
    Fault("one victim is taken twice", _PHASE2, "        self._taken[free[:count]] = True\n", "", "g-04"),
    Fault(
        "a gang preempts outside its domain",
        _PHASE2,
        "        flags = flags & (values.codes == values.code(item.domain))",
        "        flags = flags & values.present",
        "g-07",
    ),
    Fault(
        "needs for which machines drain already are passed over (engine#preemption-in-flight)",
        _PHASE2,
        "profile.fingerprint in draining.fingerprints or (",
        "(",
        "preemption_in_flight",
    ),
    Fault(
        "needs are passed over where a machine of their own rank serves (engine#victims)",
        _PHASE2,
        "            served and victims.lowest < profile.priority",
        "            served and victims.lowest < profile.priority - 1",
        "open-06",
    ),
    # Host names
    Fault(
        "a machine with a host name goes by its id (engine#hostname-domain)",
        _VALUES,
        "each if name is None else name for each",
        "each for each",
        "f-34",
    ),
    # At most k units per machine
    Fault(
        "victims count whole for a need with a limit (engine#max-units-per-machine)",
        _PHASE2,
        "self._fleet.kinds.sizes_for(item.need).cover(sizes, missing)",
        "self._fleet.kinds.sizes.cover(sizes, missing)",
        "g-17",
    ),
    Fault(
        "domains hold the whole capacity for a gang with a limit (engine#max-units-per-machine)",
        _GANGS,
        "values, sizes = self._kinds.values(key), self._kinds.sizes_for(plan.need).matrix",
        "values, sizes = self._kinds.values(key), self._kinds.sizes.matrix",
        "f-35",
    ),
    Fault(
        "what the unit does not name is limited to nothing (engine#max-units-per-machine)",
        _AMOUNTS,
        "            if name in limits\n",
        "",
        "c-32",
    ),
    Fault(
        "gangs fold whatever their limit (engine#max-units-per-machine)",
        _DEMAND,
        "is not None and not need.max_units:",
        "is not None:",
        "e-12",
    ),
    Fault(
        "gangs for fragments fold with the others (engine#fragments)",
        _DEMAND,
        "classes.setdefault((profile.without_same.fingerprint, total, for_fragments), [])",
        "classes.setdefault((profile.without_same.fingerprint, total, False), [])",
        "e-13",
    ),
    # Pods
    Fault(
        "a machine that states no pods has none (engine#pods)",
        _KINDS,
        "shape.with_pods if pods else shape.capacity for",
        "shape.capacity for",
        "c-34",
    ),
    Fault(
        "every machine has the default number of pods besides its own (engine#pods)",
        _KINDS,
        "shape.with_pods if pods else shape.capacity for",
        "shape.capacity + DEFAULT_PODS if pods else shape.capacity for",
        "c-34",
    ),
    # Phase 3
    Fault(
        "clusters that have not reported lose their machines",
        _PHASE3,
        "sorted(excess) if reported is None or cluster in reported]",
        "sorted(excess)]",
        "h-07",
    ),
    Fault(
        "an idle machine is released while its hold lasts",
        _PHASE3,
        "over = now - since >= hold",
        "over = now - since >= 0",
        "h-14",
    ),
    Fault(
        "a machine that was just claimed is released",
        _PHASE3,
        "        idle = idle[~taken[idle]]",
        "        pass",
        "h-10",
    ),
    # Verdicts
    Fault(
        "supply is counted beyond the cap",
        _VERDICTS,
        "min(SUPPLY_CAP, int(self._counts[state][flags].sum()))",
        "int(self._counts[state][flags].sum())",
        "i-07",
    ),
)
