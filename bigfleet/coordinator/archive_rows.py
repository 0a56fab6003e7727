"""Rows of the tables in the original's JSON, both ways.

Why: the original restores our archives, and we restore its (`coordinator#archive`). Rows are in the order of their ids.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bigfleet.coordinator.core.tables import MoveRow, ShardRow
from bigfleet.coordinator.log import Tables
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.times import ns_of_rfc3339, rfc3339_of_ns

NEVER: Final = "0001-01-01T00:00:00Z"
"""The original's zero time: heartbeats are not replicated."""


def shard_rows(tables: Tables) -> Iterator[Mapping[str, Any]]:
    """Yield the registered shards by id."""
    for shard, row in sorted(tables["shards"].items()):
        address, registered_at_ns = row
        yield {
            "ID": shard,
            "Address": address,
            "RegisteredAt": rfc3339_of_ns(registered_at_ns),
            "LastHeartbeat": NEVER,
        }


def domain_rows(tables: Tables) -> Iterator[Mapping[str, Any]]:
    """Yield the owned domains by shard, key and value; sorted per shard, so that no sort holds up other threads."""
    by_shard: dict[str, list[tuple[str, str]]] = {}
    for key, values in tables["domains"].items():
        for value, shard in values.items():
            by_shard.setdefault(shard, []).append((key, value))
    for shard in sorted(by_shard):
        for key, value in sorted(by_shard[shard]):
            yield {"domain": {"Key": key, "Value": value}, "shard": shard}


def move_rows(tables: Tables) -> Iterator[Mapping[str, Any]]:
    """Yield the moved machines by provider and id; the original has none."""
    for provider, rows in sorted(tables["moves"].items()):
        for machine_id, row in sorted(rows.items()):
            yield {
                "provider": provider,
                "machine": machine_id,
                **dict(zip(MoveRow._fields, row, strict=True)),
            }


def rows_of_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a state; unknown keys are ignored."""
    shards = {
        row["ID"]: ShardRow(row["Address"], ns_of_rfc3339(row["RegisteredAt"], "RegisteredAt"))
        for row in _list(state, "shards")
    }
    domains: dict[str, dict[str, str]] = {}
    for row in _list(state, "domain_to_shard"):
        values = domains.setdefault(row["domain"]["Key"], {})
        if row["domain"]["Value"] in values:
            raise InvalidFieldError("domain_to_shard", row["domain"], "each domain once")
        values[row["domain"]["Value"]] = row["shard"]
    moves: dict[str, dict[str, MoveRow]] = {}
    for row in _list(state, "moves"):
        read = MoveRow(**{name: row[name] for name in MoveRow._fields})
        moves.setdefault(row["provider"], {})[row["machine"]] = read
    return {
        "shards": shards,
        "clusters": dict(state.get("cluster_to_shard") or {}),
        "domains": domains,
        "moves": moves,
        "ghosts": list(state.get("ghosts") or ()),
        "move_seq": state.get("move_seq", 0),
    }


def _list(state: Mapping[str, Any], name: str) -> list[Any]:
    value = state.get(name)
    if value is None:
        return []  # the original writes null for an empty list
    if not isinstance(value, list):
        raise InvalidFieldError(name, type(value).__name__, "a list")
    return value
