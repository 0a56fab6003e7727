"""Leader election by a Lease: at most one process works, and it stops before another may begin.

Why: the leader election of the client library cannot create its lease, stamps local time as UTC, and does not stop the leader
when the API server is gone (`operator#login`). Two working operators would take the session from each other.
Must never: work past the renewal deadline, trust another host's clock, or take a lease that was renewed within its duration by
our own clock.
Rules: `operator#single-replica`, `operator#u6`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.rng import RandomStream
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import KubeError, NotFoundError
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import LEASES, ObjectKey
from bigfleet.kube.transport import Document
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.times import rfc3339_of_ns

# A deadline closer than this has passed: no call fits into it.
_TOO_LITTLE_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, when its holder gives up without a renewal, and how often it retries."""

    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.duration_s:
            found = (self.retry_s, self.renew_deadline_s, self.duration_s)
            raise InvalidFieldError("lease times", found, "retry < renew deadline < duration, all above 0")


class Lease:
    """One candidate for one lease."""

    def __init__(
        self,
        client: KubeClient,
        key: ObjectKey,
        identity: str,
        *,
        clock: Clock,
        stream: RandomStream,
        times: LeaseTimes | None = None,
    ) -> None:
        self._client, self._key, self._identity = client, key, identity
        self._clock, self._stream = clock, stream
        self._times = times or LeaseTimes()
        self._seen: tuple[str, str] | None = None  # holder and renewal time, as last read
        self._seen_s = 0.0
        self._renewed_s = 0.0
        self._log = structlog.get_logger("bigfleet.kube").bind(lease=str(key), identity=identity)

    async def lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Wait for the lease, then work while it is held; return whether the work ended by itself.

        When no renewal succeeds in time, the work is cancelled and waited for. A lease that is still held is released at the end.
        """
        while not await self._try_once():
            await self._clock.sleep(self._pause_s())
        self._log.info("lease_acquired")
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            held = not renewing.done()
            for task in (working, renewing):
                task.cancel()
            await asyncio.wait({working, renewing})
            if held:
                await self._release()
        if not working.cancelled() and (failure := working.exception()) is not None:
            raise failure
        if not renewing.cancelled() and (defect := renewing.exception()) is not None:
            raise defect
        return held

    async def _keep(self) -> None:
        """Renew until a renewal is overdue."""
        while (left_s := self._left_s()) > _TOO_LITTLE_S:
            await self._clock.sleep(min(self._pause_s(), left_s))
            with suppress(TimeoutError):
                async with timeout(self._clock, max(self._left_s(), 0.0)):
                    if not await self._try_once() and self._is_held_by_another():
                        self._log.error("lease_lost", reason="held by another")
                        return
        self._log.error("lease_lost", reason="no renewal in time")

    def _left_s(self) -> float:
        return self._renewed_s + self._times.renew_deadline_s - monotonic_s(self._clock)

    def _is_held_by_another(self) -> bool:
        return self._seen is not None and self._seen[0] not in ("", self._identity)

    async def _try_once(self) -> bool:
        """Take or renew the lease; return whether it is ours now."""
        began_s = monotonic_s(self._clock)
        try:
            held = await self._read_and_write()
        except KubeError as error:
            self._log.warning("lease_call_failed", error=str(error))
            return False
        if held:
            # From before the call: by the stamp of the server the lease may have begun that early.
            self._renewed_s = began_s
        return held

    async def _read_and_write(self) -> bool:
        try:
            document = await self._client.get(LEASES, self._key, Urgency.NOW)
        except NotFoundError:
            await self._client.create(LEASES, self._fresh(), Urgency.NOW)
            self._observe(self._identity, "")
            return True
        spec: dict[str, Any] = document.get("spec") or {}
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        self._observe(holder, renewed)
        if holder not in ("", self._identity):
            duration_s = float(spec.get("leaseDurationSeconds") or self._times.duration_s)
            if monotonic_s(self._clock) - self._seen_s < duration_s:
                return False
        changed = self._spec(spec, taken=holder != self._identity)
        answer = await self._client.replace(LEASES, {**document, "spec": changed}, Urgency.NOW)
        self._observe(self._identity, answer["spec"].get("renewTime") or "")
        return True

    def _observe(self, holder: str, renewed: str) -> None:
        """Record when the lease object last changed, by our own clock."""
        if (holder, renewed) != self._seen:
            self._seen, self._seen_s = (holder, renewed), monotonic_s(self._clock)

    def _spec(self, spec: dict[str, Any], *, taken: bool) -> dict[str, Any]:
        now = rfc3339_of_ns(self._clock.wall_ns(), 6)
        changed = {
            **spec,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._times.duration_s,
            "renewTime": now,
        }
        if taken:
            changed |= {"acquireTime": now, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        return changed

    def _fresh(self) -> Document:
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        return {"metadata": metadata, "spec": {**self._spec({}, taken=True), "leaseTransitions": 0}}

    async def _release(self) -> None:
        """Release the lease, so that the next process need not wait for its duration; best effort."""
        with suppress(KubeError, TimeoutError):
            async with timeout(self._clock, self._times.retry_s):
                document = await self._client.get(LEASES, self._key, Urgency.NOW)
                if (document.get("spec") or {}).get("holderIdentity") == self._identity:
                    spec = {**document["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(LEASES, {**document, "spec": spec}, Urgency.NOW)

    def _pause_s(self) -> float:
        return self._times.retry_s * (1 + 0.2 * self._stream.random())
