"""Builds the report of a shard from its views: counts and shortfalls, never machines.

Must never: read anything but a view, or report 0 for what was not counted: before the first cycle there is no summary.
Rules: `shard#shortfalls`, `shard#coordinator-client`, `wire#reports`, `wire#report-size`, `wire#additions`,
`coordinator#self-registration`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.instruction import Ack
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import MachineState
from bigfleet.model.shard_report import (
    MAX_COUNTED_NAMES,
    MAX_SHORTFALL_TEXT,
    MAX_SHORTFALLS,
    OwnershipView,
    ShardReport,
    ShardSummary,
    Shortfall,
)
from bigfleet.shard.core.views import AgedShortfall, CycleView, ShardStatus

_AMOUNT_CHARACTERS = 32


def report_of(
    status: ShardStatus,
    view: CycleView | None,
    *,
    number: int,
    now_ns: int,
    acks: tuple[Ack, ...],
    ownership: OwnershipView | None = None,
) -> ShardReport:
    """Return the report with this number, counted from 1 in each process."""
    shortfalls = () if view is None else shortfalls_of(view.shortfalls)
    return ShardReport(
        shard_id=status.shard_id,
        cycle=number,
        built_at_ns=now_ns,
        shard_epoch=status.epoch,
        summary=None
        if view is None
        else summary_of(view.snapshot, status.provider_address, status.partition_key),
        shortfalls=shortfalls,
        acks=acks,
        address=status.advertise_address,
        ownership=ownership,
        shortfalls_left_out=0 if view is None else len(view.shortfalls) - len(shortfalls),
    )


def shortfalls_of(ledger: Sequence[AgedShortfall]) -> tuple[Shortfall, ...]:
    """Return the first shortfalls of the ledger, which is in the order of reports.

    Those whose requirements do not fit into the report any more are left out, and shorter ones behind them are not.
    """
    reported: list[Shortfall] = []
    room = MAX_SHORTFALL_TEXT
    for item in ledger:
        if len(reported) == MAX_SHORTFALLS:
            break
        size = _size(item)
        if size > room:
            continue
        room -= size
        reported.append(
            Shortfall(
                deficit=item.deficit,
                priority=item.profile.priority,
                age_cycles=item.age_cycles,
                interruption_bucket=item.profile.interruption_bucket,
                requirements=item.profile.requirements,
                min_unit=item.min_unit,
            )
        )
    return tuple(reported)


def _size(item: AgedShortfall) -> int:
    texts = sum(len(each.key) + sum(map(len, each.values)) for each in item.profile.requirements)
    return texts + sum(len(name) + _AMOUNT_CHARACTERS for name in (*item.deficit, *item.min_unit))


def summary_of(snapshot: InventorySnapshot, provider_address: str, partition_key: str = "") -> ShardSummary:
    """Return the counts over all machines; the counts by type and zone leave out machines without one."""
    rows = snapshot.id_order
    states = np.bincount(snapshot.columns["state"][rows], minlength=len(MachineState))
    idle, speculative = int(states[MachineState.IDLE]), int(states[MachineState.SPECULATIVE])
    by_shape = np.bincount(snapshot.columns["shape"][rows], minlength=1)
    types: dict[str, int] = {}
    zones: dict[str, int] = {}
    for number in np.flatnonzero(by_shape).tolist():
        shape, count = snapshot.shapes[number], int(by_shape[number])
        for name, counts in ((shape.instance_type, types), (shape.zone, zones)):
            if name:
                counts[name] = counts.get(name, 0) + count
    return ShardSummary(
        total_machines=len(snapshot),
        free_machines=idle + speculative,
        per_instance_type=_largest(types),
        per_zone=_largest(zones),
        provider_address=provider_address,
        partition_key=partition_key,
        idle_machines=idle,
        speculative_machines=speculative,
        instance_types_left_out=max(0, len(types) - MAX_COUNTED_NAMES),
        zones_left_out=max(0, len(zones) - MAX_COUNTED_NAMES),
    )


def _largest(counts: Mapping[str, int]) -> FrozenMap[int]:
    """The counts of the names with the most machines, as many as a report holds."""
    if len(counts) <= MAX_COUNTED_NAMES:
        return FrozenMap(counts)
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return FrozenMap(ordered[:MAX_COUNTED_NAMES])
