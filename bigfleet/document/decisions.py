"""A decision as a document: actions in order, one verdict per need, what stayed unresolved, and counts.

Why: what `bigfleet decide` prints is compared byte by byte, between releases, machines and languages.
Must never: decide, reorder or leave out anything; zero amounts alone are left out, as everywhere.
Rules: `engine#snapshot-decision`, `engine#snapshot-parked`.
"""

from collections import Counter
from collections.abc import Sequence

from bigfleet.document.canonical import one_line
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, MatchingSupply, Unresolved, Verdict
from bigfleet.model.machine import TRANSITIONS
from bigfleet.model.situation import Situation

VERSION = 1


def decision_document(
    situation: Situation, decision: Decision, places: Sequence[int] | None = None
) -> dict[str, object]:
    """The decision as JSON has it; `places` gives the place of each need in its document."""
    return {
        "version": VERSION,
        "actions": [_action(action) for action in decision.actions],
        "needs": [_verdict(verdict, places) for verdict in decision.verdicts],
        "unresolved": [_unresolved(left) for left in decision.unresolved],
        "counts": _counts(situation, decision),
    }


def write_decision(situation: Situation, decision: Decision, places: Sequence[int] | None = None) -> bytes:
    """The decision on one line, so that the answer to a batch is a line as well."""
    return one_line(decision_document(situation, decision, places))


def _action(action: Action) -> dict[str, object]:
    return {
        "kind": action.kind.value,
        "machine": action.machine_id,
        # A machine that is given back belongs to no cluster, whatever an Idle record may still say
        # (`engine#snapshot-decision`, `engine#snapshot-parked`).
        "cluster": None if action.kind is ActionKind.DELETE else action.cluster,
        "fingerprint": action.fingerprint,
        "group": action.group,
        "need": action.need,
        "grace_seconds": action.grace_s,
        "preemptor_priority": action.preemptor_priority,
        "reason": action.reason,
    }


def _verdict(verdict: Verdict, places: Sequence[int] | None) -> dict[str, object]:
    need, folded_from = verdict.need, verdict.folded_from
    return {
        "cluster": need.cluster,
        "group": need.group,
        "fingerprint": need.profile.fingerprint,
        "priority": need.profile.priority,
        "folded_from": sorted(folded_from if places is None else (places[place] for place in folded_from)),
        "satisfied": verdict.satisfied,
        "total": need.total.texts(),
        "deficit": verdict.deficit.texts(),
        "claimed": list(verdict.claimed),
        "bootstrapped": list(verdict.bootstrapped),
        "provisioned": list(verdict.provisioned),
        "domain": verdict.domain,
        "structurally_satisfiable": verdict.structurally_satisfiable,
        "parked": verdict.parked,
        "reason": verdict.reason.value,
        "matching_supply": None if verdict.satisfied else _supply(verdict.matching_supply),
        "same_candidates": [
            {
                "domain": candidate.domain,
                "coverage_per_mille": candidate.coverage_per_mille,
                "satisfiable": candidate.satisfiable,
            }
            for candidate in verdict.same_candidates
        ],
    }


def _supply(supply: MatchingSupply | None) -> dict[str, object] | None:
    if supply is None:
        return None
    return {
        "idle": supply.idle,
        "speculative": supply.speculative,
        "configured": supply.configured,
        "capped": supply.capped,
    }


def _unresolved(left: Unresolved) -> dict[str, object]:
    return {
        "need": left.need,
        "deficit": left.deficit.texts(),
        "victims": left.victims,
        "freed": left.freed.texts(),
    }


def _counts(situation: Situation, decision: Decision) -> dict[str, dict[str, int]]:
    """Every state and every kind, those that do not occur included, so that a reader need not know them all."""
    machines = Counter(machine.state for machine in situation.machines)
    actions = Counter(action.kind for action in decision.actions)
    return {
        "machines": {state.label: machines[state] for state in TRANSITIONS},
        "actions": {kind.value: actions[kind] for kind in ActionKind},
    }
