"""Makers of the commands that the coordinator applies and does not propose yet: cluster bindings and moves of the ledger."""

from collections.abc import Mapping, Sequence

from bigfleet.coordinator.core.commands import Command


def bind_cluster(cluster: str, shard: str) -> Command:
    """Record which shard a cluster dials."""
    return {"kind": "bind_cluster", "cluster": cluster, "shard": shard}


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
    """Record machines (id to domain value) as moving from one shard to another."""
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
    """Record in the ledger what shards remember of a move."""
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
