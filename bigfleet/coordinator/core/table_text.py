"""The tables as JSON and back, for dumps of the log.

Must never: load rows that break an invariant: loading uses the mutators of commands, and one refusal refuses the whole
(`coordinator#invariants`, `coordinator#cluster-binding`). Writing must be fast, because it blocks the log.
"""

from collections.abc import Mapping
from typing import Any, Final

from bigfleet.coordinator.core import fields
from bigfleet.coordinator.core.results import CommandOutcome, CommandRefused
from bigfleet.coordinator.core.tables import FIRST_LEVEL, MoveRow, MoveState, Tables
from bigfleet.model.errors import InvalidFieldError

FORMAT: Final = 1


def table_text(tables: Tables) -> dict[str, Any]:
    """Return a copy of all rows for JSON."""
    return {
        "format": FORMAT,
        "level": tables.level,
        "cluster_id": tables.cluster_id,
        "incarnation": tables.incarnation,
        "relearn": tables.relearn,
        "epoch": tables.epoch,
        "epoch_owner": tables.epoch_owner,
        "move_seq": tables.move_seq,
        "shards": dict(tables.shards),
        "clusters": dict(tables.clusters),
        "domains": {key: dict(values) for key, values in tables.domains.items()},
        "moves": {provider: dict(rows) for provider, rows in tables.moves.items()},
        "ghosts": list(tables.ghosts),
    }


def read_tables(given: Mapping[str, Any], *, known_level: int) -> Tables:
    """Build tables from their JSON; raises `InvalidFieldError`."""
    if fields.number(given, "format") != FORMAT:
        raise InvalidFieldError("format", given["format"], str(FORMAT))
    tables = Tables()
    tables.level = fields.number(given, "level", least=FIRST_LEVEL)
    if tables.level > known_level:
        raise InvalidFieldError("level", tables.level, f"at most {known_level}, what this version knows")
    tables.cluster_id = fields.text(given, "cluster_id", empty=True)
    tables.incarnation = fields.number(given, "incarnation", least=1)
    tables.relearn = fields.flag(given, "relearn")
    tables.epoch = fields.number(given, "epoch")
    tables.epoch_owner = fields.text(given, "epoch_owner", empty=True)
    tables.move_seq = fields.number(given, "move_seq")
    _read_shards(tables, fields.mapping(given, "shards"))
    clusters = fields.mapping(given, "clusters")
    for cluster in clusters:
        _accept(f"clusters[{cluster}]", tables.bind_cluster(cluster, fields.text(clusters, cluster)))
    domains = fields.mapping(given, "domains")
    for key in domains:
        values = fields.mapping(domains, key)
        for value in values:
            shard = fields.text(values, value)
            _accept(f"domains[{key}={value}]", tables.assign_domain(key, value, shard))
    _read_moves(tables, fields.mapping(given, "moves"))
    ghosts = given.get("ghosts")
    if not isinstance(ghosts, list):
        raise InvalidFieldError("ghosts", ascii(ghosts)[:80], "a list of shard ids")
    for ghost in ghosts:
        shard = fields.text({"ghosts": ghost}, "ghosts")
        if shard in tables.shards:
            raise InvalidFieldError("ghosts", shard, "a shard that is not registered")
        tables.ghosts[shard] = None
    return tables


def _read_shards(tables: Tables, shards: Mapping[str, Any]) -> None:
    for shard, row in shards.items():
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise InvalidFieldError(f"shards[{shard}]", ascii(row)[:80], "address and time of registration")
        named = {"address": row[0], "registered_at": row[1]}
        address = fields.text(named, "address", empty=True)
        _accept(f"shards[{shard}]", tables.add_shard(shard, address, fields.number(named, "registered_at")))


def _read_moves(tables: Tables, moves: Mapping[str, Any]) -> None:
    for provider in moves:
        rows = fields.mapping(moves, provider)
        for machine_id, row in rows.items():
            place = f"moves[{provider}][{machine_id}]"
            try:
                tables.put_move(provider, machine_id, _read_move(row))
            except InvalidFieldError as error:
                raise error.under(place) from None
            if tables.moves[provider][machine_id].seq > tables.move_seq:
                raise InvalidFieldError(place, row, f"a number up to move_seq, {tables.move_seq}")


def _read_move(row: object) -> MoveRow:
    if not isinstance(row, list | tuple) or len(row) != len(MoveRow._fields):
        raise InvalidFieldError("row", ascii(row)[:80], f"{len(MoveRow._fields)} fields")
    named = dict(zip(MoveRow._fields, row, strict=True))
    phase = fields.text(named, "phase")
    if phase not in {state.value for state in MoveState}:
        raise InvalidFieldError("phase", phase, "one of " + ", ".join(state.value for state in MoveState))
    return MoveRow(
        key=fields.text(named, "key", empty=True),
        value=fields.text(named, "value", empty=True),
        home=fields.text(named, "home", empty=True),
        from_shard=fields.text(named, "from_shard"),
        holder=fields.text(named, "holder"),
        phase=phase,
        seq=fields.number(named, "seq"),
        flow=fields.text(named, "flow", empty=True),
        at_ns=fields.number(named, "at_ns"),
        replaces=fields.number(named, "replaces"),
    )


def _accept(place: str, verdict: CommandOutcome) -> None:
    if isinstance(verdict, CommandRefused):
        raise InvalidFieldError(place, verdict.detail, "rows that agree with each other")
