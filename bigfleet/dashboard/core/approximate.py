"""Explains a need from the rows of its shard, for a shard that does not explain needs itself.

Why: a shard of the original serves its needs and nothing else. Its rows carry verdict, reason, supply and domains; this
module guesses competitors from the rows ahead, and marks them as a guess.
Must never: look like an explanation of the engine; every sentence says "approximate".
Rules: `dashboard#approximate`, `dashboard#original-fleet`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.explain.amounts import readable

TableRow = Mapping[str, Any]  # a need in the form of `/needs`
_COMPETITORS: Final = 10
_REASONS: Final = {
    "PRIORITY_STARVED": "what matches serves needs of higher precedence",
    "NO_MATCHING_SUPPLY": "no machine matches",
    "TOPOLOGY_UNSATISFIABLE": "no single domain holds enough",
    "PREEMPTION_EXHAUSTED": "nobody of lower priority can be asked to leave",
}


def find(rows: Sequence[TableRow], cluster: str, fingerprint: str, group: str) -> int | None:
    """Return the place of a need among the rows of its shard."""
    wanted = (cluster, fingerprint, group)
    keys = ((row["clusterId"], row["profileFingerprint"], row["group"]) for row in rows)
    return next((place for place, key in enumerate(keys) if key == wanted), None)


def approximate(rows: Sequence[TableRow], place: int) -> dict[str, Any]:
    """Return an explanation in the form of the engine's, from rows in order of precedence."""
    row = rows[place]
    return {
        "version": 1,
        "sentence": _sentence(row),
        "needs": [place],
        "cluster": row["clusterId"],
        "group": row["group"],
        "fingerprint": row["profileFingerprint"],
        "priority": row["priority"],
        "satisfied": row["satisfied"],
        "reason": row["unmetReason"],
        "parked": row["acquisitionParked"],
        "domain": row["sameDomain"],
        "total": dict(row["aggregateResources"]),
        "deficit": dict(row["residualDeficit"]),
        "steps": [],
        "chosen": [],
        "next_best": None,
        "refused": [],
        "competitors": _competitors(rows, place),
        "domains": [
            {
                "domain": domain["domain"],
                "chosen": domain["domain"] == row["sameDomain"],
                "satisfiable": domain["satisfiable"],
                "coverage_per_mille": domain["coveragePerMille"],
                **dict.fromkeys(_NOT_TOLD),
            }
            for domain in row["sameCandidates"]
        ],
        "preemption": None,
        "changes": [],
    }


_NOT_TOLD: Final = (
    "machines",
    "creditable_per_mille",
    "own_per_mille",
    "overcommitment_per_mille",
    "decided_by",
)


def _sentence(row: TableRow) -> str:
    held = row["claimedMachineCount"]
    if row["satisfied"]:
        return f"Approximate: satisfied with {held} machines."
    supply = row["matchingSupply"]
    more = " or more" if supply["capped"] else ""
    matching = ", ".join(f"{supply[name]} {name}" for name in ("idle", "configured", "speculative"))
    why = _REASONS.get(row["unmetReason"], "the shard does not say why")
    parked = " It is parked." if row["acquisitionParked"] else ""
    victims = row["preemption"]["victimsFound"]
    freed = f" {victims} machines would leave for it." if victims else ""
    return (
        f"Approximate: short {readable(row['residualDeficit'])} of {readable(row['aggregateResources'])}, "
        f"{held} machines taken: {why}. Matching machines: {matching}{more}.{freed}{parked}"
    )


def _competitors(rows: Sequence[TableRow], place: int) -> list[dict[str, Any]]:
    """Needs ahead that hold machines and want a resource that this need wants."""
    wanted = set(rows[place]["aggregateResources"])
    ahead = [
        (number, row)
        for number, row in enumerate(rows[:place])
        if row["claimedMachineCount"] and wanted & set(row["aggregateResources"])
    ]
    return [
        {
            "needs": [number],
            "cluster": row["clusterId"],
            "group": row["group"],
            "priority": row["priority"],
            "relation": "approximate: ahead",
            "machines": row["claimedMachineCount"],
        }
        for number, row in sorted(ahead, key=lambda item: (-item[1]["claimedMachineCount"], item[0]))[
            :_COMPETITORS
        ]
    ]
