"""Which domain instructions a shard is owed (`coordinator#instruction-queue`, `coordinator#domain-delivery`)."""

from itertools import count

from bigfleet.coordinator.core.delivery import DomainDelivery
from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.model.instruction import Ack, AssignDomain, Domain, Outcome, UnassignDomain

R1, R2 = ("rack", "r1"), ("rack", "r2")


class World:
    """One leader and shard s, which carries out instructions and acks with its next report."""

    def __init__(self) -> None:
        numbers = count()
        self.queue = InstructionQueue(1, lambda: f"{next(numbers):016x}")
        self.delivery = DomainDelivery(self.queue)
        self.now = 0.0
        self.holds: set[Domain] = set()

    def report(
        self, *desired: tuple[str, str], outcome: Outcome = Outcome.ACCEPTED, lost: bool = False
    ) -> int:
        """Derive, answer and, unless the answer is lost, let the shard act and ack; return how many were sent."""
        self.delivery.derive("s", dict.fromkeys(desired), self.now)
        sent = self.queue.next_answer("s")
        for instruction in () if lost else sent:
            if outcome is Outcome.ACCEPTED:
                match instruction.payload:
                    case AssignDomain(domain):
                        self.holds.add(domain)
                    case UnassignDomain(domain):
                        self.holds.discard(domain)
            ack = Ack(instruction.id, outcome)
            cleared = self.queue.acknowledge("s", ack)
            assert cleared is not None
            self.delivery.acknowledged("s", cleared, ack, self.now)
        self.now += 10
        return len(sent)


def test_a_shard_gets_each_domain_once_and_loses_it_once() -> None:
    world = World()
    assert world.report(R1, R2) == 2
    assert world.report(R1, R2) == 0
    assert world.holds == {Domain(*R1), Domain(*R2)}
    assert world.report(R2) == 1
    assert world.holds == {Domain(*R2)}
    assert world.report(R2) == 0


def test_what_was_lost_on_the_way_is_sent_again_and_not_twice_at_once() -> None:
    world = World()
    assert world.report(R1, lost=True) == 1
    assert world.report(R1, lost=True) == 1
    assert world.report(R1) == 1
    assert world.report(R1) == 0


def test_a_refused_one_is_derived_again_but_not_before_the_next_interval() -> None:
    world = World()
    assert world.report(R1, outcome=Outcome.FAILED) == 1
    world.now -= 5
    assert world.report(R1) == 0
    assert world.report(R1) == 1
    assert world.holds == {Domain(*R1)}


def test_a_domain_taken_away_before_its_assignment_was_acked_is_withdrawn_and_unassigned() -> None:
    world = World()
    world.report(R1, lost=True)
    assert world.report() == 1  # the shard may have got the assignment, so it gets the opposite instruction
    assert world.report() == 0
    assert world.holds == set()


def test_a_domain_given_back_before_its_unassignment_was_acked_is_assigned_again() -> None:
    world = World()
    world.report(R1)
    world.report(lost=True)
    assert world.report(R1) == 1
    assert world.holds == {Domain(*R1)}


def test_a_new_process_of_the_shard_is_told_everything_again() -> None:
    world = World()
    world.report(R1)
    world.report(R1, R2, lost=True)
    world.holds.clear()
    world.delivery.restarted("s")
    assert world.queue.pending("s") == ()
    assert world.report(R1, R2) == 2
    assert world.holds == {Domain(*R1), Domain(*R2)}


def test_a_domain_taken_under_this_leader_is_unassigned_though_it_was_assigned_under_another() -> None:
    world = World()
    world.holds.add(Domain(*R1))
    world.delivery.taken("s", Domain(*R1))
    assert world.report() == 1
    assert world.holds == set()


def test_at_most_a_hundred_of_each_kind_are_queued_per_report() -> None:
    world = World()
    racks = [("rack", f"r{number:03}") for number in range(250)]
    assert [world.report(*racks) for _ in range(4)] == [100, 100, 50, 0]
    assert len(world.holds) == 250


def test_a_forgotten_shard_starts_anew() -> None:
    world = World()
    world.report(R1)
    world.delivery.forget("s")
    assert world.report(R1) == 1
