"""Verdicts: for every need how it fares and, if it is short, why.

Why: people ask; nothing else may depend on it.
Called by: the cycle, after Phase 2.
Rules: decision-engine 10.3.
"""

from collections.abc import Sequence

import numpy as np

from bigfleet.engine.index import MachineIndex
from bigfleet.engine.phase1.domains import NO_DOMAIN
from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.decision import SUPPLY_CAP, MatchingSupply, Reason, Unresolved, Verdict
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need

_IDLE, _SPECULATIVE = int(MachineState.IDLE), int(MachineState.SPECULATIVE)


def verdicts(phase: Phase1, unresolved: Sequence[Unresolved]) -> tuple[Verdict, ...]:
    """One verdict per need, in list order."""
    supply = _SupplyCounts(phase.index)
    exhausted = {item.need for item in unresolved if item.victims}
    return tuple(_verdict(phase, supply, place, place in exhausted) for place in range(len(phase.needs)))


def _verdict(phase: Phase1, supply: "_SupplyCounts", place: int, exhausted: bool) -> Verdict:
    index, item = phase.index, phase.needs[place]
    held = phase.broker.held[place]
    states = index.state[held].tolist()
    idle = [machine for machine, state in zip(held, states, strict=True) if state == _IDLE]
    speculative = [machine for machine, state in zip(held, states, strict=True) if state == _SPECULATIVE]
    short = bool((phase.missing[place] > 0).any())
    counts = supply.of(item.need) if short else None
    key = item.need.profile.same_key
    domain = phase.domain[place]
    return Verdict(
        need=item.need,
        folded_from=item.sources,
        deficit=index.scale.resources(phase.missing[place]),
        claimed=index.ids(held),
        bootstrapped=index.ids(idle),
        provisioned=index.ids(speculative),
        domain=None if key is None or domain == NO_DOMAIN else index.values(key).values[domain],
        structurally_satisfiable=phase.structural[place],
        parked=phase.parked[place],
        reason=_reason(phase, place, counts, exhausted) if counts is not None else Reason.SATISFIED,
        matching_supply=counts,
        same_candidates=phase.candidates[place],
    )


def _reason(phase: Phase1, place: int, supply: MatchingSupply, exhausted: bool) -> Reason:
    gang = phase.needs[place].need.profile.same_key is not None
    if gang and (phase.parked[place] or phase.domain[place] == NO_DOMAIN or not phase.structural[place]):
        return Reason.TOPOLOGY_UNSATISFIABLE
    if not (phase.broker.held[place] or supply.idle or supply.speculative or supply.configured):
        return Reason.NO_MATCHING_SUPPLY
    return Reason.PREEMPTION_EXHAUSTED if exhausted else Reason.PRIORITY_STARVED


class _SupplyCounts:
    """How many machines of each kind are Idle, Speculative or Configured."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        self._counts = {
            state: np.bincount(index.kind[index.in_state(state)], minlength=index.kinds)
            for state in (MachineState.IDLE, MachineState.SPECULATIVE, MachineState.CONFIGURED)
        }

    def of(self, need: Need) -> MatchingSupply:
        """Machines anywhere that could serve the need, each count up to the cap."""
        flags = self._index.acquirable(need)
        idle, speculative, configured = (
            min(SUPPLY_CAP, int(counts[flags].sum())) for counts in self._counts.values()
        )
        return MatchingSupply(idle, speculative, configured)
