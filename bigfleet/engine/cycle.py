"""One decision: snapshot, demand and now in, actions and verdicts out.

Why: the order of the steps is part of the answer and stands in one place.
Called by: the shard's cycle; `bigfleet decide` and everything else that replays a situation.
Must never: keep anything between two decisions that could change the second.
Rules: decision-engine section 5, action order 10.1.
"""

from collections.abc import Iterable, Sequence

from bigfleet.engine.fold import normalise
from bigfleet.engine.index import MachineIndex
from bigfleet.engine.phase1.acquire import run_acquisition
from bigfleet.engine.phase1.prepass import run_prepass
from bigfleet.engine.phase1.state import Phase1
from bigfleet.engine.phase2 import run_phase2
from bigfleet.engine.phase3 import run_phase3
from bigfleet.engine.verdicts import verdicts
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.inventory import Inventory, InventorySnapshot
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef, IdleHolds, Situation


def decide_situation(situation: Situation) -> Decision:
    """Decide on plain records."""
    inventory = Inventory()
    for machine in situation.machines:
        inventory.insert(machine, None)
    return decide(
        inventory.snapshot(),
        situation.needs,
        parked=situation.parked,
        reported_clusters=situation.reported_clusters,
        holds=situation.holds,
        now=situation.now,
    )


def decide(
    snapshot: InventorySnapshot,
    needs: Sequence[Need],
    *,
    parked: frozenset[GangRef],
    reported_clusters: frozenset[str] | None,
    holds: IdleHolds,
    now: float,
) -> Decision:
    """Decide what to do about this demand with these machines."""
    index = MachineIndex(snapshot, needs)
    normalised = normalise(needs, index)
    phase = Phase1(index, normalised, [_is_parked(item.need, parked) for item in normalised])
    run_prepass(phase)
    run_acquisition(phase)
    second = run_phase2(phase)
    judged = verdicts(phase, second.unresolved)
    third = run_phase3(phase, reported_clusters, holds, now)
    return Decision((*_phase1_actions(judged), *second.actions, *third), judged, second.unresolved)


def _is_parked(need: Need, parked: frozenset[GangRef]) -> bool:
    if need.profile.same_key is None:
        return False
    return GangRef(need.cluster, need.group, need.profile.fingerprint) in parked


def _phase1_actions(judged: Sequence[Verdict]) -> Iterable[Action]:
    for place, verdict in enumerate(judged):
        for kind, ids in (
            (ActionKind.BOOTSTRAP, verdict.bootstrapped),
            (ActionKind.PROVISION, verdict.provisioned),
        ):
            for machine_id in ids:
                need = verdict.need
                yield Action(kind, machine_id, need.cluster, need.profile.fingerprint, need.group, place)
