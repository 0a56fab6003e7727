"""How much time each cluster's frames have cost, and how long a cluster that is over its share has to wait.

Why: every frame is read by the one process that serves all clusters. Without a share the cluster that sends most gets most.
Must never: make one cluster wait for what another one cost, or forget a debt.
Rules: `shard#ingest-share`; ADR-0235.
"""

from typing import Final

BURST_S: Final = 1.0
"""What a cluster may use at once before its share counts: a roll-up of tens of thousands of rows, or thousands of answers."""
_SWEPT_AT: Final = 1024
"""Debts held before the settled ones are dropped, so that clusters that left are forgotten."""


class IngestShares:
    """Debts by cluster: what its frames cost, less what its share has paid since."""

    def __init__(self, share: float) -> None:
        """`share` is the part of each second that one cluster may use."""
        self._share = share
        self._debts: dict[str, tuple[float, float]] = {}  # seconds owed, and when that was so
        self._sweep_at = _SWEPT_AT

    def __len__(self) -> int:
        return len(self._debts)

    def charge(self, cluster: str, cost_s: float, now_s: float) -> None:
        """Add what a frame has cost."""
        self._debts[cluster] = (self._owed(cluster, now_s) + cost_s, now_s)
        if len(self._debts) > self._sweep_at:
            self._debts = {name: debt for name, debt in self._debts.items() if self._owed(name, now_s) > 0}
            self._sweep_at = max(_SWEPT_AT, 2 * len(self._debts))

    def wait_s(self, cluster: str, now_s: float) -> float:
        """How long the cluster's next frame has to wait; 0 within the burst."""
        return max(0.0, (self._owed(cluster, now_s) - BURST_S) / self._share)

    def _owed(self, cluster: str, now_s: float) -> float:
        owed_s, at_s = self._debts.get(cluster, (0.0, now_s))
        return max(0.0, owed_s - (now_s - at_s) * self._share)
