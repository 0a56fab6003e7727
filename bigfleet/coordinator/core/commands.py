"""Commands: how each is spelled, read, and applied to the tables. The one list of what the log may carry.

Why: the proposer writes what every replica, of this version or the next, has to read; one table holds both ends together.
Must never: be given a kind without a level (decision C12), or read a field that its maker does not write.
Rules: coordinator 2.2 and 12.7. Times are stamped by the proposer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.coordinator.core import fields, ledger
from bigfleet.coordinator.core.results import DONE, CommandOutcome, CommandRefused
from bigfleet.coordinator.core.tables import FIRST_LEVEL, Tables

Command = dict[str, Any]  # Any: what JSON can say
Apply = Callable[[Tables, Mapping[str, Any]], CommandOutcome]


@dataclass(frozen=True, slots=True)
class CommandKind:
    """One kind of command: since which level it may be proposed, and what it does."""

    level: int
    apply: Apply


def begin_epoch(term: int, node: str, cluster_id: str) -> Command:
    """Let the term that a leader has won rule; alone in its batch."""
    return {"kind": "begin_epoch", "term": term, "node": node, "cluster_id": cluster_id}


def barrier() -> Command:
    """Nothing but proof that a majority still follows."""
    return {"kind": "barrier"}


def raise_level(level: int) -> Command:
    """Allow commands of a higher level, once every voter knows them."""
    return {"kind": "raise_level", "level": level}


def add_shard(shard: str, address: str, registered_at_ns: int) -> Command:
    """Register a shard."""
    return {"kind": "add_shard", "id": shard, "address": address, "registered_at": registered_at_ns}


def remove_shard(shard: str, *, destroyed: bool, partitioned: bool) -> Command:
    """Forget a shard with its clusters and domains."""
    return {"kind": "remove_shard", "id": shard, "destroyed": destroyed, "partitioned": partitioned}


def bind_cluster(cluster: str, shard: str) -> Command:
    """Record which shard a cluster dials."""
    return {"kind": "bind_cluster", "cluster": cluster, "shard": shard}


def assign_domain(key: str, value: str, shard: str) -> Command:
    """Give a domain to a shard."""
    return {"kind": "assign_domain", "key": key, "value": value, "shard": shard}


def unassign_domain(key: str, value: str) -> Command:
    """Take a domain from whoever has it."""
    return {"kind": "unassign_domain", "key": key, "value": value}


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
    """Book machines (id to domain value) as on their way from one shard to another."""
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
    """One later step of a move: `move_released`, `move_settled`, `move_cancel`, `move_return` or `move_forget`."""
    return {"kind": kind, "provider": provider, "ids": list(ids), "seq": seq}


def move_learn(
    provider: str,
    machines: Mapping[str, str],
    *,
    key: str,
    from_shard: str,
    holder: str,
    seq: int,
    at_ns: int,
) -> Command:
    """Take back into the ledger what shards remember of a move."""
    return {
        "kind": "move_learn",
        "provider": provider,
        "machines": dict(machines),
        "key": key,
        "from": from_shard,
        "holder": holder,
        "seq": seq,
        "at": at_ns,
    }


def relearn_done() -> Command:
    """End the re-learning after a restore."""
    return {"kind": "relearn_done"}


def _begin_epoch(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return tables.begin_epoch(
        fields.number(given, "term", least=1), fields.text(given, "node"), fields.text(given, "cluster_id")
    )


def _raise_level(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return tables.raise_level(fields.number(given, "level", least=FIRST_LEVEL))


def _add_shard(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return tables.add_shard(
        fields.text(given, "id"),
        fields.text(given, "address", empty=True),
        fields.number(given, "registered_at"),
    )


def _remove_shard(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    shard = fields.text(given, "id")
    destroyed, partitioned = fields.flag(given, "destroyed"), fields.flag(given, "partitioned")
    verdict = tables.remove_shard(shard, destroyed=destroyed, partitioned=partitioned)
    if destroyed and not isinstance(verdict, CommandRefused):
        ledger.settle_destroyed(tables, shard)
    return verdict


def _bind_cluster(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return tables.bind_cluster(fields.text(given, "cluster"), fields.text(given, "shard"))


def _assign_domain(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return tables.assign_domain(
        fields.text(given, "key"), fields.text(given, "value"), fields.text(given, "shard")
    )


def _unassign_domain(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:
    return tables.unassign_domain(fields.text(given, "key"), fields.text(given, "value"))


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
    "begin_epoch": CommandKind(1, _begin_epoch),
    "barrier": CommandKind(1, lambda _tables, _given: DONE),
    "raise_level": CommandKind(1, _raise_level),
    "add_shard": CommandKind(1, _add_shard),
    "remove_shard": CommandKind(1, _remove_shard),
    "bind_cluster": CommandKind(1, _bind_cluster),
    "assign_domain": CommandKind(1, _assign_domain),
    "unassign_domain": CommandKind(1, _unassign_domain),
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
"""The highest level this version knows; a replica whose log goes beyond it must not go on (exit 71)."""
