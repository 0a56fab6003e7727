"""Learns again, after a restore, which domains the shards of shared providers hold.

Why: an old snapshot knows fewer domains than the shards do; delivered as it is, it would strip them.
Must never: choose between two shards that both hold a domain: a person has to.
Rules: `coordinator#relearn`, `coordinator#relearn-ownership`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import Command
from bigfleet.coordinator.core.tables import Tables
from bigfleet.model.shard_report import OwnershipView

MAX_AT_ONCE: Final = 200

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Relearned:
    """What the views say beyond the tables."""

    commands: tuple[Command, ...]
    """To propose; not more than fit into one batch."""
    disputed: tuple[Pair, ...]
    """Domains that more than one shard holds."""


def relearn(tables: Tables, views: Mapping[str, OwnershipView]) -> Relearned:
    """Return the commands that give each domain in exactly one view its row back."""
    held: dict[Pair, list[str]] = {}
    leaving: dict[Pair, list[str]] = {}
    for shard in sorted(views):
        if shard not in tables.shards:
            continue
        left = {(domain.key, domain.value) for domain in views[shard].leaving}
        for domain in views[shard].domains:
            pair = domain.key, domain.value
            (leaving if pair in left else held).setdefault(pair, []).append(shard)
    found: list[Command] = []
    disputed: list[Pair] = []
    for pair in sorted({*held, *leaving}):
        # Who is leaving a domain counts only where nobody holds it.
        holders = held.get(pair) or leaving[pair]
        if len(holders) > 1:
            disputed.append(pair)
        elif tables.owner_of(*pair) != holders[0]:
            if tables.owner_of(*pair):
                found.append(commands.unassign_domain(*pair))
            found.append(commands.assign_domain(*pair, holders[0]))
    return Relearned(tuple(found[:MAX_AT_ONCE]), tuple(disputed))
