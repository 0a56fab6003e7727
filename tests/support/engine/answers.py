"""Prints decisions as engine scripts show them: one line for each thing a person would say.

Why: an expected answer must be readable next to a row of the oracle, and every difference must be a line.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.profile import HOST_NAME_KEY, ZONE_KEY, RequirementOperator
from bigfleet.model.quantity import NANO, format_quantity
from bigfleet.model.resources import Resources

_GIBI = 2**30 * NANO


def amounts(resources: Resources) -> str:
    """A vector as `cpu=8 memory=64Gi`."""
    return " ".join(f"{name}={_quantity(amount)}" for name, amount in resources.items()) or "nothing"


def _quantity(amount: int) -> str:
    return f"{amount // _GIBI}Gi" if amount and amount % _GIBI == 0 else format_quantity(amount)


def names(verdicts: Sequence[Verdict]) -> list[str]:
    """Short names of needs: cluster, `cluster/group`, and the place in the list where that is not unique."""
    short = [
        f"{verdict.need.cluster}/{verdict.need.group}" if verdict.need.group else verdict.need.cluster
        for verdict in verdicts
    ]
    seen = Counter(short)
    return [f"{name}#{place}" if seen[name] > 1 else name for place, name in enumerate(short)]


def cycle(decision: Decision) -> list[str]:
    """Actions in order, then where gangs gather, then what is short."""
    called = names(decision.verdicts)
    lines = [*_actions(decision.actions, called)] or ["no action"]
    pairs = list(zip(called, decision.verdicts, strict=True))
    lines += [f"{name} gathers in {verdict.domain}" for name, verdict in pairs if verdict.domain is not None]
    lines += [
        f"{name} is short of {amounts(verdict.deficit)}" for name, verdict in pairs if not verdict.satisfied
    ]
    return lines


def _actions(actions: Iterable[Action], called: Sequence[str]) -> Iterable[str]:
    for rest, equal in groupby(actions, key=lambda action: _rest(action, called)):
        yield f"{rest[0]} {', '.join(action.machine_id for action in equal)}{rest[1]}"


def _rest(action: Action, called: Sequence[str]) -> tuple[ActionKind, str]:
    served = "" if action.need is None else f" for {called[action.need]}"
    grace = f" within {_time(action.grace_s)}" if action.grace_s else ""
    left = action.kind in (ActionKind.PREEMPT, ActionKind.RECLAIM)
    return action.kind, f"{f' from {action.cluster}' if left else ''}{served}{grace}"


def _time(seconds: int) -> str:
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"


def claims(decision: Decision) -> list[str]:
    """Who holds which machine."""
    pairs = zip(names(decision.verdicts), decision.verdicts, strict=True)
    return [f"{name} holds {', '.join(verdict.claimed) or 'nothing'}" for name, verdict in pairs]


def verdicts(decision: Decision) -> list[str]:
    """Every need with its reason, counts and, where it is short, the supply there is."""
    return [
        " ".join(_verdict(name, verdict))
        for name, verdict in zip(names(decision.verdicts), decision.verdicts, strict=True)
    ]


def _verdict(name: str, verdict: Verdict) -> Iterable[str]:
    yield f"{name}: {verdict.reason}"
    yield f"claimed={len(verdict.claimed)}"
    if verdict.bootstrapped:
        yield f"bootstrapped={len(verdict.bootstrapped)}"
    if verdict.provisioned:
        yield f"provisioned={len(verdict.provisioned)}"
    if verdict.structurally_satisfiable:
        yield "structurally-satisfiable"
    if verdict.parked:
        yield "parked"
    supply = verdict.matching_supply
    if supply is not None:
        yield f"supply: idle={supply.idle} speculative={supply.speculative} configured={supply.configured}"
        if supply.capped:
            yield "capped"


def candidates(decision: Decision) -> list[str]:
    """The domains each gang could have gathered in, best first."""
    pairs = zip(names(decision.verdicts), decision.verdicts, strict=True)
    return [
        f"{name}: {entry.domain} {entry.coverage_per_mille}{' satisfiable' if entry.satisfiable else ''}"
        for name, verdict in pairs
        for entry in verdict.same_candidates
    ]


def unresolved(decision: Decision) -> list[str]:
    """What Phase 2 could not help."""
    called = names(decision.verdicts)
    lines = [
        f"{called[entry.need]} lacks {amounts(entry.deficit)}, victims={entry.victims} freed: {amounts(entry.freed)}"
        for entry in decision.unresolved
    ]
    return lines or ["nothing unresolved"]


def demand(decision: Decision) -> list[str]:
    """The demand after folding, a need each line, with the places of the given needs it represents."""
    return [" ".join(_demand(verdict)) for verdict in decision.verdicts]


def _demand(verdict: Verdict) -> Iterable[str]:
    need, profile = verdict.need, verdict.need.profile
    places = ",".join(map(str, verdict.folded_from))
    yield f"{need.cluster} [{places}]"
    yield f"total: {amounts(need.total)}, unit: {amounts(need.unit)}, P{profile.priority}"
    yield f"buckets={profile.interruption_bucket}/{profile.reclamation_bucket}"
    if need.arrival_ns:
        yield f"arrival={need.arrival_ns}"
    if need.group:
        yield f"group={need.group}"
    if need.max_units:
        yield f"k={need.max_units}"
    if need.for_fragments:
        yield "fragments"
    yield from (
        f"same={_key(item.key)}" for item in profile.requirements if item.operator is RequirementOperator.SAME
    )
    yield from (f"spread={_key(item.topology_key)}:{item.max_skew}" for item in profile.spreads)


def _key(key: str) -> str:
    return {ZONE_KEY: "zone", HOST_NAME_KEY: "host"}.get(key, key)
