"""Parks gangs that no domain can hold, so that they try only now and then.

Why: such a gang would try in every cycle, and take machines that other needs could use.
Must never: age a gang that made progress, or park one that was tried in fewer than eight cycles.
Rules: `shard#parking`, `engine#parking-ledger`; ADR-0042 addendum. The numbers are constants.
"""

from collections.abc import Iterable, Mapping

from bigfleet.model.decision import Verdict
from bigfleet.model.situation import GangRef

PARKED_FROM = 8
TRIED_EVERY = 32


class ParkingLedger:
    """For each gang, how many cycles in a row it had neither a domain nor progress."""

    def __init__(self) -> None:
        self._ages: dict[GangRef, int] = {}

    @property
    def ages(self) -> Mapping[GangRef, int]:
        return self._ages

    def parked(self) -> frozenset[GangRef]:
        """The gangs that acquire nothing in the next cycle."""
        return frozenset(
            gang for gang, age in self._ages.items() if age >= PARKED_FROM and age % TRIED_EVERY != 0
        )

    def decided(self, short: Iterable[Verdict], *, ages: bool = True) -> None:
        """Age the gangs among the needs that Phase 1 left short, and forget all others.

        Without `ages` the cycle followed another so closely that it does not count (`shard#ledger-ages`).
        """
        known: dict[GangRef, int] = {}
        for verdict in short:
            need = verdict.need
            if need.profile.same_key is None:
                continue
            progressed = bool(verdict.bootstrapped) or bool(verdict.provisioned)
            if progressed or verdict.structurally_satisfiable:
                continue
            gang = GangRef(need.cluster, need.group, need.profile.fingerprint)
            known[gang] = self._ages.get(gang, 0) + ages
        self._ages = known
