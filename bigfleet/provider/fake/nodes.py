"""The nodes of fake machines: whether one has joined its cluster, and whether one is empty.

Why: in tests with real clusters the test's own kubelet and evictions decide both; callables or verbs report them.
Must never: end a wait for a join (the configure timeout does), keep a blob after its node has joined, or log a blob.
Rules: `testing#drain-until-empty`; ADR-0056, ADR-0100.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.provider.fake.events import EventLog
from bigfleet.provider.kit.core.values import MachineRecord

POLL_S: Final = 0.5
"""Time between two calls of a callable; verbs take effect at once."""


@dataclass(frozen=True, slots=True)
class JoiningNode:
    """A machine that has its blob and whose node has not joined yet."""

    machine: MachineRecord
    cluster: str
    operation_id: str
    blob: bytes = field(repr=False)


NodeJoined: TypeAlias = Callable[[JoiningNode], Awaitable[bool]]
"""Returns whether the node of a machine has joined its cluster and is Ready; it may make it join."""
NodeEmpty: TypeAlias = Callable[[MachineRecord], Awaitable[bool]]
"""Returns whether nothing runs any more on the node of a draining machine."""


class FakeNodes:
    """The nodes of one fake; without arguments they join at once and are always empty."""

    def __init__(
        self,
        clock: Clock,
        events: EventLog,
        *,
        until_joined: bool = False,
        until_empty: bool = False,
        node_joined: NodeJoined | None = None,
        node_empty: NodeEmpty | None = None,
    ) -> None:
        self._clock, self._events = clock, events
        self.until_joined, self._node_joined = until_joined or node_joined is not None, node_joined
        self.until_empty, self._node_empty = until_empty or node_empty is not None, node_empty
        self._joining: dict[str, JoiningNode] = {}
        self._joined: set[str] = set()
        self._emptied: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}

    # For the verbs.

    @property
    def joining(self) -> tuple[JoiningNode, ...]:
        """The machines that wait for their nodes, the longest waiting first."""
        return tuple(self._joining.values())

    def joined(self, machine_id: str) -> bool:
        """Report that the node of a machine is Ready; False when the machine does not wait for it."""
        if machine_id not in self._joining:
            return False
        self._joined.add(machine_id)
        self._tell(machine_id)
        return True

    def emptied(self, machine_id: str) -> None:
        """Report that the node of a machine is empty; may come before the drain begins."""
        self._emptied.add(machine_id)
        self._tell(machine_id)

    # For the backend.

    def bound(self, machine_id: str) -> None:
        """Forget reports about the machine's binding before."""
        self._emptied.discard(machine_id)

    async def join(self, joining: JoiningNode) -> None:
        """Wait until the node has joined; the caller has a timeout."""
        machine_id = joining.machine.id
        self._joining[machine_id] = joining
        self._events.add("joining", id=machine_id, cluster=joining.cluster)
        try:
            while not await self._has_joined(joining):
                await self._look_again(machine_id, POLL_S)
            self._events.add("joined", id=machine_id, cluster=joining.cluster)
        finally:
            self._joining.pop(machine_id, None)
            self._joined.discard(machine_id)

    async def empty(self, machine: MachineRecord, grace_s: float) -> None:
        """Wait until the node is empty, or until the grace ends."""
        end_s = monotonic_s(self._clock) + grace_s
        empty = await self._is_empty(machine)
        while not empty and (left_s := end_s - monotonic_s(self._clock)) > 0:
            await self._look_again(machine.id, min(left_s, POLL_S))
            empty = await self._is_empty(machine)
        self._events.add("drained", id=machine.id, by="empty" if empty else "grace")

    async def _has_joined(self, joining: JoiningNode) -> bool:
        if joining.machine.id in self._joined:
            return True
        return self._node_joined is not None and await self._node_joined(joining)

    async def _is_empty(self, machine: MachineRecord) -> bool:
        if machine.id in self._emptied:
            return True
        return self._node_empty is not None and await self._node_empty(machine)

    async def _look_again(self, machine_id: str, after_s: float) -> None:
        """Wait so many seconds, or until a verb reports something about this node."""
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[machine_id] = wake
        timer = self._clock.call_later(after_s, lambda: _wake(wake))
        try:
            await wake
        finally:
            timer.cancel()
            self._waiting.pop(machine_id, None)

    def _tell(self, machine_id: str) -> None:
        if machine_id in self._waiting:
            _wake(self._waiting[machine_id])


def _wake(wake: "asyncio.Future[None]") -> None:
    if not wake.done():
        wake.set_result(None)
