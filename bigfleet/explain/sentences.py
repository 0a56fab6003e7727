"""The sentences of explanations, in one place, so that command line and pages say the same.

Must never: know more than the explanation it puts into words.
Rules: `dashboard#explain-sentence`, `dashboard#explain-machine`.
"""

from bigfleet.explain.amounts import amounts_text, units_text
from bigfleet.explain.durations import duration_text
from bigfleet.explain.fit import FitResult
from bigfleet.explain.hold_offs import coverage_text, hold_off_words
from bigfleet.explain.left_out import next_attempt
from bigfleet.explain.machine import MachineExplanation, Release
from bigfleet.explain.need import NeedExplanation
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.coverage import CoverageSplit
from bigfleet.model.decision import Reason
from bigfleet.model.machine import MachineState

S = MachineState
_OFFERS_SAID = 2
"""How many stocked-out offerings a sentence names."""
STEP_WORDS = {"bootstrapped": "to be bootstrapped", "provisioned": "to be ordered"}
"""How people read a step that was decided and not carried out yet; documents keep the short names."""


def need_text(numbers: tuple[int, ...], cluster: str, group: str = "") -> str:
    """A need as people name it."""
    shown = ",".join(map(str, numbers[:3])) + (f",+{len(numbers) - 3}" if len(numbers) > 3 else "")
    return f"need {shown} of {cluster}/{group}" if group else f"need {shown} of {cluster}"


def machines_text(count: int) -> str:
    """A number of machines."""
    return "1 machine" if count == 1 else f"{count} machines"


def step_words(step: str) -> str:
    """A step in words."""
    return STEP_WORDS.get(step, step)


def need_sentence(explanation: NeedExplanation) -> str:
    """How the need fares and why; and why it has what costs more than it would have to."""
    parts = (
        _fares(explanation),
        _sort(explanation),
        _not_moved(explanation),
        _stocked_out(explanation),
    )
    return " ".join(filter(None, parts))


def _sort(explanation: NeedExplanation) -> str:
    """What distinguishes the need from others of its profile, cluster and group."""
    need, split = explanation.need, explanation.coverage
    said = []
    if need.for_fragments:
        machines = split.running + split.joining + split.on_order + split.wanted
        said.append(f"{machines_text(machines)} for fragments")
    if need.max_units:
        said.append(f"at most {units_text(need.max_units)} per machine")
    text = ", ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _stocked_out(explanation: NeedExplanation) -> str:
    """Said where a stocked-out offering would cost less than what the need has, or where the need is not covered."""
    dearest = max((item.effective_cost for item in explanation.chosen if _held(item.how)), default=0.0)
    lacking = not explanation.coverage.covered
    said = []
    for offer in explanation.stocked_out[:_OFFERS_SAID]:
        if offer.effective_cost < dearest:
            said.append(
                f"{offer.offering} would cost less (${offer.effective_cost:g}/h against ${dearest:g}/h), but is stocked out; "
                f"{next_attempt(offer.left_s)}."
            )
        elif lacking:
            said.append(f"{offer.offering} could serve it, but is stocked out; {next_attempt(offer.left_s)}.")
    return " ".join(said)


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
    verdict, need, split = explanation.verdict, explanation.need, explanation.coverage
    if need.total.is_zero:
        return "Covered: it asks for nothing."
    where = f" in {verdict.domain}" if verdict.domain is not None else ""
    if not verdict.satisfied:
        why = _why(explanation)
        refused = "" if verdict.reason is Reason.NO_MATCHING_SUPPLY else _refused(explanation)
        return f"{_short(explanation)}; {why}{refused}{_does_not_come(split)}."
    if split.covered:
        return f"Covered: {amounts_text(need.total)}{where} ({coverage_text(split)})."
    lacking = (
        f"{amounts_text(split.missing)} of {amounts_text(need.total)} missing{where} ({coverage_text(split)})"
    )
    if split.held_off:
        return f"Not covered: {lacking}{_does_not_come(split)}."
    return f"Covered once the wanted machines come: {lacking}."


def _short(explanation: NeedExplanation) -> str:
    verdict, split = explanation.verdict, explanation.coverage
    short = (
        f"Short {amounts_text(verdict.deficit)} of {amounts_text(verdict.need.total)}: {coverage_text(split)}"
    )
    if split.missing == verdict.deficit:
        return short
    return f"{short}; until the wanted machines come {amounts_text(split.missing)} is missing"


def _does_not_come(split: CoverageSplit) -> str:
    if not split.held_off:
        return ""
    waiting = f", waiting {duration_text(split.waiting_s)}" if split.waiting_s else ""
    return f"; the wanted ones do not come: {hold_off_words(split.held_off)}{waiting}"


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
    """What becomes of a machine and why; and why the shard leaves it alone for now, if it does."""
    held_off = explanation.held_off
    if held_off and not explanation.views:
        return f"{explanation.machine.state.label}; {held_off}."
    becomes = _becomes(explanation)
    return f"{becomes} Held off: {held_off}." if held_off else becomes


def _becomes(explanation: MachineExplanation) -> str:
    machine, action = explanation.machine, explanation.action
    if action is not None:
        return _action_sentence(explanation, action)
    if explanation.holder:
        owner = next(view for view in explanation.views if view.result is FitResult.TAKEN)
        served = need_text(explanation.holder, owner.cluster, owner.group)
        return f"{machine.state.label}; {step_words(explanation.step)} for {served}."
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
            owned = need_text(explanation.holder, owner.cluster, owner.group)
            return f"{state}; {step_words(explanation.step)} for {owned}."
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
