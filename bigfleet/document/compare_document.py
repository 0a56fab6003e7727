"""A comparison as a document: the difference first, then both sides in figures.

Why: what `bigfleet what-if -o json` prints is read by programs and kept for later, so its names are contract.
"""

from collections.abc import Callable, Mapping

from bigfleet.document.compare import (
    Comparison,
    MachineChange,
    MachineSide,
    NeedChange,
    NeedSide,
    Totals,
)
from bigfleet.model.action import ActionKind

VERSION = 1


def comparison_document(comparison: Comparison) -> dict[str, object]:
    """The comparison as JSON has it."""
    before, after = comparison.before, comparison.after

    def pair(of: Callable[[Totals], object]) -> dict[str, object]:
        return {"before": of(before), "after": of(after)}

    return {
        "version": VERSION,
        "same": comparison.same,
        "needs": [_need(change) for change in comparison.needs],
        "machines": [_machine(change) for change in comparison.machines],
        "actions": {kind.value: pair(_count_of(kind)) for kind in ActionKind},
        "cost_per_hour": {
            "serving": pair(lambda side: side.costs.serving),
            "waiting": pair(lambda side: side.costs.waiting),
            "total": pair(lambda side: side.costs.total),
        },
        "interruption_exposure_per_hour": pair(lambda side: side.costs.exposure),
        "pinned_machines_at_risk": pair(lambda side: side.costs.pinned_at_risk),
        "shortfalls": {name: pair(_shortfalls_of(name)) for name in before.shortfalls},
        "missing": {name: pair(_missing_of(name)) for name in sorted({*before.missing, *after.missing})},
    }


def _count_of(kind: ActionKind) -> Callable[[Totals], object]:
    return lambda side: side.actions[kind]


def _shortfalls_of(name: str) -> Callable[[Totals], object]:
    return lambda side: side.shortfalls[name]


def _missing_of(name: str) -> Callable[[Totals], object]:
    return lambda side: side.missing.texts().get(name, "0")


def _need(change: NeedChange) -> dict[str, object]:
    shown = change.shown
    return {
        "needs": list(change.numbers),
        "cluster": shown.need.cluster,
        "group": shown.need.group,
        "priority": shown.need.profile.priority,
        "change": change.change.value,
        "before": _need_side(change.before),
        "after": _need_side(change.after),
    }


def _need_side(side: NeedSide | None) -> Mapping[str, object] | None:
    if side is None:
        return None
    return {
        "fingerprint": side.need.profile.fingerprint,
        "priority": side.need.profile.priority,
        "satisfied": side.satisfied,
        "reason": side.reason.value,
        "total": side.need.total.texts(),
        "deficit": side.deficit.texts(),
        "unresolved": side.open.texts(),
        "domain": side.domain,
        "machines": list(side.machines),
        "victims": side.victims,
    }


def _machine(change: MachineChange) -> dict[str, object]:
    shape = change.shown.machine.shape
    return {
        "machine": change.machine_id,
        "instance_type": shape.instance_type,
        "zone": shape.zone,
        "capacity_type": shape.capacity_type.label,
        "price_per_hour": shape.price_per_hour,
        "before": _machine_side(change.before),
        "after": _machine_side(change.after),
    }


def _machine_side(side: MachineSide | None) -> Mapping[str, object] | None:
    if side is None:
        return None
    return {
        "state": side.machine.state.label,
        "needs": list(side.holder),
        "cluster": side.cluster or None,
        "action": None if side.action is None else side.action.value,
    }
