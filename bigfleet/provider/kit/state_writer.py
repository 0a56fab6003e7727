"""Serializes decisions per machine: decide, write, apply, then release.

Why: checks and state change of a call form one critical section per machine, and no reader may see a change that a crash
could undo. Different machines do not wait for each other, and share the disk's syncs.
Must never: depend on the caller. The entry of a cancelled call is written and applied all the same, as it may be on disk.
Rules: `providers#critical-section`, `providers#persist-before-ack`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import MachineState
from bigfleet.provider.errors import StoreUnavailableError
from bigfleet.provider.kit.core.changes import PutMachine, StateChange
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.entries import encode
from bigfleet.provider.kit.store import StateStore

T = TypeVar("T")

NO_MACHINE: Final = ""
"""In place of a machine's id: no machine has it, so decisions about shards wait for each other only."""
DecidedChanges = tuple[T, Sequence[StateChange]]
Applied = Callable[[Sequence[StateChange], Sequence[MachineState | None]], None]
"""Called with changes that took effect, and with the state of each machine before its change."""


class StateWriter:
    """The only writer of a provider's state."""

    def __init__(self, state: ProviderState, store: StateStore, on_applied: Applied) -> None:
        self.state = state
        self._store = store
        self._on_applied = on_applied
        self._busy: dict[str, asyncio.Future[None]] = {}

    @property
    def can_write(self) -> bool:
        """Whether a retry can succeed; false once the store has failed for good."""
        return self._store.failure is None

    async def decide(
        self,
        machine_id: str,
        decision: Callable[[], DecidedChanges[T]],
        then: Callable[[T], None] | None = None,
    ) -> T:
        """Make one decision about a machine and commit it; `then` runs at the moment it takes effect.

        Raises `StoreUnavailableError`, with nothing changed, if the changes cannot be made durable.
        """
        while (busy := self._busy.get(machine_id)) is not None:
            await asyncio.wait([busy])
        result, changes = decision()
        if not changes:
            if then is not None:
                then(result)
            return result
        await self._commit((machine_id,), changes, (lambda: then(result)) if then is not None else None)
        return result

    async def commit_many(
        self, machine_ids: Sequence[str], decision: Callable[[], Sequence[StateChange]]
    ) -> None:
        """Make one decision about several machines and commit it as one entry."""
        while busy := [future for future in map(self._busy.get, machine_ids) if future is not None]:
            await asyncio.wait(busy)
        changes = decision()
        if changes:
            await self._commit(machine_ids, changes, None)

    async def _commit(
        self, machine_ids: Sequence[str], changes: Sequence[StateChange], then: Callable[[], None] | None
    ) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_look_at_error)
        for machine_id in machine_ids:
            self._busy[machine_id] = done

        def written(problem: BigFleetError | None) -> None:
            for machine_id in machine_ids:
                self._busy.pop(machine_id, None)
            if problem is not None:
                done.set_exception(StoreUnavailableError("store", machine_ids[0], str(problem)))
                return
            try:
                before = [self._state(change) for change in changes]
                self.state.apply(changes)
                self._on_applied(changes, before)
                if then is not None:
                    then()
            except Exception as defect:  # the caller reports it; the store still has other callbacks to run
                done.set_exception(defect)
            else:
                done.set_result(None)

        self._store.append(encode(changes), written)
        # Shielded: the entry takes effect even if the caller is cancelled.
        await asyncio.shield(done)

    def _state(self, change: StateChange) -> MachineState | None:
        row = self.state.table.row(change.id) if isinstance(change, PutMachine) else None
        return None if row is None else self.state.table.state(row)


def _look_at_error(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
