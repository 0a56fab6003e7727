"""Which domain instructions shards of a shared provider get (`coordinator#partition-assign`)."""

from itertools import count

import pytest

from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.partition import PartitionedDomains
from bigfleet.coordinator.core.soft_state import ClockReading, SoftState
from bigfleet.coordinator.core.tables import MoveRow, MoveState, Tables
from bigfleet.model.instruction import Ack, Domain, Outcome, Payload
from bigfleet.model.shard_report import MoveMark, OwnershipView, ShardReport, ShardSummary

KEY, Z1 = "zone", "z1"


class World:
    """One leader that hears shards a and b."""

    def __init__(self) -> None:
        numbers = count()
        self.queue = InstructionQueue(1, lambda: f"{next(numbers):016x}")
        self.soft, self.tables, self.now = SoftState(), Tables(), 0.0
        self.partition = PartitionedDomains(self.queue, self.soft)
        self.cycles = count(1)
        for shard in ("a", "b"):
            self.tables.add_shard(shard, f"{shard}:1", 1)

    def hear(self, shard: str, *held: str, leaving: tuple[str, ...] = (), **view: object) -> None:
        domains = tuple(Domain(KEY, value) for value in (*held, *leaving))
        left = tuple(Domain(KEY, value) for value in leaving)
        given = {"settled": True, **view}
        ownership = OwnershipView(domains, leaving=left, **given)  # type: ignore[arg-type]
        summary = ShardSummary(provider_address="p", partition_key=KEY)
        report = ShardReport(shard, next(self.cycles), summary=summary, ownership=ownership)
        self.soft.record(report, ClockReading(self.now, 0))

    def due(self, shard: str) -> list[Payload | None]:
        self.now += 10
        self.partition.derive(shard, self.tables, self.now)
        return [instruction.payload for instruction in self.queue.pending(shard)]

    def kinds(self, shard: str) -> list[str]:
        return [type(payload).__name__ for payload in self.due(shard)]


@pytest.mark.rule("coordinator#partition-assign")
def test_a_queued_assignment_is_not_withdrawn_and_keeps_others_waiting_until_it_is_acked() -> None:
    world = World()
    world.hear("a")
    world.hear("b")
    world.tables.assign_domain(KEY, Z1, "a")
    assert world.kinds("a") == ["AssignDomain"]
    # It may have been carried out, and the ack lost; then the row changes.
    world.tables.unassign_domain(KEY, Z1)
    world.tables.assign_domain(KEY, Z1, "b")
    assert world.kinds("a") == ["AssignDomain"]
    assert world.kinds("b") == []
    (instruction,) = world.queue.pending("a")
    ack = Ack(instruction.id, Outcome.ACCEPTED)
    world.hear("a", Z1)
    world.queue.acknowledge("a", ack)
    world.partition.acknowledged("a", instruction, ack, world.now)
    assert world.kinds("b") == []  # a holds it
    assert world.kinds("a") == ["UnassignDomain"]
    world.hear("a", leaving=(Z1,))
    assert world.kinds("b") == []  # and still has machines there
    world.hear("a")
    assert world.kinds("b") == ["AssignDomain"]


@pytest.mark.rule("coordinator#partition-assign", "coordinator#leaving-domain")
def test_a_domain_being_left_is_assigned_again_and_not_unassigned_again() -> None:
    world = World()
    world.hear("a", leaving=(Z1,))
    world.hear("b")
    assert world.kinds("a") == []
    world.tables.assign_domain(KEY, Z1, "a")
    assert world.kinds("a") == ["AssignDomain"]


@pytest.mark.rule("coordinator#partition-assign")
@pytest.mark.parametrize("blocker", ["unheard", "unsettled", "ghost", "relearn", "no provider yet"])
def test_each_condition_blocks(blocker: str) -> None:
    world = World()
    world.hear("a")
    match blocker:
        case "unsettled":
            world.hear("b", settled=False)
        case "no provider yet":
            world.soft.record(ShardReport("b", 1), ClockReading(0.0, 0))
        case "unheard":
            pass
        case _:
            world.hear("b")
    if blocker == "ghost":
        world.tables.ghosts["c"] = None
    world.tables.relearn = blocker == "relearn"
    world.tables.assign_domain(KEY, Z1, "a")
    assert world.kinds("a") == []
    world.tables.ghosts.clear()
    world.tables.relearn = False
    world.hear("b")
    assert world.kinds("a") == ["AssignDomain"]


@pytest.mark.rule("coordinator#partition-assign")
@pytest.mark.parametrize(
    ("holder", "phase", "released", "assigned"),
    [
        ("a", MoveState.HELD, (), True),
        ("a", MoveState.ADOPTING, (), False),
        ("b", MoveState.HELD, (), False),
        ("b", MoveState.RELEASING, (MoveMark("m", 1),), True),
    ],
)
def test_the_new_owner_must_know_the_moved_machines_of_the_domain(
    holder: str, phase: MoveState, released: tuple[MoveMark, ...], assigned: bool
) -> None:
    world = World()
    world.hear("a", released=released)
    world.hear("b")
    world.tables.put_move("p", "m", MoveRow(KEY, Z1, "", "b", holder, phase.value, 1, "f", 0, 0))
    world.tables.assign_domain(KEY, Z1, "a")
    assert (world.kinds("a") == ["AssignDomain"]) is assigned
