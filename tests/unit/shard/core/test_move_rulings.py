"""What a shard does with the steps of a move (`coordinator#move-marks`)."""

from dataclasses import dataclass, field, replace

import pytest

from bigfleet.model.instruction import MovePhase, Outcome, TransferOwnership
from bigfleet.model.machine import MachineState
from bigfleet.model.ownership import Ownership
from bigfleet.shard.core.move_rulings import KnownMachine, rule_on_move

S = MachineState


@dataclass
class Inventory:
    machines: dict[str, KnownMachine] = field(default_factory=dict)
    listed: bool = True

    def known(self, machine_id: str) -> KnownMachine | None:
        return self.machines.get(machine_id)


def step(
    phase: MovePhase, *ids: str, seq: int = 5, donor: str = "a", recipient: str = "b"
) -> TransferOwnership:
    return TransferOwnership(machine_ids=ids, phase=phase, move_seq=seq, from_shard=donor, to_shard=recipient)


def own(**fields: object) -> Ownership:
    made = Ownership("zone", {"z"}, settled=True)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


RELEASE, ADOPT, CANCEL = MovePhase.RELEASE, MovePhase.ADOPT, MovePhase.CANCEL


@pytest.mark.rule("coordinator#move-marks")
@pytest.mark.parametrize(
    ("state", "busy", "goes"),
    [(S.IDLE, False, True), (S.SPECULATIVE, False, True), (S.IDLE, True, False), (S.CONFIGURED, False, False),
     (S.CREATING, False, False), (S.DRAINING, False, False), (S.FAILED, False, False)],
)  # fmt: skip
def test_only_free_machines_are_released_and_echoed(state: S, busy: bool, goes: bool) -> None:
    inventory = Inventory({"m": KnownMachine(state, "z", busy)})
    for _ in range(2):  # a repeated instruction changes nothing
        draft = own()
        ruling = rule_on_move(draft, "a", step(RELEASE, "m", "not-held"), inventory)
        assert ruling.outcome is Outcome.ACCEPTED
        assert ruling.machine_ids == (("m", "not-held") if goes else ("not-held",))
        assert draft.released == dict.fromkeys(ruling.machine_ids, 5)


@pytest.mark.rule("coordinator#move-marks")
def test_what_is_adopted_and_not_listed_yet_stays() -> None:
    draft = own(adopted={"m": 4})
    assert rule_on_move(draft, "a", step(RELEASE, "m"), Inventory()).machine_ids == ()
    assert draft == own(adopted={"m": 4})


@pytest.mark.rule("coordinator#move-marks")
def test_a_mark_for_another_shards_machine_is_refused_while_it_is_in_use_here() -> None:
    inventory = Inventory({"m": KnownMachine(S.CONFIGURED, "z", busy=False)})
    draft = own()
    ruling = rule_on_move(draft, "home", step(RELEASE, "m"), inventory)
    assert (ruling.outcome, draft) == (Outcome.FAILED, own())
    assert rule_on_move(draft, "home", step(RELEASE, "n"), inventory).outcome is Outcome.ACCEPTED
    assert draft.released == {"n": 5}


@pytest.mark.rule("coordinator#move-marks")
@pytest.mark.parametrize("marks", ["adopted", "released"])
@pytest.mark.parametrize("phase", [RELEASE, ADOPT, CANCEL])
def test_an_older_number_is_stale_and_changes_nothing(phase: MovePhase, marks: str) -> None:
    draft = own(**{marks: {"m": 6}})
    shard = "b" if phase is ADOPT else "a"
    ruling = rule_on_move(draft, shard, step(phase, "m", seq=5), Inventory())
    assert ruling.outcome is Outcome.REJECTED_STALE
    assert "found 5 for machine m, allowed is 6 or more" in ruling.reason
    assert draft == own(**{marks: {"m": 6}})


@pytest.mark.rule("coordinator#move-marks")
def test_adopting_replaces_the_released_mark_and_is_for_the_named_shard_only() -> None:
    draft = own(released={"m": 4})
    assert rule_on_move(draft, "c", step(ADOPT, "m"), Inventory()).outcome is Outcome.REJECTED_INVALID
    assert draft.released == {"m": 4}
    assert rule_on_move(draft, "b", step(ADOPT, "m"), Inventory()).outcome is Outcome.ACCEPTED
    assert (draft.adopted, draft.released) == ({"m": 5}, {})
    assert rule_on_move(draft, "b", step(RELEASE, "m"), Inventory()).outcome is Outcome.REJECTED_INVALID


@pytest.mark.rule("coordinator#move-marks")
def test_an_adopted_mark_is_dropped_only_for_a_machine_of_an_own_domain() -> None:
    draft = own(adopted={"m": 5})
    for inventory in (Inventory(), Inventory({"m": KnownMachine(S.IDLE, "elsewhere", busy=False)})):
        assert rule_on_move(draft, "a", step(CANCEL, "m"), inventory).outcome is Outcome.FAILED
        assert draft.adopted == {"m": 5}
    inventory = Inventory({"m": KnownMachine(S.CONFIGURED, "z", busy=False)})
    assert rule_on_move(draft, "a", step(CANCEL, "m"), inventory).outcome is Outcome.ACCEPTED
    assert draft == own()


@pytest.mark.rule("coordinator#move-marks", "coordinator#no-accepted-no-ops")
def test_nothing_is_accepted_before_the_first_listing_or_of_another_phase() -> None:
    draft = own()
    ruling = rule_on_move(draft, "a", step(RELEASE, "m"), Inventory(listed=False))
    assert ruling.outcome is Outcome.FAILED
    offer = replace(step(RELEASE), phase=MovePhase.OFFER)
    refused = rule_on_move(draft, "a", offer, Inventory())
    assert refused.outcome is Outcome.REJECTED_INVALID
    assert "found OFFER" in refused.reason
    assert draft == own()
