"""A snapshot without some machines, for a decision that must not use them.

Why: the shard leaves machines out that cannot be obtained at the moment, and the engine should not know why. Row numbers
and columns stay those of the full snapshot, so that readers can look up in it what was left out.
Must never: copy more than the state column, or make a new snapshot when nothing changed; the engine recognises unchanged
input by identity.
Rules: `shard#offering-cool-off`, `shard#machine-back-off`.
"""

from collections.abc import Mapping

import numpy as np

from bigfleet.model.inventory.columns import Column
from bigfleet.model.inventory.snapshot import InventorySnapshot, Rows, Texts
from bigfleet.model.machine import MachineState


class SnapshotMask:
    """Leaves rows out of one snapshot after another, and reuses what is still valid."""

    def __init__(self) -> None:
        self._last: tuple[InventorySnapshot, Rows, InventorySnapshot] | None = None

    def without(self, snapshot: InventorySnapshot, rows: Rows) -> InventorySnapshot:
        """The snapshot without these rows, which are ascending; the snapshot itself when there are none."""
        if not rows.size:
            self._last = None
            return snapshot
        last = self._last
        same_rows = last is not None and np.array_equal(last[1], rows)
        if last is not None and same_rows and last[0] is snapshot:
            return last[2]
        state = snapshot.columns["state"].copy()
        state[rows] = MachineState.UNSPECIFIED  # as of a row without a machine
        ids = snapshot.columns["id_offset"]
        if last is not None and same_rows and last[0].columns["id_offset"] is ids:
            id_order, masked_ids, wide = last[2].id_order, last[2].columns["id_offset"], last[2].wide
            if not _same(last[0].wide, snapshot.wide):
                wide = _as_others(snapshot.wide)
        else:
            left_out = np.zeros(state.size, dtype=np.bool_)
            left_out[rows] = True
            id_order = snapshot.id_order[~left_out[snapshot.id_order]]
            # The engine takes other columns of ids and texts for machines that came or went.
            masked_ids, wide = ids.view(), _as_others(snapshot.wide)
        columns: dict[str, Column] = {**snapshot.columns, "state": state, "id_offset": masked_ids}
        masked = snapshot.with_rows(columns, id_order, wide)
        self._last = (snapshot, rows, masked)
        return masked


def _as_others(wide: Mapping[str, Texts]) -> Mapping[str, Texts]:
    return {key: Texts(texts.buffer, texts.offsets.view(), texts.lengths) for key, texts in wide.items()}


def _same(one: Mapping[str, Texts], other: Mapping[str, Texts]) -> bool:
    return one.keys() == other.keys() and all(
        texts.offsets is other[key].offsets and texts.lengths is other[key].lengths
        for key, texts in one.items()
    )
