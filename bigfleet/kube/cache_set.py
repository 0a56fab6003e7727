"""The caches of one process: stores, the reflectors that fill them, and whether their first lists are complete.

Must never: be read for a decision before `wait_synced` has returned; an incomplete cache reads as "no objects".
Rules: `operator#start-order`, `operator#one-request-per-pod`, `operator#kubernetes-client`.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.rng import RandomStream
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.reflector import Reflector, ReflectorPolicy
from bigfleet.kube.store import Store
from bigfleet.model.errors import BigFleetError


class CacheSyncError(BigFleetError):
    """The first lists did not complete in time."""

    def __init__(self, kinds: list[str], seconds: float) -> None:
        super().__init__(f"not synchronised within {seconds:g} s: {', '.join(kinds)}")
        self.kinds = kinds


class CacheSet:
    """Stores of several kinds, listed and watched."""

    def __init__(self, client: KubeClient, clock: Clock, policy: ReflectorPolicy | None = None) -> None:
        self._client, self._clock, self._policy = client, clock, policy
        # Any: each store keeps its own type of projection.
        self._reflectors: list[Reflector[Any]] = []
        self._stores: dict[str, Store[Any]] = {}
        self._required: dict[str, Store[Any]] = {}

    def fill(
        self, store: Store[Any], selection: Selection, stream: RandomStream, *, required: bool = True
    ) -> None:
        """Fill a store by a reflector; a store that is not required does not hold up `wait_synced`."""
        self._reflectors.append(
            Reflector(self._client, selection, store, clock=self._clock, stream=stream, policy=self._policy)
        )
        self._stores[selection.resource.plural] = store
        if required:
            self._required[selection.resource.plural] = store

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def wait_synced(self, seconds: float) -> None:
        """Return once every required store is complete; CacheSyncError when that takes too long."""
        try:
            async with timeout(self._clock, seconds):
                for store in self._required.values():
                    await store.wait_synced()
        except TimeoutError:
            raise CacheSyncError(self.missing(), seconds) from None

    def missing(self) -> list[str]:
        """Return the required kinds whose first list is not complete."""
        return [kind for kind, store in self._required.items() if not store.synced]

    def ages(self) -> Iterator[tuple[str, float]]:
        """Yield each kind with the seconds since its store was last known to be in step."""
        for kind, store in self._stores.items():
            age_s = store.age_s()
            if age_s is not None:
                yield kind, age_s
