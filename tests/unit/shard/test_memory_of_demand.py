"""What demand costs in memory while it is asked for, and that nothing of it is left once it is withdrawn."""

import gc
import sys
from collections.abc import Callable

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.model.inventory import Inventory
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.situation import IdleHolds
from bigfleet.shard.core.parking import ParkingLedger
from bigfleet.shard.core.read.cycle_log import CycleLog
from bigfleet.shard.core.shortfalls import ShortfallLedger, Unmet
from bigfleet.shard.core.views import CycleView
from bigfleet.shard.cycle_planner import CycleInput, CyclePlanner
from bigfleet.v1alpha1 import capacity_pb2
from bigfleet.wire.rollups import RollupReader
from tests.support.builders import machine

ROWS = 2_000
BLOCKS_PER_ROW = 50
"""Objects of Python's allocator after ten cycles; 42 in fact, and 78 before equal amounts and answers were shared."""
IN = capacity_pb2.NodeSelectorRequirement.Operator.ValueType(1)


class OneCluster:
    """All that remembers demand from cycle to cycle, without a network."""

    def __init__(self) -> None:
        inventory = Inventory()
        inventory.insert(machine("m-1"), None)
        self._snapshot = inventory.snapshot()
        self._reader, self._table = RollupReader("evil"), NeedsTable()
        self._planner, self._log = CyclePlanner(SystemClock(), 10.0), CycleLog()
        self._short, self._parking = ShortfallLedger(), ParkingLedger()
        self._number = 0
        self.view: CycleView | None = None

    def asks(self, rows: int, word: str) -> None:
        """Take a roll-up of rows that were never asked for before, each of them short."""
        message = capacity_pb2.ClusterCapacityNeeds(cluster_id="evil")
        for number in range(rows):
            need = message.needs.add(priority=100, aggregate_resources={"cpu": "1"})
            need.requirements.add(key="rack", operator=IN, values=[f"{word}-{number}"])
        self._table.replace("evil", self._reader.read(message.SerializeToString()).needs)

    def cycle(self) -> None:
        """Decide, and show the decision to readers."""
        self._number += 1
        given = CycleInput(
            snapshot=self._snapshot,
            inventory=self._snapshot,
            demand=self._table.demand(),
            parked=self._parking.parked(),
            reported=frozenset({"evil"}),
            holds=IdleHolds(),
            now=float(self._number),
            sessions=("evil",),
            left=frozenset(),
        )
        decision = self._planner.plan(given).decision
        verdicts = decision.verdicts
        self._short.decided([Unmet(verdicts[item.need].need, item.deficit) for item in decision.unresolved])
        self.view = CycleView(
            number=self._number,
            computed_at_ns=self._number,
            now=given.now,
            snapshot=given.snapshot,
            demand=given.demand,
            decision=decision,
            parked=given.parked,
            parked_ages={},
            unmet_ages=self._short.ages,
            shortfalls=self._short.in_order(),
            bootstrap_backoffs={},
            reported_clusters=given.reported,
            sessions=frozenset({"evil"}),
            holds=given.holds,
        )
        self._log.add(self.view)


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


@pytest.fixture
def cluster() -> OneCluster:
    found = OneCluster()
    found.asks(1, "first")
    found.cycle()
    return found


def grown(cluster: OneCluster, story: Callable[[OneCluster], None]) -> int:
    before = blocks()
    story(cluster)
    return blocks() - before


@pytest.mark.rule("shard#memory")
def test_a_row_that_is_short_for_many_cycles_costs_some_dozens_of_objects(cluster: OneCluster) -> None:
    def ask(asked: OneCluster) -> None:
        asked.asks(ROWS, "a")
        for _ in range(10):
            asked.cycle()

    assert grown(cluster, ask) < ROWS * BLOCKS_PER_ROW


@pytest.mark.rule("shard#memory", "dashboard#explain-history", "engine#kept-answers")
def test_of_rows_that_were_short_and_are_withdrawn_nothing_is_kept(cluster: OneCluster) -> None:
    def churn(asked: OneCluster) -> None:
        for number in range(5):
            asked.asks(4 * ROWS, f"r{number}")
            asked.cycle()
        asked.asks(1, "last")
        asked.cycle()
        asked.cycle()

    assert grown(cluster, churn) < ROWS
