"""The sentences of explanations, in one place, so that command line and pages say the same.

Must never: know more than the explanation it puts into words.
Rules: `dashboard#explain-sentence`, `dashboard#explain-machine`.
"""

from bigfleet.explain.amounts import amounts_text
from bigfleet.explain.fit import FitResult
from bigfleet.explain.machine import MachineExplanation, Release
from bigfleet.explain.need import NeedExplanation
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Reason
from bigfleet.model.machine import MachineState

S = MachineState


def need_text(numbers: tuple[int, ...], cluster: str, group: str = "") -> str:
    """A need as people name it."""
    shown = ",".join(map(str, numbers[:3])) + (f",+{len(numbers) - 3}" if len(numbers) > 3 else "")
    return f"need {shown} of {cluster}/{group}" if group else f"need {shown} of {cluster}"


def machines_text(count: int) -> str:
    """A number of machines."""
    return "1 machine" if count == 1 else f"{count} machines"


def need_sentence(explanation: NeedExplanation) -> str:
    """How the need fares and why, in one sentence; and why it keeps what costs more than it would have to."""
    return " ".join(filter(None, (_fares(explanation), _not_moved(explanation))))


def _not_moved(explanation: NeedExplanation) -> str:
    """Said where a free machine would cost the need less than one that it has; else a reader expects a move."""
    best = explanation.next_best
    if best is None:
        return ""
    dearer = sum(
        item.count
        for item in explanation.chosen
        if item.how in ("kept", "on order") and item.effective_cost > best.effective_cost
    )
    if not dearer:
        return ""
    costs = "costs" if dearer == 1 else "cost"
    return f"{dearer} of them {costs} more than the next best machine; machines that serve or are on order are not moved."


def _fares(explanation: NeedExplanation) -> str:
    verdict, need = explanation.verdict, explanation.need
    taken = sum(item.count for item in explanation.chosen if item.examples and _held(item.how))
    if need.total.is_zero:
        return "Satisfied: it asks for nothing."
    if verdict.satisfied:
        parts = [
            f"{sum(item.count for item in explanation.chosen if item.how == how)} {how}"
            for how in ("kept", "on order", "bootstrapped", "provisioned")
            if any(item.how == how for item in explanation.chosen)
        ]
        where = f" in {verdict.domain}" if verdict.domain is not None else ""
        return (
            f"Satisfied: {amounts_text(need.total)} from {machines_text(taken)}{where} ({', '.join(parts)})."
        )
    short = (
        f"Short {amounts_text(verdict.deficit)} of {amounts_text(need.total)}: {machines_text(taken)} taken"
    )
    why = _why(explanation)
    refused = "" if verdict.reason is Reason.NO_MATCHING_SUPPLY else _refused(explanation)
    return f"{short}; {why}{refused}."


def _held(how: str) -> bool:
    return how in ("kept", "on order", "bootstrapped", "provisioned")


def _why(explanation: NeedExplanation) -> str:
    verdict, preemption = explanation.verdict, explanation.preemption
    key = verdict.need.profile.same_key
    if verdict.parked:
        return "the gang is parked, so it keeps what it has and acquires nothing in this cycle"
    waiting = 0 if preemption is None else preemption.in_flight_count + preemption.taken_count
    if waiting and explanation.open_after_preemption.is_zero:
        return f"the rest waits for {machines_text(waiting)} to drain"
    if verdict.reason is Reason.TOPOLOGY_UNSATISFIABLE:
        if verdict.domain is None:
            return f"no value of {key} has a machine for this gang"
        return f"{verdict.domain} is the best value of {key}, and even there the gang does not fit"
    if verdict.reason is Reason.NO_MATCHING_SUPPLY:
        return f"no machine can serve it{_refused(explanation) or _mostly(explanation)}"
    if verdict.reason is Reason.PREEMPTION_EXHAUSTED:
        leaves = "leaves" if waiting == 1 else "leave"
        return f"{machines_text(waiting)} {leaves} for it, and no other of lower priority could"
    limited = sum(item.count for item in explanation.refusals if item.result is FitResult.SPREAD_LIMIT)
    if limited:
        return f"the spread allows none of {machines_text(limited)} that are free"
    return _others_first(explanation)


def _others_first(explanation: NeedExplanation) -> str:
    claimed = sum(item.count for item in explanation.refusals if item.result is FitResult.CLAIMED)
    if claimed:
        return f"{machines_text(claimed)} that could serve it {_is(claimed)} claimed by other needs"
    preemption = explanation.preemption
    serving = 0 if preemption is None else preemption.not_lower + preemption.protected
    if serving:
        return f"{machines_text(serving)} that could serve it {_is(serving)} in use and not to be preempted by it"
    return "nothing else could serve it"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _refused(explanation: NeedExplanation) -> str:
    """Free machines that would do if the work were not pinned."""
    count = sum(item.count for item in explanation.refusals if item.result is FitResult.INTERRUPTIBLE)
    if not count:
        return ""
    return f"; interruptible machines are refused to pinned work ({count})"


def _mostly(explanation: NeedExplanation) -> str:
    """The reason for which most machines were refused."""
    if not explanation.refusals:
        return ", as there is none"
    most = max(explanation.refusals, key=lambda item: item.count)
    detail = f" ({most.detail})" if most.detail else ""
    return f", most often: {most.result.value}{detail}"


def machine_sentence(explanation: MachineExplanation) -> str:
    """What becomes of a machine and why, in one sentence."""
    machine, action = explanation.machine, explanation.action
    if action is not None:
        return _action_sentence(explanation, action)
    if explanation.holder:
        owner = next(view for view in explanation.views if view.result is FitResult.TAKEN)
        served = need_text(explanation.holder, owner.cluster, owner.group)
        return f"{machine.state.label}; {explanation.step} for {served}."
    draining = next((view for view in explanation.views if view.result is FitResult.IN_FLIGHT), None)
    if draining is not None:
        waiting = need_text(draining.numbers, draining.cluster, draining.group)
        return f"Draining; {waiting} waits for it."
    return f"{_left_alone(explanation)}."


def _action_sentence(explanation: MachineExplanation, action: Action) -> str:
    state = explanation.machine.state.label
    match action.kind:
        case ActionKind.BOOTSTRAP | ActionKind.PROVISION:
            owner = next(view for view in explanation.views if view.result is FitResult.TAKEN)
            return f"{state}; {explanation.step} for {need_text(explanation.holder, owner.cluster, owner.group)}."
        case ActionKind.PREEMPT:
            taker = next(view for view in explanation.views if view.result is FitResult.PREEMPTED)
            by = need_text(explanation.preemptor, taker.cluster, taker.group)
            return f"Leaves {action.cluster} within {action.grace_s} s, preempted by {by}."
        case ActionKind.RECLAIM:
            return f"Reclaimed from {action.cluster}: none of its needs wants it any more."
        case _:
            return "Given back to the provider: nobody wants it and its hold is over."


def _left_alone(explanation: MachineExplanation) -> str:
    machine = explanation.machine
    match machine.state:
        case S.IDLE:
            return f"Idle; no need takes it, {release_text(explanation.release)}"
        case S.SPECULATIVE:
            return "Speculative; no need buys it"
        case S.CREATING:
            ordered = machine.assigned.cluster
            return (
                f"Creating; ordered for {ordered}, which counts it for nothing now"
                if ordered
                else ("Creating; its order names no cluster, so it counts for nobody until it is Idle")
            )
        case S.CONFIGURING:
            return f"Configuring for {machine.cluster}, where no need wants it any more; it is reclaimed once Configured"
        case S.CONFIGURED:
            return f"Configured; no need of {machine.cluster} wants it, kept since {machine.cluster} has not reported"
        case S.FAILED:
            return f"Failed ({machine.last_error}); it counts for nobody until the provider repairs or removes it"
        case _:
            return f"{machine.state.label}; it counts for nobody until that is done"


def release_text(release: Release | None) -> str:
    """When an Idle machine is given back, as part of a sentence."""
    if release is None:
        return "it is not idle"
    if not release.hold_s:
        return "machines of its capacity type are never given back"
    left = release.left_s
    return (
        "it is kept since nobody knows how long it is idle"
        if left is None
        else f"it is given back in {left:.0f} s"
    )
