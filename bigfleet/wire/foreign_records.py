"""Which records of a shared provider are taken, and which were found to be of other shards.

Why: a shard lists what all shards of its provider have; what is not its own must cost nearly nothing in every listing.
Must never: remember a refusal that a later answer could turn: whatever changes the claims forgets all of them.
Rules: `coordinator#partition-mode`, `coordinator#ownership-file`.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.machine import CLUSTER_REQUIRED
from bigfleet.model.ownership import Claim
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.wire.metadata import OWNER_SHARD

Hashes = NDArray[np.int64]

_BOUND = frozenset(map(int, CLUSTER_REQUIRED))
_NONE: Hashes = np.empty(0, dtype=np.int64)


class Claims(Protocol):
    """Which machines a shard takes; where none is given it takes all."""

    @property
    def key(self) -> str:
        """The label key whose value decides."""

    @property
    def revision(self) -> int:
        """Rises whenever an answer may be another one."""

    def claim(self, machine_id: str, value: str | None, *, bound: bool) -> Claim:
        """Whether a machine that is not known yet is taken."""

    def bound_here(self, owner_shard: str, cluster: str) -> bool:
        """Whether this mark and this cluster show that this shard bound the machine."""


class ForeignRecords:
    """The records of other shards in the last full listing, by hash."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self._revision = -1
        self._foreign, self._without_domain = _NONE, _NONE  # sorted
        self._found: list[int] = []
        self._found_without: list[int] = []
        self._undecided = 0

    def begin(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Begin a listing; return which of its records were of other shards before and have not changed since."""
        self._found, self._found_without, self._undecided = [], [], 0
        if self._revision != self.claims.revision:
            self._foreign, self._without_domain = _NONE, _NONE
            self._revision = self.claims.revision
        return _among(hashes, self._foreign)

    def takes(self, machine_id: str, value: str | None, state: int, record: bytes, source_hash: int) -> bool:
        """Return whether a machine that is not known yet is taken."""
        claim = self.claims.claim(machine_id, value, bound=state in _BOUND)
        if claim is Claim.OWN:
            return True
        if claim is Claim.IF_MARKED:
            message = pb.Machine.FromString(record)
            if self.claims.bound_here(message.shard_metadata.get(OWNER_SHARD, ""), message.cluster):
                return True
            self._undecided += 1  # its cluster may connect here later
            return False
        self._found.append(source_hash)
        if value is None:
            self._found_without.append(source_hash)
        return False

    def end(self, again: Hashes, *, full: bool) -> tuple[int, int]:
        """End a listing; return how many machines are of other shards, and how many of them lack the key.

        `again` are the hashes of the records that `begin` knew.
        """
        foreign = np.concatenate([again, np.asarray(self._found, dtype=np.int64)])
        without = np.concatenate(
            [again[_among(again, self._without_domain)], np.asarray(self._found_without, dtype=np.int64)]
        )
        if full:
            self._foreign, self._without_domain = np.unique(foreign), np.unique(without)
        return foreign.size + self._undecided, without.size


def _among(values: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """Which values are among some sorted ones."""
    if not known.size:
        return np.zeros(values.size, dtype=np.bool_)
    places = np.minimum(np.searchsorted(known, values), known.size - 1)
    found: NDArray[np.bool_] = known[places] == values
    return found
