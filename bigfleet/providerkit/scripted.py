"""Test doubles: a store in memory that can be made slow or broken, and a backend that follows a script.

Must never: be more lenient than a real store; what it has not confirmed is lost when it is opened again.
Rules: `providers#new-provider`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from bigfleet.model.errors import BigFleetError
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.backend import Op, SubstrateEvent
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord
from bigfleet.provider.kit.store import Volatile, Written


class MemoryStore(Volatile):
    """Keeps entries in a list and yields them again when it is opened again, as after a restart."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.problem: BigFleetError | None = None
        """While set, every entry is refused with this error."""
        self._held = False
        self._waiting: deque[tuple[bytes, Written]] = deque()
        self._snapshot_wanted = False

    def hold(self) -> None:
        """Let appended entries wait instead of becoming durable."""
        self._held = True

    def release(self) -> None:
        """Make waiting entries durable, in order, and later ones at once."""
        self._held = False
        while self._waiting:
            self._write(*self._waiting.popleft())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def want_snapshot(self) -> None:
        """Ask for a snapshot at the next housekeeping."""
        self._snapshot_wanted = True

    def open(self) -> Iterator[bytes]:
        return iter(tuple(self.entries))

    def append(self, entry: bytes, written: Written) -> None:
        if self._held:
            self._waiting.append((entry, written))
        else:
            self._write(entry, written)

    @property
    def wants_snapshot(self) -> bool:
        return self._snapshot_wanted

    async def snapshot(self, entries: Iterator[bytes]) -> None:
        kept = len(self.entries)
        self.entries[:kept] = list(entries)
        self._snapshot_wanted = False

    def _write(self, entry: bytes, written: Written) -> None:
        if self.problem is None:
            self.entries.append(entry)
        written(self.problem)


@dataclass(frozen=True, slots=True)
class BackendCall:
    """One call of the kit to its backend, with the length of the blob only."""

    kind: OperationKind
    machine_id: str
    operation_id: str
    attempt: int
    cluster: str = ""
    blob_bytes: int = 0
    grace: timedelta = timedelta()


Script = Callable[[MachineRecord, Op], Awaitable[CreatedHost | None]]
"""What the backend does instead of succeeding at once: wait, raise, or return a host."""


class ScriptedBackend:
    """Succeeds at once without a script, and records every call; it has `delete` but not `node_ready`."""

    def __init__(self, slots: Iterable[DescribedMachine] = ()) -> None:
        self.slots: list[DescribedMachine] = list(slots)
        self.calls: list[BackendCall] = []
        self.described = 0
        self.describe_problem: Exception | None = None
        """While set, `describe` raises it after its last machine."""
        self._scripts: dict[tuple[OperationKind, str], deque[Script]] = {}
        self._always: dict[OperationKind, Script] = {}

    def next(self, kind: OperationKind, script: Script, machine_id: str = "") -> None:
        """Run this script in the next call of a kind, for one machine or for any."""
        self._scripts.setdefault((kind, machine_id), deque()).append(script)

    def always(self, kind: OperationKind, script: Script) -> None:
        self._always[kind] = script

    async def describe(self) -> AsyncIterator[DescribedMachine]:
        self.described += 1
        for slot in tuple(self.slots):
            yield slot
        if self.describe_problem is not None:
            raise self.describe_problem

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        """Return a host named after the machine, or what the script returns."""
        self.calls.append(BackendCall(OperationKind.CREATE, machine.id, op.id, op.attempt))
        script = self._script(OperationKind.CREATE, machine.id)
        return (
            CreatedHost(f"host-of-{machine.id}")
            if script is None
            else cast("CreatedHost", await script(machine, op))
        )

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        self.calls.append(
            BackendCall(
                OperationKind.CONFIGURE, machine.id, op.id, op.attempt, cluster=cluster, blob_bytes=len(blob)
            )
        )
        await self._act(OperationKind.CONFIGURE, machine, op)

    async def drain(self, machine: MachineRecord, grace: timedelta, op: Op) -> None:
        self.calls.append(BackendCall(OperationKind.DRAIN, machine.id, op.id, op.attempt, grace=grace))
        await self._act(OperationKind.DRAIN, machine, op)

    async def delete(self, machine: MachineRecord, op: Op) -> None:
        self.calls.append(BackendCall(OperationKind.DELETE, machine.id, op.id, op.attempt))
        await self._act(OperationKind.DELETE, machine, op)

    async def _act(self, kind: OperationKind, machine: MachineRecord, op: Op) -> None:
        script = self._script(kind, machine.id)
        if script is not None:
            await script(machine, op)

    def _script(self, kind: OperationKind, machine_id: str) -> Script | None:
        for key in ((kind, machine_id), (kind, "")):
            if self._scripts.get(key):
                return self._scripts[key].popleft()
        return self._always.get(kind)


class ReadyBackend(ScriptedBackend):
    """A scripted backend with readiness: a node is Ready when its machine's id is in `ready`."""

    def __init__(self, slots: Iterable[DescribedMachine] = ()) -> None:
        super().__init__(slots)
        self.ready: set[str] = set()
        self.asked: list[str] = []

    async def node_ready(self, machine: MachineRecord, _cluster: str, _op: Op) -> bool:
        self.asked.append(machine.id)
        return machine.id in self.ready


class WatchingBackend(ScriptedBackend):
    """A scripted backend that reports the events that a test puts into `news`."""

    def __init__(self, slots: Iterable[DescribedMachine] = ()) -> None:
        super().__init__(slots)
        self.news: asyncio.Queue[SubstrateEvent | Exception | None] = asyncio.Queue()
        """An exception breaks the watch, None ends it."""

    async def events(self) -> AsyncIterator[SubstrateEvent]:
        while (event := await self.news.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event
