"""The machines that the decision of a cycle left out, in the form that explanations show.

Must never: look at machines one by one; they are counted per shape.
Rules: `shard#offering-cool-off`, `dashboard#explain-classes`.
"""

import numpy as np

from bigfleet.explain.fleet_summary import EXAMPLES
from bigfleet.explain.left_out import LeftOut
from bigfleet.shard.core.read.machine_hold_offs import MachineHoldOffs
from bigfleet.shard.core.views import CycleView


def left_out_of(view: CycleView, now_s: float) -> tuple[LeftOut, ...]:
    """The machines of offerings in cool-off, by shape in the order of the first id; `now_s` is on the view's clock."""
    if view.inventory is None:
        return ()
    every = view.inventory
    out = np.zeros(every.columns["state"].size, dtype=np.bool_)
    out[every.id_order] = True
    out[view.snapshot.id_order] = False
    rows = every.id_order[out[every.id_order]]
    shapes = every.columns["shape"][rows]
    hold_offs = MachineHoldOffs(view, now_s)
    found: list[tuple[int, LeftOut]] = []
    for shape in np.unique(shapes).tolist():
        own = np.flatnonzero(shapes == shape)
        first = every.machine(int(rows[own[0]]))
        held = hold_offs.of(first)
        examples = tuple(every.machine_id(int(row)) for row in rows[own[:EXAMPLES]])
        found.append(
            (
                int(own[0]),
                LeftOut(
                    first,
                    int(own.size),
                    examples,
                    0.0 if held is None else held.left_s,
                    "" if held is None else held.error,
                ),
            )
        )
    return tuple(item for _, item in sorted(found, key=lambda each: each[0]))
