"""The lease of this process: granted, kept alive, announced, and granted anew after it was lost.

Why: the keys of a process that has died must go by themselves, so that another one can lead.
Must never: decide who leads. A lease that this process believes in is a hint; the condition of each write is the proof.
Rules: `coordinator#etcd-leader`.
"""

from collections.abc import Callable
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.coordinator.etcd.client import EtcdError
from bigfleet.coordinator.etcd.layout import StoredReplica
from bigfleet.coordinator.etcd.store import EtcdStore

_AGAIN_S: Final = 0.2


class ProcessLease:
    """The lease under which this process announces itself and leads."""

    def __init__(self, store: EtcdStore, me: StoredReplica, clock: Clock, ttl_s: int) -> None:
        self._store, self._me, self._clock, self._ttl_s = store, me, clock, ttl_s
        self.id = 0
        """The lease; 0 while there is none."""
        self._ends_s = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether etcd cannot have ended the lease yet, if both clocks run at one speed."""
        return self.id != 0 and monotonic_s(self._clock) < self._ends_s

    async def keep(self, on_trouble: Callable[[EtcdError], object]) -> None:
        """Keep a lease until cancelled."""
        while True:
            try:
                await self._renew()
            except EtcdError as error:
                on_trouble(error)
                await self._clock.sleep(_AGAIN_S)
            else:
                await self._clock.sleep(self._ttl_s / 3)

    async def give_up(self) -> None:
        """End the lease now, so that another process need not wait for it to expire."""
        lease, self.id = self.id, 0
        if lease:
            await self._store.client.revoke(lease)

    async def _renew(self) -> None:
        asked_s = monotonic_s(self._clock)
        if self.id:
            ttl_s = await self._store.client.keep_alive(self.id)
            if ttl_s > 0:
                self._ends_s = asked_s + ttl_s
                return
            self.id = 0
        granted = await self._store.client.grant(self._ttl_s)
        await self._store.announce(self._me, granted.id)
        self.id, self._ends_s = granted.id, asked_s + granted.ttl
