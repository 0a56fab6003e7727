"""Reads a provider's state at start and writes its snapshots.

Why: start is snapshot plus journal, then what the restart itself changes; the order decides what an old cursor shows.
Must never: let a book be read before it is whole.
Rules: providers 1.7 (after a restart), 4.1 (durable state, restart).
"""

from bigfleet.aio.clock import Clock
from bigfleet.aio.ids import Ids
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.table import TableCodec
from bigfleet.provider.kit.entries import Decoder, SnapshotHeader, encode_snapshot
from bigfleet.provider.kit.store import StateStore


async def read_state(
    store: StateStore, codec: TableCodec, ids: Ids, clock: Clock
) -> tuple[ProviderState, bool]:
    """Return the book as it was left, and whether there was one; a new book has an incarnation of its own."""
    state, decoder = ProviderState(codec), Decoder()
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
    """Replace what the store holds by the book as it is; calls go on meanwhile."""
    await store.snapshot(encode_snapshot(SnapshotHeader(state.incarnation, state.head), state.everything()))
