"""What a restored coordinator learns from its shards (`coordinator#relearn-ownership`)."""

import pytest

from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.relearn import relearn
from bigfleet.coordinator.core.tables import Tables
from bigfleet.model.instruction import Domain
from bigfleet.model.shard_report import OwnershipView

Z1, Z2, Z3 = (("zone", f"z{number}") for number in (1, 2, 3))


def view(*held: tuple[str, str], leaving: tuple[tuple[str, str], ...] = ()) -> OwnershipView:
    domains = tuple(Domain(*pair) for pair in (*held, *leaving))
    return OwnershipView(domains=domains, settled=True, leaving=tuple(Domain(*pair) for pair in leaving))


def tables(**rows: tuple[str, str]) -> Tables:
    made = Tables()
    for shard in ("a", "b"):
        made.add_shard(shard, f"{shard}:1", 1)
    for shard, pair in rows.items():
        made.assign_domain(*pair, shard)
    return made


@pytest.mark.rule("coordinator#relearn-ownership")
def test_a_domain_in_one_view_gets_its_row_back_whatever_the_snapshot_says() -> None:
    found = relearn(tables(a=Z1), {"a": view(Z2), "b": view(Z1)})
    assert found.commands == (
        commands.unassign_domain(*Z1),
        commands.assign_domain(*Z1, "b"),
        commands.assign_domain(*Z2, "a"),
    )
    assert not found.disputed


@pytest.mark.rule("coordinator#relearn-ownership")
def test_two_holders_are_left_to_a_person_and_who_leaves_counts_last() -> None:
    found = relearn(tables(), {"a": view(Z1, leaving=(Z2, Z3)), "b": view(Z1, Z2)})
    assert found.disputed == (Z1,)
    assert found.commands == (commands.assign_domain(*Z2, "b"), commands.assign_domain(*Z3, "a"))


@pytest.mark.rule("coordinator#relearn-ownership")
def test_rows_that_agree_and_shards_that_are_not_registered_change_nothing() -> None:
    found = relearn(tables(a=Z1), {"a": view(Z1), "stranger": view(Z2)})
    assert (found.commands, found.disputed) == ((), ())
