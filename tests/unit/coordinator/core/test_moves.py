"""What becomes of marks and rows that say nothing any more (`coordinator#move-steps`)."""

from itertools import count

import pytest

from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.moves import MoveSteps
from bigfleet.coordinator.core.partition import PartitionedDomains
from bigfleet.coordinator.core.soft_state import ClockReading, SoftState
from bigfleet.coordinator.core.tables import MoveRow, MoveState, Tables
from bigfleet.model.instruction import Domain, MovePhase, TransferOwnership
from bigfleet.model.shard_report import MoveMark, OwnershipView, ShardReport, ShardSummary

MARK = (MoveMark("m", 3),)


class World:
    """One leader that hears shards a and b; a holds the domain of machine m."""

    def __init__(self) -> None:
        numbers = count()
        self.queue = InstructionQueue(1, lambda: f"{next(numbers):016x}")
        self.soft, self.tables, self.cycles = SoftState(), Tables(), count(1)
        self.steps = MoveSteps(self.queue, self.soft, PartitionedDomains(self.queue, self.soft))
        for shard in ("a", "b"):
            self.tables.add_shard(shard, f"{shard}:1", 1)

    def hear(
        self,
        shard: str,
        *,
        adopted: tuple[MoveMark, ...] = (),
        released: tuple[MoveMark, ...] = (),
        settled: bool = True,
    ) -> None:
        domains = (Domain("zone", "z1"),) if shard == "a" else ()
        view = OwnershipView(domains, adopted=adopted, released=released, settled=settled)
        summary = ShardSummary(provider_address="p", partition_key="zone")
        report = ShardReport(shard, next(self.cycles), summary=summary, ownership=view)
        self.soft.record(report, ClockReading(0.0, 0))

    def derive(self) -> tuple[list[str], list[MovePhase]]:
        """The commands for shard a, and the steps that it is sent."""
        found = self.steps.derive("a", self.tables, 10.0)
        sent = [instruction.payload for instruction in self.queue.pending("a")]
        return [str(command["kind"]) for command in found], [
            payload.phase for payload in sent if isinstance(payload, TransferOwnership)
        ]


@pytest.mark.rule("coordinator#move-steps")
@pytest.mark.parametrize("blocker", ["unheard", "unsettled", "adopted by another", "ghost"])
def test_a_released_mark_without_a_row_ends_once_no_shard_can_hold_the_machine(blocker: str) -> None:
    world = World()
    world.hear("a", released=MARK)
    if blocker == "ghost":
        world.tables.ghosts["c"] = None
    if blocker != "unheard":
        world.hear(
            "b", settled=blocker != "unsettled", adopted=MARK if blocker == "adopted by another" else ()
        )
    assert world.derive() == ([], [])
    world.tables.ghosts.clear()
    world.hear("b")
    assert world.derive() == ([], [MovePhase.CANCEL])


@pytest.mark.rule("coordinator#move-steps", "coordinator#ledger")
@pytest.mark.parametrize(
    ("marks", "commands", "steps"),
    [
        ({}, ["move_forget"], []),
        ({"adopted": MARK}, [], [MovePhase.CANCEL]),
        ({"released": MARK}, [], [MovePhase.ADOPT]),
        ({"adopted": MARK, "released": MARK}, [], []),
    ],
    ids=["no mark", "adopted", "released", "both"],
)
def test_the_row_of_a_machine_at_home_is_forgotten_once_no_mark_is_left(
    marks: dict[str, tuple[MoveMark, ...]], commands: list[str], steps: list[MovePhase]
) -> None:
    world = World()
    world.hear("a", **marks)  # type: ignore[arg-type]
    world.hear("b")
    world.tables.put_move("p", "m", MoveRow("zone", "z1", "a", "b", "a", MoveState.HELD.value, 3, "f", 0, 0))
    assert world.derive() == (commands, steps)
