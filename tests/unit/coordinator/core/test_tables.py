"""What each command of shards, clusters and domains does, refuses and repeats (`coordinator#commands`)."""

from typing import Any

import pytest

from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import KINDS, Command
from bigfleet.coordinator.core.results import Result
from bigfleet.coordinator.core.table_text import table_text
from bigfleet.coordinator.core.tables import Tables
from tests.support.coordinator.unproposed_commands import bind_cluster


def apply(tables: Tables, command: Command) -> Result:
    return KINDS[command["kind"]].apply(tables, command).result()


@pytest.fixture
def tables() -> Tables:
    """Two shards; s-1 owns rack r1 and serves cluster blue."""
    tables = Tables()
    for command in (
        commands.add_shard("s-1", "s-1:7780", 5),
        commands.add_shard("s-2", "s-2:7780", 6),
        bind_cluster("blue", "s-1"),
        commands.assign_domain("rack", "r1", "s-1"),
    ):
        assert apply(tables, command) == {"ok": True}
    return tables


@pytest.mark.rule("coordinator#commands")
@pytest.mark.parametrize(
    ("command", "refusal", "owner"),
    [
        (commands.add_shard("s-1", "elsewhere:1", 99), "shard_exists", None),
        (commands.remove_shard("s-9", destroyed=False, partitioned=False), "shard_not_found", None),
        (commands.remove_shard("s-9", destroyed=True, partitioned=True), "shard_not_found", None),
        (bind_cluster("blue", "s-2"), "cluster_already_bound", "s-1"),
        (bind_cluster("blue", "s-9"), "shard_not_found", None),
        (commands.assign_domain("rack", "r1", "s-2"), "domain_already_assigned", "s-1"),
        (commands.assign_domain("rack", "r1", "s-9"), "shard_not_found", None),
    ],
    ids=lambda value: str(value.get("kind")) if isinstance(value, dict) else None,
)
def test_a_refusal_is_a_value_and_leaves_all_tables_unchanged(
    tables: Tables, command: Command, refusal: str, owner: str | None
) -> None:
    before = table_text(tables)
    result = apply(tables, command)
    assert (result["ok"], result["refusal"], result.get("owner")) == (False, refusal, owner)
    assert table_text(tables) == before


@pytest.mark.rule("coordinator#commands")
@pytest.mark.parametrize(
    "command",
    [
        bind_cluster("blue", "s-1"),
        commands.assign_domain("rack", "r1", "s-1"),
        commands.unassign_domain("rack", "nobody's"),
        commands.unassign_domain("nothing", "r1"),
        commands.relearn_done(),
        commands.barrier(),
    ],
    ids=lambda command: str(command["kind"]),
)
def test_what_may_be_repeated_succeeds_and_changes_nothing(tables: Tables, command: Command) -> None:
    before = table_text(tables)
    assert apply(tables, command) == {"ok": True}
    assert table_text(tables) == before


@pytest.mark.rule("coordinator#commands")
def test_removing_a_shard_takes_its_clusters_and_domains_with_it_in_one_command(tables: Tables) -> None:
    apply(tables, commands.assign_domain("zone", "a", "s-1"))
    apply(tables, commands.assign_domain("rack", "r2", "s-2"))
    apply(tables, bind_cluster("red", "s-2"))
    assert apply(tables, commands.remove_shard("s-1", destroyed=False, partitioned=False))["ok"]
    text = table_text(tables)
    assert (list(text["shards"]), text["clusters"], text["domains"]) == (
        ["s-2"],
        {"red": "s-2"},
        {"rack": {"r2": "s-2"}},
    )
    assert text["ghosts"] == []
    assert not apply(tables, commands.remove_shard("s-1", destroyed=False, partitioned=False))["ok"]


def test_a_domain_can_be_taken_and_given_to_another(tables: Tables) -> None:
    assert apply(tables, commands.unassign_domain("rack", "r1"))["ok"]
    assert apply(tables, commands.assign_domain("rack", "r1", "s-2"))["ok"]
    assert tables.domains_of_shard == {"s-2": {("rack", "r1"): None}}


class TestGhosts:
    """Removed shards that may still be alive behind a partition (`coordinator#ghosts`)."""

    def remove(self, tables: Tables, **how: Any) -> Result:
        return apply(tables, commands.remove_shard("s-1", **how))

    def test_a_partitioned_shard_leaves_a_ghost_that_its_return_clears(self, tables: Tables) -> None:
        self.remove(tables, destroyed=False, partitioned=True)
        assert list(tables.ghosts) == ["s-1"]
        assert self.remove(tables, destroyed=False, partitioned=False)["ok"]  # known, as a ghost
        assert list(tables.ghosts) == ["s-1"]
        apply(tables, commands.add_shard("s-1", "s-1:7780", 9))
        assert not tables.ghosts

    def test_vouching_for_its_destruction_clears_a_ghost(self, tables: Tables) -> None:
        self.remove(tables, destroyed=False, partitioned=True)
        assert self.remove(tables, destroyed=True, partitioned=True)["ok"]
        assert not tables.ghosts
        assert not self.remove(tables, destroyed=True, partitioned=True)["ok"]

    def test_a_destroyed_shard_leaves_none(self, tables: Tables) -> None:
        self.remove(tables, destroyed=True, partitioned=True)
        assert not tables.ghosts
