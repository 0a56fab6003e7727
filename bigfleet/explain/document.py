"""Explanations as documents: what programs read and pages are made of.

Why: `bigfleet explain -o json`, the insight service and the dashboard hand on the same object; its names are contract.
Must never: hold an infinite number, which JSON has not; as in snapshot documents it is written `"pinned"`.
"""

import math
from collections.abc import Mapping
from copy import deepcopy

from bigfleet.document.canonical import plain
from bigfleet.explain.changes import Proposal
from bigfleet.explain.domain_ranking import RankedDomain
from bigfleet.explain.machine import MachineExplanation, NeedFit
from bigfleet.explain.need import MachineClass, NeedExplanation
from bigfleet.explain.preemption import Preemption, Victim
from bigfleet.explain.sentences import machine_sentence, need_sentence
from bigfleet.model.coverage import CoverageSplit

VERSION = 1


def need_explanation_document(explanation: NeedExplanation) -> dict[str, object]:
    """An explained need as JSON has it."""
    verdict, need = explanation.verdict, explanation.need
    return {
        "version": VERSION,
        "sentence": need_sentence(explanation),
        "needs": list(explanation.numbers),
        "cluster": need.cluster,
        "group": need.group,
        "fingerprint": need.profile.fingerprint,
        "priority": need.profile.priority,
        "satisfied": verdict.satisfied,
        "reason": verdict.reason.value,
        "parked": verdict.parked,
        "domain": verdict.domain,
        "total": need.total.texts(),
        "max_units_per_machine": need.max_units,
        "for_fragments": need.for_fragments,
        "deficit": verdict.deficit.texts(),
        "unresolved": explanation.open_after_preemption.texts(),
        "coverage": _coverage(explanation.coverage),
        "machines": explanation.machines,
        "steps": [
            {
                "step": step.name,
                "fitting": step.fitting,
                "taken": step.taken,
                "missing": step.missing.texts(),
            }
            for step in explanation.steps
        ],
        "chosen": [_class(item) for item in explanation.chosen],
        "next_best": None if explanation.next_best is None else _class(explanation.next_best),
        "refused": [
            {
                "reason": item.result.value,
                "detail": item.detail,
                "needs": list(item.needs),
                "count": item.count,
                "machines": list(item.examples),
                "remedy": item.remedy,
            }
            for item in explanation.refusals
        ],
        "competitors": [
            {
                "needs": list(item.numbers),
                "cluster": item.cluster,
                "group": item.group,
                "priority": item.priority,
                "relation": item.relation,
                "machines": item.machines,
            }
            for item in explanation.competitors
        ],
        "domains": [_domain(item) for item in explanation.domains],
        "preemption": _preemption(explanation.preemption),
        "changes": [_change(item) for item in explanation.proposals],
    }


def _coverage(split: CoverageSplit) -> dict[str, object]:
    return {
        "running": split.running,
        "joining": split.joining,
        "on_order": split.on_order,
        "wanted": split.wanted,
        "missing": split.missing.texts(),
        "held_off": split.held_off,
        "waiting_seconds": split.waiting_s,
    }


def machine_explanation_document(explanation: MachineExplanation) -> dict[str, object]:
    """An explained machine as JSON has it."""
    machine, action = explanation.machine, explanation.action
    order, release = explanation.keep_order, explanation.release
    return {
        "version": VERSION,
        "sentence": machine_sentence(explanation),
        "machine": machine.id,
        "state": machine.state.label,
        "cluster": machine.cluster,
        "instance_type": machine.shape.instance_type,
        "zone": machine.shape.zone,
        "capacity_type": machine.shape.capacity_type.label,
        "price_per_hour": plain(machine.shape.price_per_hour),
        "interruption_probability": plain(machine.shape.interruption_probability),
        "capacity": machine.shape.capacity.texts(),
        "pods_by_default": explanation.pods_by_default,
        "last_error": machine.last_error,
        "held_by": list(explanation.holder),
        "step": explanation.step or None,
        "held_off": explanation.held_off,
        "action": None
        if action is None
        else {
            "kind": action.kind.value,
            "cluster": action.cluster,
            "grace_seconds": action.grace_s,
            "reason": action.reason,
        },
        "preempted_by": list(explanation.preemptor),
        "victim": _victim(explanation.victim),
        "next_victim": _victim(explanation.runner_up),
        "keep_order": None
        if order is None
        else {
            "position": order.position,
            "machines": order.machines,
            "claimed": order.claimed,
            "reported": order.reported,
        },
        "release": None
        if release is None
        else {
            "hold_seconds": plain(release.hold_s),
            "idle_seconds": None if release.idle_s is None else plain(release.idle_s),
            "left_seconds": None if release.left_s is None else plain(release.left_s),
        },
        "next_taker": None if explanation.next_taker is None else _view(explanation.next_taker),
        "needs": [_view(view) for view in explanation.views],
    }


def _class(item: MachineClass) -> dict[str, object]:
    return {
        "how": item.how,
        "count": item.count,
        "instance_type": item.instance_type,
        "zone": item.zone,
        "capacity_type": item.capacity_type,
        "state": item.state,
        "price_per_hour": plain(item.price_per_hour),
        "interruption_probability": plain(item.interruption_probability),
        "effective_cost_per_hour": _dollars(item.effective_cost),
        "machines": list(item.examples),
    }


def _domain(item: RankedDomain) -> dict[str, object]:
    return {
        "domain": item.value,
        "chosen": item.chosen,
        "satisfiable": item.satisfiable,
        "coverage_per_mille": item.coverage_per_mille,
        "machines": item.count,
        "creditable_per_mille": item.creditable_per_mille,
        "own_per_mille": item.own_per_mille,
        "overcommitment_per_mille": item.overcommitment_per_mille,
        "decided_by": item.decided_by or None,
    }


def _preemption(item: Preemption | None) -> Mapping[str, object] | None:
    if item is None:
        return None
    return {
        "in_flight": list(item.in_flight),
        "in_flight_count": item.in_flight_count,
        "victims": [_victim(victim) for victim in item.taken],
        "victim_count": item.taken_count,
        "next_victim": _victim(item.runner_up),
        "left": item.left,
        "protected": item.protected,
        "not_lower": item.not_lower,
        "taken_by_others": item.taken_by_others,
    }


def _victim(victim: Victim | None) -> Mapping[str, object] | None:
    if victim is None:
        return None
    return {
        "machine": victim.machine.id,
        "cluster": victim.machine.cluster,
        "priority": victim.machine.assigned.priority,
        "interruption_penalty": _dollars(victim.interruption_penalty),
        "reclamation_penalty": _dollars(victim.reclamation_penalty),
        "grace_cost": _dollars(victim.grace_cost),
        "cost": _dollars(victim.cost),
        "grace_seconds": victim.grace_s,
    }


def _change(item: Proposal) -> dict[str, object]:
    return {
        "change": item.words,
        "effect": item.effect.value,
        "cost_difference_per_hour": plain(item.cost_difference),
        "preempted": item.preempted,
        "hurts": [
            {
                "needs": list(hurt.numbers),
                "cluster": hurt.cluster,
                "priority": hurt.priority,
                "change": hurt.change.value,
            }
            for hurt in item.hurts
        ],
        "edits": [deepcopy(dict(edit)) for edit in item.edits],  # apart, or YAML would write aliases
    }


def _view(view: NeedFit) -> dict[str, object]:
    return {
        "needs": list(view.numbers),
        "cluster": view.cluster,
        "group": view.group,
        "priority": view.priority,
        "satisfied": view.satisfied,
        "standing": view.result.value,
        "detail": view.detail,
    }


def _dollars(amount: float) -> int | float | str:
    return plain(amount) if math.isfinite(amount) else "pinned"
