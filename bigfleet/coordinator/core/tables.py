"""The replicated tables, and the changes to shards, clusters and domains.

Why: three replicas apply the same commands and must end with the same rows. So each change is one method that checks, then
changes, and depends on nothing but the tables and its arguments.
Must never: raise on bad input, change anything before all checks passed, overwrite an address.
Rules: `coordinator#tables`, `coordinator#commands`, `coordinator#invariants`. Moves between shards are in
`bigfleet.coordinator.core.ledger`.

Rows are tuples and texts, so that copying 100,000 of them takes a millisecond.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from bigfleet.coordinator.core.results import DONE, CommandOutcome, CommandRefused, RefusalCode

FIRST_LEVEL: Final = 1


class MoveState(StrEnum):
    """The phase of a move in the ledger (`coordinator#ledger`, `coordinator#move-steps`)."""

    RELEASING = "releasing"
    ADOPTING = "adopting"
    HELD = "held"


class ShardRow(NamedTuple):
    """A registered shard; the address is recorded once."""

    address: str
    registered_at_ns: int


class MoveRow(NamedTuple):
    """One machine outside the shard of its domain; an empty shard id is none."""

    key: str
    value: str
    home: str
    from_shard: str
    holder: str
    phase: str
    seq: int
    flow: str
    at_ns: int
    replaces: int
    """The number of this row before it was returned, to recognise a repeated return; 0 otherwise."""


class Tables:
    """All replicated state of the coordinator."""

    def __init__(self) -> None:
        self.shards: dict[str, ShardRow] = {}
        self.clusters: dict[str, str] = {}
        self.domains: dict[str, dict[str, str]] = {}  # key -> value -> shard; never an empty inner dict
        self.moves: dict[str, dict[str, MoveRow]] = {}  # provider address -> machine id -> row; likewise
        self.ghosts: dict[str, None] = {}
        self.move_seq = 0
        self.epoch = 0
        self.epoch_owner = ""
        self.cluster_id = ""
        self.incarnation = 1
        self.relearn = False
        self.level = FIRST_LEVEL
        # Indexes over the rows above, never dumped.
        self.domains_of_shard: dict[str, dict[tuple[str, str], None]] = {}
        self.moves_of_domain: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
        self.move_count = 0

    def begin_epoch(self, term: int, node: str, cluster_id: str) -> CommandOutcome:
        """Begin the epoch of a newly won term; the first one also names the cluster."""
        if term <= self.epoch:
            return CommandRefused(
                RefusalCode.STALE_EPOCH, f"term: found {term}, allowed is more than {self.epoch}"
            )
        if self.cluster_id and cluster_id != self.cluster_id:
            return CommandRefused(
                RefusalCode.INVALID, f"cluster_id: found {cluster_id}, allowed is {self.cluster_id}"
            )
        self.epoch, self.epoch_owner, self.cluster_id = term, node, cluster_id
        return DONE

    def raise_level(self, level: int) -> CommandOutcome:
        """Allow commands of a higher level; a lower one changes nothing (`coordinator#command-levels`)."""
        self.level = max(self.level, level)
        return DONE

    def add_shard(self, shard: str, address: str, registered_at_ns: int) -> CommandOutcome:
        """Register a shard; it is no longer a ghost."""
        if shard in self.shards:
            return CommandRefused(RefusalCode.SHARD_EXISTS, f"shard {shard} is registered already")
        self.shards[shard] = ShardRow(address, registered_at_ns)
        self.ghosts.pop(shard, None)
        return DONE

    def remove_shard(self, shard: str, *, destroyed: bool, partitioned: bool) -> CommandOutcome:
        """Remove a shard with its clusters and domains; the ledger handles its moves."""
        if shard not in self.shards and shard not in self.ghosts:
            return CommandRefused(RefusalCode.SHARD_NOT_FOUND, f"shard {shard} is not registered")
        was_registered = self.shards.pop(shard, None) is not None
        for key, value in list(self.domains_of_shard.pop(shard, ())):
            self._drop_domain(key, value)
        self.clusters = {cluster: owner for cluster, owner in self.clusters.items() if owner != shard}
        if destroyed:
            self.ghosts.pop(shard, None)
        elif partitioned and was_registered:
            self.ghosts[shard] = None
        return DONE

    def bind_cluster(self, cluster: str, shard: str) -> CommandOutcome:
        """Record which shard a cluster dials; no code proposes it yet (`coordinator#cluster-binding`)."""
        if shard not in self.shards:
            return CommandRefused(RefusalCode.SHARD_NOT_FOUND, f"shard {shard} is not registered")
        owner = self.clusters.setdefault(cluster, shard)
        if owner != shard:
            detail = f"cluster {cluster} is bound to shard {owner}"
            return CommandRefused(RefusalCode.CLUSTER_ALREADY_BOUND, detail, owner)
        return DONE

    def assign_domain(self, key: str, value: str, shard: str) -> CommandOutcome:
        """Give a domain to a shard, which becomes the home of its moved machines."""
        if shard not in self.shards:
            return CommandRefused(RefusalCode.SHARD_NOT_FOUND, f"shard {shard} is not registered")
        owner = self.owner_of(key, value)
        if owner and owner != shard:
            detail = f"domain {key}={value} belongs to shard {owner}"
            return CommandRefused(RefusalCode.DOMAIN_ALREADY_ASSIGNED, detail, owner)
        self.domains.setdefault(key, {})[value] = shard
        self.domains_of_shard.setdefault(shard, {})[key, value] = None
        self.set_home(key, value, shard)
        return DONE

    def unassign_domain(self, key: str, value: str) -> CommandOutcome:
        """Take a domain from its shard; an unassigned domain is no error."""
        owner = self.owner_of(key, value)
        if owner:
            self._drop_domain(key, value)
            owned = self.domains_of_shard[owner]
            del owned[key, value]
            if not owned:
                del self.domains_of_shard[owner]
            self.set_home(key, value, "")
        return DONE

    def relearn_done(self) -> CommandOutcome:
        """End the re-learning after a restore (`coordinator#restore`, `coordinator#relearn`)."""
        self.relearn = False
        return DONE

    def owner_of(self, key: str, value: str) -> str:
        """Return the shard of a domain; empty for none."""
        return self.domains.get(key, {}).get(value, "")

    def set_home(self, key: str, value: str, shard: str) -> None:
        """Set the home of the moved machines of a domain."""
        for provider, machine_id in self.moves_of_domain.get((key, value), ()):
            row = self.moves[provider][machine_id]
            self.moves[provider][machine_id] = row._replace(home=shard)

    def put_move(self, provider: str, machine_id: str, row: MoveRow) -> None:
        """Write or replace one row of the ledger."""
        self.drop_move(provider, machine_id)
        self.moves.setdefault(provider, {})[machine_id] = row
        self.moves_of_domain.setdefault((row.key, row.value), {})[provider, machine_id] = None
        self.move_count += 1

    def drop_move(self, provider: str, machine_id: str) -> None:
        """Delete one row of the ledger, if it is there."""
        rows = self.moves.get(provider, {})
        row = rows.pop(machine_id, None)
        if row is None:
            return
        if not rows:
            del self.moves[provider]
        siblings = self.moves_of_domain[row.key, row.value]
        del siblings[provider, machine_id]
        if not siblings:
            del self.moves_of_domain[row.key, row.value]
        self.move_count -= 1

    def move(self, provider: str, machine_id: str) -> MoveRow | None:
        """Return one row of the ledger; None for a machine that was not moved."""
        return self.moves.get(provider, {}).get(machine_id)

    def _drop_domain(self, key: str, value: str) -> None:
        values = self.domains[key]
        del values[value]
        if not values:
            del self.domains[key]
