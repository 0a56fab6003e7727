"""Queues: machines in the order in which needs that ask alike take them, read by thousands of needs at once.

Why: single needs each take the next machine of their queue, so what a thousand of them take is known without asking each.
Where no other need takes machines of a queue, all its needs are served in one step; where queues share machines, they are
read side by side, one need after the other.
Must never: hand out a machine that is taken, or hold the order of needs for irrelevant where queues share a machine.
Rules: `engine#pools`, `engine#ordinary-picker`, `engine#spread-picker`, `engine#acquisition-order`.
"""

from collections.abc import Iterator

import numpy as np

from bigfleet.engine.asks import QueueKind
from bigfleet.engine.fleet import Fleet
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.pools import Stream
from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.machine import MachineState

STATES = (MachineState.IDLE, MachineState.SPECULATIVE)


def stream_of(fleet: Fleet, state: MachineState, flags: Flags, bucket: PenaltyBucket) -> Stream:
    """The machines of some kinds in a state, in the order of the pools."""
    order, tiers = fleet.kinds.by_cost(bucket)
    kinds = order[flags[order]]
    second = fleet.reclamation_penalty if state is MachineState.IDLE else None
    return Stream(fleet.pool(state), kinds, tiers[kinds], second)


def spread_stream_of(
    fleet: Fleet, state: MachineState, flags: Flags, bucket: PenaltyBucket, key: str
) -> Stream:
    """The same for a need that takes one machine and holds none: of the cheapest, the smallest value comes first."""
    _, ranks = fleet.kinds.by_cost(bucket)
    values = fleet.kinds.values(key)
    kinds = (flags & values.present).nonzero()[0]
    tiers = ranks[kinds] * len(values.values) + values.codes[kinds]
    order = np.argsort(tiers, kind="stable")
    second = fleet.reclamation_penalty if state is MachineState.IDLE else None
    return Stream(fleet.pool(state), kinds[order], tiers[order], second)


class Queue:
    """The machines of one kind of queue, Idle before Speculative."""

    def __init__(self, fleet: Fleet, kind: QueueKind, taken: bytearray) -> None:
        """`taken` says of each row whether it is claimed, and changes while needs are served."""
        self._fleet, self._kind, self._taken = fleet, kind, taken
        self._flags = np.frombuffer(taken, dtype=np.bool_)
        self._streams = [self._stream(state) for state in STATES]

    def _stream(self, state: MachineState) -> Stream:
        flags, bucket, key = self._kind.flags, self._kind.bucket, self._kind.spread_key
        if key is None:
            return stream_of(self._fleet, state, flags, bucket)
        return spread_stream_of(self._fleet, state, flags, bucket, key)

    def one_by_one(self) -> Iterator[int]:
        """The next machine that is not taken, as often as somebody asks."""
        taken = self._taken
        for stream in self._streams:
            while (rows := stream.chunk()).size:
                for row in rows.tolist():
                    if not taken[row]:
                        yield row

    def first(self, count: int) -> Numbers:
        """The first machines that are not taken; fewer if there are no more."""
        found = []
        for stream in self._streams:
            if count > 0:
                rows = stream.ahead(self._flags, count)[:count]
                found.append(rows)
                count -= rows.size
        return np.concatenate(found) if found else np.empty(0, dtype=np.intp)
