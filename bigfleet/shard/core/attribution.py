"""The attribution probe: log lines that show reclaimed machines which a short need could use.

Why: a fleet that reclaims machines while needs are short may have a defect; these lines name the machine and the gang.
Must never: change anything.
Rules: `shard#attribution-probe`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from bigfleet.engine.verdicts import short_places
from bigfleet.model.action import ActionKind
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import Machine
from bigfleet.model.matching import matches

SAMPLES = 5
_IDS = 12
_FINGERPRINT = 12

Line = tuple[str, dict[str, object]]


def attribution_lines(snapshot: InventorySnapshot, decision: Decision) -> Iterator[Line]:
    """One line with counts, then samples of reclaimed machines and of unsatisfied and satisfied gangs."""
    verdicts = decision.verdicts
    short = [verdicts[place] for place in short_places(verdicts)]
    gangs = [verdict for verdict in verdicts if _is_gang(verdict)]
    reclaimed = _reclaimed(snapshot, decision)
    useful = [(machine, _wanted_by(machine, short)) for machine in reclaimed]
    yield (
        "attribution",
        {
            "needs": len(verdicts),
            "gangs": len(gangs),
            "short": len(short),
            "short_gangs": sum(map(_is_gang, short)),
            "reclaims": len(reclaimed),
            "reclaims_matching": sum(bool(wanted) for _, wanted in useful),
            "reclaims_fitting": sum(
                any(verdict.need.counted(machine.shape).covers(verdict.need.unit) for verdict in wanted)
                for machine, wanted in useful
            ),
        },
    )
    for machine, wanted in useful[:SAMPLES]:
        yield (
            "attribution_reclaim",
            {"machine": machine.id, "cluster": machine.cluster, "wanted": len(wanted)},
        )
    for verdict in [item for item in short if _is_gang(item)][:SAMPLES]:
        yield (
            "attribution_short_gang",
            {
                "gang": _name(verdict),
                "cluster": verdict.need.cluster,
                "domain": verdict.domain or "",
                "acquired": len(verdict.bootstrapped) + len(verdict.provisioned),
                "residual": verdict.deficit.texts(),
                "parked": verdict.parked,
            },
        )
    for verdict in [item for item in gangs if item.satisfied][:SAMPLES]:
        machines = sorted(verdict.claimed)
        yield (
            "attribution_gang",
            {
                "gang": _name(verdict),
                "domain": verdict.domain or "",
                "machines": len(machines),
                "first": machines[:_IDS],
            },
        )


def _is_gang(verdict: Verdict) -> bool:
    return verdict.need.profile.same_key is not None


def _name(verdict: Verdict) -> str:
    return verdict.need.group or verdict.need.profile.fingerprint[:_FINGERPRINT]


def _reclaimed(snapshot: InventorySnapshot, decision: Decision) -> list[Machine]:
    wanted = {action.machine_id for action in decision.actions if action.kind is ActionKind.RECLAIM}
    if not wanted:
        return []
    rows = snapshot.id_order
    ids = snapshot.ids.many(rows)
    return [
        snapshot.machine(int(row))
        for row, machine_id in zip(np.asarray(rows), ids, strict=True)
        if machine_id in wanted
    ]


def _wanted_by(machine: Machine, short: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in short if matches(machine, verdict.need.profile)]
