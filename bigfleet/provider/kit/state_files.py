"""Reads a provider's state from its store at start, and writes snapshots.
Rules: `providers#unreadable-cursor`, `providers#durable-state`, `providers#restart`.
"""

from bigfleet.aio.clock import Clock
from bigfleet.aio.ids import Ids
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.table import TableCodec
from bigfleet.provider.kit.entries import EntryDecoder, SnapshotHeader, encode_snapshot
from bigfleet.provider.kit.store import StateStore


async def read_state(
    store: StateStore, codec: TableCodec, ids: Ids, clock: Clock
) -> tuple[ProviderState, bool]:
    """Return the stored state, and whether there was one; a new state gets a new incarnation."""
    state, decoder = ProviderState(codec), EntryDecoder()
    found, head = False, 0
    for entry in store.open():
        for change in decoder.decode(entry):
            if isinstance(change, SnapshotHeader):
                state.incarnation, head, found = change.incarnation, max(head, change.head), True
            else:
                state.load(change)
        await clock.sleep(0)
    if found:
        state.opened(head)
    else:
        state.incarnation = ids.operation()
    return state, found


async def write_snapshot(store: StateStore, state: ProviderState) -> None:
    """Replace what the store holds by the present state; calls continue meanwhile."""
    await store.snapshot(encode_snapshot(SnapshotHeader(state.incarnation, state.head), state.everything()))
