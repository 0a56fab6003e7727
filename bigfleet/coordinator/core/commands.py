"""The list of replicated commands: how each is written, read, and applied to the tables.

Must never: add a kind without a level (`coordinator#command-levels`), or read a field that no proposer writes.
Rules: `coordinator#commands`, `coordinator#ledger`, `coordinator#move-steps`. Times are stamped by the proposer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.coordinator.core import fields, ledger
from bigfleet.coordinator.core.results import DONE, CommandOutcome, CommandRefused
from bigfleet.coordinator.core.tables import FIRST_LEVEL, Tables

Command = dict[str, Any]  # Any: JSON
Apply = Callable[[Tables, Mapping[str, Any]], CommandOutcome]
Read = Callable[[Mapping[str, Any]], str | int]


@dataclass(frozen=True, slots=True)
class CommandKind:
    """One kind of command: the level from which it may be proposed, and its effect."""

    level: int
    apply: Apply


def begin_epoch(term: int, node: str, cluster_id: str) -> Command:
    """Begin the epoch of a term that a leader has won; alone in its batch."""
    return {"kind": "begin_epoch", "term": term, "node": node, "cluster_id": cluster_id}


def barrier() -> Command:
    """Change nothing; its commit proves that a majority still follows."""
    return {"kind": "barrier"}


def raise_level(level: int) -> Command:
    """Allow commands of a higher level, once every voter knows them."""
    return {"kind": "raise_level", "level": level}


def add_shard(shard: str, address: str, registered_at_ns: int) -> Command:
    """Register a shard."""
    return {"kind": "add_shard", "id": shard, "address": address, "registered_at": registered_at_ns}


def remove_shard(shard: str, *, destroyed: bool, partitioned: bool) -> Command:
    """Remove a shard with its clusters and domains."""
    return {"kind": "remove_shard", "id": shard, "destroyed": destroyed, "partitioned": partitioned}


def assign_domain(key: str, value: str, shard: str) -> Command:
    """Give a domain to a shard."""
    return {"kind": "assign_domain", "key": key, "value": value, "shard": shard}


def unassign_domain(key: str, value: str) -> Command:
    """Take a domain from its shard."""
    return {"kind": "unassign_domain", "key": key, "value": value}


def relearn_done() -> Command:
    """End the re-learning after a restore."""
    return {"kind": "relearn_done"}


def move_begin(
    provider: str,
    machines: Mapping[str, str],
    *,
    key: str,
    from_shard: str,
    to_shard: str,
    flow: str,
    at_ns: int,
) -> Command:
    """Begin to move machines, given with their domain values, to another shard."""
    return {
        "kind": "move_begin",
        "provider": provider,
        "machines": dict(machines),
        "key": key,
        "from": from_shard,
        "to": to_shard,
        "flow": flow,
        "at": at_ns,
    }


def move_step(kind: str, provider: str, ids: Sequence[str], seq: int) -> Command:
    """Carry out one later step of a move."""
    return {"kind": kind, "provider": provider, "ids": list(ids), "seq": seq}


def _text(name: str, *, empty: bool = False) -> Read:
    return lambda given: fields.text(given, name, empty=empty)


def _number(name: str, *, least: int = 0) -> Read:
    return lambda given: fields.number(given, name, least=least)


def _with(change: Callable[..., CommandOutcome], *reads: Read) -> Apply:
    """Return the effect of a command whose fields are the arguments of one change, in this order."""
    return lambda tables, given: change(tables, *(read(given) for read in reads))


def _remove_shard(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    shard = fields.text(given, "id")
    destroyed, partitioned = fields.flag(given, "destroyed"), fields.flag(given, "partitioned")
    verdict = tables.remove_shard(shard, destroyed=destroyed, partitioned=partitioned)
    if destroyed and not isinstance(verdict, CommandRefused):
        ledger.settle_destroyed(tables, shard)
    return verdict


def _move_begin(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return ledger.begin(
        tables,
        provider=fields.text(given, "provider"),
        machines=fields.machines(given, "machines", least=1),
        key=fields.text(given, "key"),
        from_shard=fields.text(given, "from"),
        to_shard=fields.text(given, "to"),
        flow=fields.text(given, "flow"),
        at_ns=fields.number(given, "at"),
    )


def _move_learn(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return ledger.learn(
        tables,
        provider=fields.text(given, "provider"),
        machines=fields.machines(given, "machines", least=0),
        key=fields.text(given, "key"),
        from_shard=fields.text(given, "from"),
        holder=fields.text(given, "holder"),
        seq=fields.number(given, "seq"),
        at_ns=fields.number(given, "at"),
    )


def _move_step(step: Callable[[Tables, str, Sequence[str], int], CommandOutcome]) -> Apply:
    def apply(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
        ids = fields.ids(given, "ids")
        return step(tables, fields.text(given, "provider"), ids, fields.number(given, "seq"))

    return apply


KINDS: Final[Mapping[str, CommandKind]] = {
    "begin_epoch": CommandKind(
        1, _with(Tables.begin_epoch, _number("term", least=1), _text("node"), _text("cluster_id"))
    ),
    "barrier": CommandKind(1, lambda _tables, _given: DONE),
    "raise_level": CommandKind(1, _with(Tables.raise_level, _number("level", least=FIRST_LEVEL))),
    "add_shard": CommandKind(
        1, _with(Tables.add_shard, _text("id"), _text("address", empty=True), _number("registered_at"))
    ),
    "remove_shard": CommandKind(1, _remove_shard),
    "bind_cluster": CommandKind(1, _with(Tables.bind_cluster, _text("cluster"), _text("shard"))),
    "assign_domain": CommandKind(
        1, _with(Tables.assign_domain, _text("key"), _text("value"), _text("shard"))
    ),
    "unassign_domain": CommandKind(1, _with(Tables.unassign_domain, _text("key"), _text("value"))),
    "move_begin": CommandKind(1, _move_begin),
    "move_released": CommandKind(1, _move_step(ledger.released)),
    "move_settled": CommandKind(1, _move_step(ledger.settled)),
    "move_cancel": CommandKind(1, _move_step(ledger.cancel)),
    "move_return": CommandKind(1, _move_step(ledger.give_back)),
    "move_forget": CommandKind(1, _move_step(ledger.forget)),
    "move_learn": CommandKind(1, _move_learn),
    "relearn_done": CommandKind(1, lambda tables, _given: tables.relearn_done()),
}

KNOWN_LEVEL: Final = max(kind.level for kind in KINDS.values())
"""The highest level this version knows; a replica whose log goes beyond it ends with exit 71."""
