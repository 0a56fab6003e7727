"""A random model of shards that share a provider: production cores, with everything between them unreliable.

Why: what keeps a machine from having two owners is spread over shard, coordinator and ledger; only all of them together, with
calls and answers lost, processes and leaders dying, files lost and domains moving, show whether a rule is missing.
Must never: copy a rule. Shards decide by `Ownership` and its rulings, the leader by `PartitionedDomains` and `MoveSteps`, and
the tables are changed by commands only.
Rules: `coordinator#partition-assign`, `coordinator#move-steps`, `coordinator#move-marks`, `coordinator#ownership-file`.
"""

from dataclasses import dataclass
from itertools import count
from random import Random

from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import KINDS, Command
from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.moves import MoveSteps
from bigfleet.coordinator.core.partition import PartitionedDomains
from bigfleet.coordinator.core.results import CommandRefused
from bigfleet.coordinator.core.soft_state import ClockReading, SoftState
from bigfleet.coordinator.core.tables import Tables
from bigfleet.model.instruction import Ack, Instruction, Outcome, ReassignSpeculative, TransferOwnership
from bigfleet.model.machine import MachineState
from bigfleet.model.ownership import Claim, Ownership
from bigfleet.model.shard_report import ShardReport, ShardSummary
from bigfleet.shard.core.move_rulings import KnownMachine, rule_on_move
from bigfleet.shard.core.ownership_rulings import domains_left, lets_go, rule_on_domain

KEY, PROVIDER = "zone", "p:1"
SUMMARY = ShardSummary(provider_address=PROVIDER, partition_key=KEY)
IDLE, BOUND = MachineState.IDLE, MachineState.CONFIGURED


class BrokenError(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class Real:
    """A machine at the provider."""

    value: str
    state: MachineState = IDLE
    owner_mark: str = ""


class Leader:
    """One term of the coordinator."""

    def __init__(self, term: int) -> None:
        self.term, self.soft, numbers = term, SoftState(), count()
        self.queue = InstructionQueue(self.term, lambda: f"{self.term}-{next(numbers)}")
        self.partition = PartitionedDomains(self.queue, self.soft)
        self.moves = MoveSteps(self.queue, self.soft, self.partition)


class ModelShard:
    """One shard: its file, its process and its client."""

    def __init__(self, model: "Model", name: str) -> None:
        self.model, self.name = model, name
        self.file: Ownership | None = None
        self.epoch = 0
        self.start()

    def start(self) -> None:
        """A new process reads the file."""
        self.owned = Ownership(KEY) if self.file is None else self.file
        self.epoch += 1
        self.cycle = 0
        self.inventory: dict[str, MachineState] = {}
        self.listed = False
        self.acks: dict[str, Ack] = {}
        self.done: dict[str, Ack] = {}
        self.view_due = True
        self.term = 0

    def store(self, draft: Ownership) -> None:
        self.file = self.owned = draft
        self.view_due = True

    def list_machines(self) -> None:
        """Reconcile with the provider, forget what is not the shard's, and leave empty domains."""
        for machine_id, real in self.model.machines.items():
            if machine_id in self.inventory:
                self.inventory[machine_id] = real.state
                continue
            claim = self.owned.claim(machine_id, real.value, bound=real.state is BOUND)
            if claim is Claim.OWN or (claim is Claim.IF_MARKED and real.owner_mark == self.name):
                self.inventory[machine_id] = real.state
        for machine_id, state in list(self.inventory.items()):
            value = self.model.machines[machine_id].value
            if lets_go(self.owned, machine_id, value, state):
                if state is BOUND:
                    raise BrokenError(f"{self.name} let go the bound machine {machine_id}")
                del self.inventory[machine_id]
        held = {
            self.model.machines[machine_id].value
            for machine_id in self.inventory
            if machine_id not in self.owned.adopted
        }
        draft = self.owned.copy()
        if domains_left(draft, held):
            self.store(draft)
        if not self.listed:
            self.listed = self.view_due = True

    def known(self, machine_id: str) -> KnownMachine | None:
        state = self.inventory.get(machine_id)
        return (
            None if state is None else KnownMachine(state, self.model.machines[machine_id].value, busy=False)
        )

    def use(self, rng: Random) -> None:
        """Bind or free a machine, as cycles do; an unsettled shard starts nothing."""
        if not self.owned.settled or not self.inventory:
            return
        machine_id = rng.choice(sorted(self.inventory))
        real = self.model.machines[machine_id]
        if self.inventory[machine_id] is IDLE:
            real.state, real.owner_mark = BOUND, self.name
        else:
            real.state, real.owner_mark = IDLE, ""
        self.inventory[machine_id] = real.state

    def obey(self, instructions: tuple[Instruction, ...]) -> None:
        draft = self.owned.copy()
        for instruction in instructions:
            known = self.done.get(instruction.id)
            if known is not None:
                self.acks[instruction.id] = known
                continue
            payload = instruction.payload
            assert payload is not None
            if isinstance(payload, TransferOwnership | ReassignSpeculative):
                ruling = rule_on_move(draft, self.name, payload, self)
            else:
                found = rule_on_domain(draft, payload)
                assert found is not None
                ruling = found
            ack = Ack(instruction.id, ruling.outcome, ruling.reason, ruling.machine_ids)
            self.acks[instruction.id] = ack
            if ruling.outcome is Outcome.ACCEPTED:
                self.done[instruction.id] = ack
        if draft != self.owned:
            self.store(draft)
            for machine_id in draft.released:
                state = self.inventory.get(machine_id)
                if state is BOUND:
                    raise BrokenError(f"{self.name} let go the bound machine {machine_id}")
                self.inventory.pop(machine_id, None)


class Model:
    """Three shards, six machines in three domains, one leader at a time."""

    def __init__(self, seed: int, *, shards: int = 3, machines: int = 6) -> None:
        self.rng = rng = Random(seed)
        self.now, self.flows = 0.0, count()
        self.machines = {f"m{number}": Real(f"z{number % 3}") for number in range(machines)}
        self.tables = Tables()
        self.leader = Leader(1)
        self.shards = {name: ModelShard(self, name) for name in "abc"[:shards]}
        for name in self.shards:
            self.tables.add_shard(name, f"{name}:1", 1)
        for value in ("z0", "z1", "z2"):
            self.tables.assign_domain(KEY, value, rng.choice(sorted(self.shards)))
        self.story: list[str] = []

    # What happens

    def step(self) -> None:
        """One random event."""
        rng, chance = self.rng, self.rng.random()
        shard = self.shards[rng.choice(sorted(self.shards))]
        self.now += rng.choice((0.0, 1.0, 10.0))
        if chance < 0.50:
            self.report(shard, lost=rng.choice(("", "", "", "", "call", "answer")))
        elif chance < 0.66:
            shard.list_machines()
        elif chance < 0.82:
            shard.use(rng)
        elif chance < 0.90:
            self.begin(rng)
        elif chance < 0.95:
            self.move_domain(rng)
        elif chance < 0.97:
            self.note(f"{shard.name} restarts")
            shard.start()
        elif chance < 0.98:
            self.note(f"{shard.name} loses its file")
            shard.file = None
            shard.start()
        elif chance < 0.985:
            self.now += 700.0
        else:
            self.note("failover")
            self.leader = Leader(self.leader.term + 1)
        self.check()

    def note(self, what: str) -> None:
        self.story.append(what)

    def report(self, shard: ModelShard, lost: str = "") -> None:
        """One report and its answer, either of which may be lost."""
        shard.cycle += 1
        acks = tuple(shard.acks.values())
        carried = shard.owned.view() if shard.view_due or not shard.owned.settled else None
        if lost == "call":
            return
        answer = self.handle(shard, acks, carried)
        if lost == "answer":
            return
        for ack in acks:
            shard.acks.pop(ack.instruction_id, None)
        if self.leader.term > shard.term:
            shard.term = self.leader.term
            shard.view_due = carried is None
        elif carried is not None:
            shard.view_due = False
        shard.obey(answer)
        settles = not answer and carried is not None and shard.listed and carried == shard.owned.view()
        if settles and not shard.owned.settled:
            draft = shard.owned.copy()
            draft.settled = True
            shard.store(draft)

    def handle(self, shard: ModelShard, acks: tuple[Ack, ...], view: object) -> tuple[Instruction, ...]:
        leader, now = self.leader, ClockReading(self.now, 0)
        report = ShardReport(
            shard.name,
            shard.cycle,
            shard_epoch=shard.epoch,
            summary=SUMMARY,
            ownership=view,  # type: ignore[arg-type]  # a view or None
        )
        receipt = leader.soft.record(report, now)
        if receipt.restarted:
            leader.partition.restarted(shard.name)
            leader.moves.restarted(shard.name)
        for ack in acks:
            instruction = leader.queue.acknowledge(shard.name, ack)
            if instruction is not None:
                leader.partition.acknowledged(shard.name, instruction, ack, self.now)
                self.apply(leader.moves.acknowledged(shard.name, instruction, ack, self.tables, self.now))
        leader.partition.derive(shard.name, self.tables, self.now)
        self.apply(leader.moves.derive(shard.name, self.tables, self.now))
        return leader.queue.next_answer(shard.name)

    def apply(self, found: list[Command]) -> None:
        for command in found:
            self.note(str(command))
            KINDS[command["kind"]].apply(self.tables, command)

    def begin(self, rng: Random) -> None:
        """Begin to move what a donor offers: free machines that it holds, by its view of this very term."""
        donor, recipient = rng.sample(sorted(self.shards), 2)
        held = self.leader.partition.held(donor)
        if held is None:
            return
        offered = [
            machine_id for machine_id, state in sorted(self.shards[donor].inventory.items()) if state is IDLE
        ]
        if not offered or not self.shards[donor].owned.settled:
            return
        machine_id = rng.choice(offered)
        value, row = self.machines[machine_id].value, self.tables.move(PROVIDER, machine_id)
        if row is None and (KEY, value) not in held.held:
            return
        command = commands.move_begin(
            PROVIDER,
            {machine_id: value},
            key=KEY,
            from_shard=donor,
            to_shard=recipient,
            flow=f"f{next(self.flows)}",
            at_ns=0,
        )
        verdict = KINDS["move_begin"].apply(self.tables, command)
        if not isinstance(verdict, CommandRefused):
            self.note(f"begin {machine_id} {donor} to {recipient}")

    def move_domain(self, rng: Random) -> None:
        value, owner = rng.choice(("z0", "z1", "z2")), rng.choice(sorted(self.shards))
        self.tables.unassign_domain(KEY, value)
        self.tables.assign_domain(KEY, value, owner)
        self.note(f"{value} to {owner}")

    # What must hold

    def check(self) -> None:
        """No machine has two owners, whatever is under way."""
        seen: dict[str, str] = {}
        for name, shard in self.shards.items():
            for machine_id in shard.inventory:
                if machine_id in seen:
                    raise BrokenError(f"{machine_id} is owned by {seen[machine_id]} and {name}")
                seen[machine_id] = name

    def calm(self) -> None:
        """After a time without faults in which everybody works, every machine has an owner and the ledger is still."""
        for _ in range(60):
            self.now += 20.0
            for shard in self.shards.values():
                shard.list_machines()
                self.report(shard)
                self.check()
                for machine_id, state in shard.inventory.items():
                    if state is BOUND and machine_id not in shard.owned.adopted:
                        real = self.machines[machine_id]
                        if real.value in shard.owned.leaving and shard.owned.settled:
                            real.state, real.owner_mark = IDLE, ""
        owned = {machine_id for shard in self.shards.values() for machine_id in shard.inventory}
        if owned != self.machines.keys():
            raise BrokenError(f"nobody owns {sorted(self.machines.keys() - owned)}")
        unsettled = {
            row.phase for rows in self.tables.moves.values() for row in rows.values() if row.phase != "held"
        }
        if unsettled:
            raise BrokenError(f"moves never end: {unsettled}")


def run(seed: int, steps: int = 400) -> None:
    """One run; raises `BrokenError`, which says how it came about."""
    model = Model(seed)
    try:
        for _ in range(steps):
            model.step()
        model.calm()
    except BrokenError as error:
        error.add_note(f"seed {seed}; " + "; ".join(model.story[-25:]))
        raise
