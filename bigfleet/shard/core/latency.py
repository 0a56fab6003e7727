"""Since when each cluster asks for each profile: the start of the provisioning latency.

Must never: measure the uptime: an entry is used once, and the next roll-up starts a new one.
Rules: `shard#provisioning-latency`.
"""

from collections.abc import Iterable


class FirstSeen:
    """Start times by cluster and fingerprint, in seconds."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}

    def reported(self, cluster: str, fingerprints: Iterable[str], now: float) -> None:
        """A roll-up was accepted: start new fingerprints, forget those not in it."""
        before = self._since.get(cluster, {})
        since = {fingerprint: before.get(fingerprint, now) for fingerprint in fingerprints}
        if since:
            self._since[cluster] = since
        else:
            self._since.pop(cluster, None)

    def configured(self, cluster: str, fingerprint: str, now: float) -> float | None:
        """How long it took until a machine was configured; None for a profile that is not asked for."""
        started = self._since.get(cluster, {}).pop(fingerprint, None)
        return None if started is None else max(0.0, now - started)
