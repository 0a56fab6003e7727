"""What a shard of a shared provider owns, how that is stored, and what instructions change
(`coordinator#partition-mode`, `coordinator#ownership-file`, `coordinator#leaving-domain`)."""

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.instruction import AssignDomain, Domain, Outcome, UnassignDomain
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import MachineState
from bigfleet.model.ownership import Claim, Ownership
from bigfleet.shard.core.ownership_rulings import domains_left, lets_go, rule_on_domain
from bigfleet.shard.core.ownership_survey import survey
from bigfleet.shard.core.ownership_text import ownership_text, read_ownership
from bigfleet.shard.ownership_file import NAME, OwnershipFile, PartitionKeyChangedError
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from tests.support.builders import machine, shape
from tests.support.shared_provider import DATA

S = MachineState


def owning(**fields: object) -> Ownership:
    ownership = Ownership("rack", {"r1"}, {"r2"}, {"m-adopted": 4}, {"m-released": 5}, settled=True)
    for name, value in fields.items():
        setattr(ownership, name, value)
    return ownership


@pytest.mark.rule("coordinator#partition-mode", "coordinator#leaving-domain")
@pytest.mark.parametrize(
    ("machine_id", "value", "bound", "settled", "claim"),
    [
        pytest.param("m", "r1", False, True, Claim.OWN, id="free in an own domain"),
        pytest.param("m", "r1", True, True, Claim.OWN, id="bound in an own domain"),
        pytest.param("m", "r2", False, True, Claim.FOREIGN, id="free in a domain it leaves"),
        pytest.param("m", "r2", True, True, Claim.IF_MARKED, id="bound in a domain it leaves"),
        pytest.param("m", "r3", True, True, Claim.FOREIGN, id="bound in another domain"),
        pytest.param("m", None, True, True, Claim.FOREIGN, id="without the label"),
        pytest.param("m-adopted", "r3", False, True, Claim.OWN, id="adopted"),
        pytest.param("m-adopted", None, False, False, Claim.OWN, id="adopted, of an unsettled shard"),
        pytest.param("m-released", "r1", False, True, Claim.FOREIGN, id="released"),
        pytest.param("m-released", "r1", True, False, Claim.FOREIGN, id="released and bound, unsettled"),
        pytest.param("m", "r1", False, False, Claim.FOREIGN, id="free in an own domain, unsettled"),
        pytest.param("m", "r3", True, False, Claim.IF_MARKED, id="bound anywhere, unsettled"),
    ],
)
def test_claim(machine_id: str, value: str | None, bound: bool, settled: bool, claim: Claim) -> None:
    assert owning(settled=settled).claim(machine_id, value, bound=bound) is claim


@pytest.mark.rule("coordinator#ownership-file")
def test_the_file_comes_back_and_no_changed_character_passes() -> None:
    ownership = owning()
    text = ownership_text(ownership)
    assert read_ownership(text) == ownership
    for place in range(len(text) - 1):  # the last one is the end of the line
        changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        with pytest.raises(InvalidFieldError):
            read_ownership(changed)
    for size in range(len(text) - 1):
        with pytest.raises(InvalidFieldError):
            read_ownership(text[:size])


@pytest.mark.rule("coordinator#ownership-file")
def test_another_key_refuses_the_start_unless_nothing_is_owned() -> None:
    disk = MemoryDisk()
    disk.mkdir(DATA)
    OwnershipFile(disk, DATA, "rack").store(owning())
    with pytest.raises(PartitionKeyChangedError, match="found zone, allowed is rack"):
        OwnershipFile(disk, DATA, "zone").load()
    OwnershipFile(disk, DATA, "rack").store(Ownership("rack", settled=True))
    assert OwnershipFile(disk, DATA, "zone").load() == Ownership("zone")
    assert NAME in disk.list_names(DATA)


@pytest.mark.rule("coordinator#leaving-domain")
def test_instructions_change_domains_and_may_be_repeated() -> None:
    draft = owning(domains={"r1"}, leaving=set())
    for _ in range(2):
        ruling = rule_on_domain(draft, UnassignDomain(Domain("rack", "r1")))
        assert ruling is not None
        assert ruling.outcome is Outcome.ACCEPTED
        assert (draft.domains, draft.leaving) == (set(), {"r1"})
    for _ in range(2):
        rule_on_domain(draft, AssignDomain(Domain("rack", "r1")))
        assert (draft.domains, draft.leaving) == ({"r1"}, set())
    rule_on_domain(draft, UnassignDomain(Domain("rack", "unknown")))
    assert (draft.domains, draft.leaving) == ({"r1"}, set())


@pytest.mark.rule("coordinator#partition-mode")
@pytest.mark.parametrize(
    ("domain", "why"),
    [(Domain("zone", "z"), "found 'zone', allowed is rack"), (Domain("rack", ""), "topology_value")],
    ids=["another key", "no value"],
)
def test_a_domain_that_cannot_be_meant_is_refused_with_a_reason(domain: Domain, why: str) -> None:
    draft = owning()
    for payload in (AssignDomain(domain), UnassignDomain(domain)):
        ruling = rule_on_domain(draft, payload)
        assert ruling is not None
        assert ruling.outcome is Outcome.REJECTED_INVALID
        assert why in ruling.reason
    assert draft == owning()


@pytest.mark.rule("coordinator#leaving-domain")
def test_only_free_machines_are_let_go() -> None:
    in_r2 = [state for state in MachineState if state and lets_go(owning(), "m", "r2", state)]
    assert in_r2 == [S.SPECULATIVE, S.IDLE, S.FAILED]
    assert not any(lets_go(owning(), "m", "r1", state) for state in MachineState)
    assert lets_go(owning(), "m-released", "r1", S.IDLE)
    assert not lets_go(owning(), "m-adopted", "r3", S.IDLE)


@pytest.mark.rule("coordinator#leaving-domain")
@pytest.mark.parametrize("wide", [False, True], ids=["few values", "a value per machine"])
def test_a_survey_names_what_to_forget_and_where_machines_are_left(
    monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    if wide:
        monkeypatch.setattr("bigfleet.model.inventory.wide_labels.MANY_VALUES", 1)
    inventory = Inventory()
    for machine_id, rack, state in (
        ("m-own", "r1", S.IDLE),
        ("m-left", "r2", S.IDLE),
        ("m-bound", "r2", S.CONFIGURED),
        ("m-adopted", "r3", S.CONFIGURED),
        ("m-released", "r1", S.IDLE),
        ("m-strange", "r4", S.IDLE),
        ("m-creating", "r5", S.CREATING),
    ):
        cluster = "prod" if state is S.CONFIGURED else ""
        labels = {"rack": rack}
        inventory.insert(machine(machine_id, state, shape=shape(labels=labels), cluster=cluster), 0.0)
    found = survey(inventory.snapshot(), owning())
    assert found.let_go == ("m-left", "m-released", "m-strange")
    assert found.held == {"r1", "r2", "r4", "r5"}
    draft = owning()
    assert domains_left(draft, set(found.held))
    assert draft.leaving == {"r2", "r4", "r5"}
    assert not domains_left(draft, set(found.held))
