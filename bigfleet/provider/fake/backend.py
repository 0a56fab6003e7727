"""The substrate that is not there: takes as long, and fails as often, as the conditions say.

Why: the kit does everything the contract demands; all a fake has to add is time and trouble.
Must never: decide about states, tokens or ids of operations, or keep a blob.
Rules: providers 5.1, 5.3; ADR-0056 (readiness).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from typing import TypeAlias

from bigfleet.aio.clock import Clock
from bigfleet.provider.contract import Kind
from bigfleet.provider.fake.conditions import LATE_S, Conditions, Fate, How
from bigfleet.provider.fake.events import EventLog
from bigfleet.provider.fake.nodes import Joining, Nodes
from bigfleet.provider.fake.specs import READY
from bigfleet.provider.kit.backend import Op, Permanent, StockOut, Transient
from bigfleet.provider.kit.core.values import Host, Machine, Slot

Seeds: TypeAlias = Callable[[], Iterable[Slot]]
"""Makes the machines of a start, anew each time it is called."""


class FakeBackend:
    """All operations succeed at once unless the conditions say otherwise."""

    def __init__(
        self,
        seeds: Seeds,
        conditions: Conditions,
        *,
        clock: Clock,
        events: EventLog,
        nodes: Nodes,
        skips_readiness: Callable[[], bool],
    ) -> None:
        self._seeds, self._conditions, self._nodes = seeds, conditions, nodes
        self._clock, self._events = clock, events
        self._skips_readiness = skips_readiness
        self.seeding = True
        """Whether the next look finds everything; off where the state knows the machines already."""
        self.added: list[Slot] = []
        """What the next look finds besides."""

    async def describe(self) -> AsyncIterator[Slot]:
        if self.seeding:
            for slot in self._seeds():
                yield slot
        for slot in tuple(self.added):
            yield slot

    async def create(self, machine: Machine, op: Op) -> Host:
        await self._step(Kind.CREATE.value, machine)
        return Host(f"host-{op.id}")  # never one that was there before

    async def configure(self, machine: Machine, cluster: str, blob: bytes, op: Op) -> None:
        self._nodes.bound(machine.id)
        await self._step(Kind.CONFIGURE.value, machine)
        # Here and not in `node_ready`, which has no blob: nothing has to keep it in between.
        if self._nodes.until_joined and not self._skips_readiness():
            await self._nodes.join(Joining(machine, cluster, op.id, blob))

    async def node_ready(self, machine: Machine, _cluster: str, _op: Op) -> bool:
        """Wait for the node; the kit's own polling would round every wait up to its interval."""
        if not self._skips_readiness():
            await self._step(READY, machine)
        return True

    async def drain(self, machine: Machine, grace: timedelta, _op: Op) -> None:
        if self._nodes.until_empty:
            await self._nodes.empty(machine, grace.total_seconds())
        await self._step(Kind.DRAIN.value, machine)

    async def delete(self, machine: Machine, _op: Op) -> None:
        await self._step(Kind.DELETE.value, machine)

    async def _step(self, kind: str, machine: Machine) -> None:
        fate = self._conditions.fate(kind, machine)
        wait_s = self._conditions.wait_s(kind)
        if fate is not None:
            self._events.add("injected", id=machine.id, kind=kind, how=fate.how.value, message=fate.message)
        if fate is not None and fate.how is How.LATE:
            await self._ignore_cancellation()
            return
        if wait_s > 0:
            await self._clock.sleep(wait_s)
        await self._conditions.until_released(kind, machine.id)
        if fate is not None:
            await self._befall(fate)

    async def _befall(self, fate: Fate) -> None:
        match fate.how:
            case How.STOCKOUT:
                raise StockOut(fate.message)
            case How.TRANSIENT:
                raise Transient(fate.message)
            case How.HANG:
                await asyncio.get_running_loop().create_future()  # until the kit's patience ends
        raise Permanent(fate.message)

    async def _ignore_cancellation(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await self._clock.sleep(LATE_S)
