"""The ledger of moves, step by step (`coordinator#commands`, `coordinator#restore`, `coordinator#relearn`,
`coordinator#ledger`, `coordinator#move-steps`, `coordinator#partition-mode`): refusals, repeats, destroyed shards."""

import pytest

from bigfleet.coordinator.core import commands, ledger
from bigfleet.coordinator.core.commands import KINDS, Command
from bigfleet.coordinator.core.results import Result
from bigfleet.coordinator.core.table_text import table_text
from bigfleet.coordinator.core.tables import MoveRow, Tables
from tests.support.coordinator.unproposed_commands import move_begin, move_learn, move_step

P = "p:9000"


def apply(tables: Tables, command: Command) -> Result:
    return KINDS[command["kind"]].apply(tables, command).result()


def begin(*ids: str, flow: str = "f1", from_shard: str = "home", to_shard: str = "away") -> Command:
    machines = dict.fromkeys(ids or ("m-1", "m-2"), "r1")
    return move_begin(P, machines, key="rack", from_shard=from_shard, to_shard=to_shard, flow=flow, at_ns=7)


def step(kind: str, seq: int = 1, *ids: str) -> Command:
    return move_step(f"move_{kind}", P, ids or ("m-1", "m-2"), seq)


def row(tables: Tables, machine_id: str = "m-1") -> MoveRow:
    found = tables.move(P, machine_id)
    assert found is not None
    return found


@pytest.fixture
def tables() -> Tables:
    """Rack r1 belongs to shard home; shards away and third exist."""
    tables = Tables()
    for shard in ("home", "away", "third"):
        apply(tables, commands.add_shard(shard, "", 1))
    apply(tables, commands.assign_domain("rack", "r1", "home"))
    return tables


def test_a_move_goes_from_begin_to_held_and_is_forgotten_once_back_home(tables: Tables) -> None:
    assert apply(tables, begin()) == {"ok": True, "seq": 1}
    assert row(tables) == MoveRow("rack", "r1", "home", "home", "away", "releasing", 1, "f1", 7, 0)
    assert apply(tables, step("released"))["ok"]
    assert row(tables).phase == "adopting"
    assert apply(tables, step("settled"))["ok"]
    assert (row(tables).phase, row(tables).holder) == ("held", "away")
    assert apply(tables, begin(flow="f2", from_shard="away", to_shard="home")) == {"ok": True, "seq": 2}
    assert apply(tables, step("released", 2))["ok"]
    assert apply(tables, step("settled", 2))["ok"]
    assert apply(tables, step("forget", 2))["ok"]
    assert (table_text(tables)["moves"], tables.move_count, tables.move_seq) == ({}, 0, 2)
    assert not tables.moves_of_domain


@pytest.mark.parametrize(
    "commands_before",
    [
        [begin()],
        [begin(), step("released")],
        [begin(), step("released"), step("settled")],
        [begin(), step("cancel")],
        [begin(), step("released"), step("return")],
        [begin(), step("forget")],
    ],
    ids=["begin", "released", "settled", "cancel", "return", "forget"],
)
def test_the_last_step_may_be_repeated_and_changes_nothing(
    tables: Tables, commands_before: list[Command]
) -> None:
    for command in commands_before:
        assert apply(tables, command)["ok"]
    before = table_text(tables)
    assert apply(tables, commands_before[-1])["ok"]
    assert table_text(tables) == before


@pytest.mark.parametrize(
    ("commands_before", "late"),
    [
        ([begin()], step("released", 9)),
        ([begin()], step("settled")),
        ([begin()], step("return")),
        ([begin(), step("released")], step("cancel")),
        ([begin(), step("cancel")], step("released")),
        ([begin(), step("released"), step("settled")], step("return")),
        ([begin(), step("forget")], step("released")),
        ([begin(), step("released"), step("return")], step("settled")),
        ([begin("m-1")], step("released", 1, "m-1", "m-2")),
    ],
)
def test_a_step_of_another_number_or_phase_is_stale(
    tables: Tables, commands_before: list[Command], late: Command
) -> None:
    for command in commands_before:
        assert apply(tables, command)["ok"]
    before = table_text(tables)
    assert apply(tables, late)["refusal"] == "move_stale"
    assert table_text(tables) == before


def test_a_machine_on_its_way_cannot_be_moved_again(tables: Tables) -> None:
    apply(tables, begin("m-1"))
    before = table_text(tables)
    refused = apply(tables, begin("m-0", "m-1", flow="f2"))
    assert (refused["refusal"], refused["owner"]) == ("move_conflict", "away")
    assert table_text(tables) == before  # not even m-0
    apply(tables, step("released", 1, "m-1"))
    apply(tables, step("settled", 1, "m-1"))
    assert (
        apply(tables, begin("m-1", flow="f2", from_shard="home", to_shard="third"))["refusal"]
        == "move_conflict"
    )
    assert apply(tables, begin("m-1", flow="f2", from_shard="away", to_shard="third"))["ok"]


@pytest.mark.parametrize("ends", [("nobody", "away"), ("home", "nobody")])
def test_both_ends_of_a_move_must_exist(tables: Tables, ends: tuple[str, str]) -> None:
    refused = apply(tables, begin(from_shard=ends[0], to_shard=ends[1]))
    assert refused["refusal"] == "shard_not_found"


def test_nothing_moves_to_where_it_is(tables: Tables) -> None:
    assert apply(tables, begin(to_shard="home"))["refusal"] == "invalid"


def test_a_full_ledger_refuses(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_MOVES", 2)
    assert apply(tables, begin("m-1"))["ok"]
    assert apply(tables, begin("m-2", "m-3", flow="f2"))["refusal"] == "ledger_full"
    assert apply(tables, begin("m-2", flow="f2"))["ok"]


def test_cancelled_machines_stay_with_the_donor(tables: Tables) -> None:
    apply(tables, begin())
    apply(tables, step("cancel", 1, "m-2"))
    assert (row(tables, "m-2").holder, row(tables, "m-2").phase) == ("home", "held")
    assert row(tables, "m-1").phase == "releasing"


def test_a_return_sends_machines_home_under_a_new_number(tables: Tables) -> None:
    apply(tables, begin())
    apply(tables, step("released"))
    assert apply(tables, step("return")) == {"ok": True, "seq": 2}
    returned = row(tables)
    assert (returned.from_shard, returned.holder, returned.phase, returned.seq) == (
        "away",
        "home",
        "releasing",
        2,
    )


def test_a_return_needs_a_home(tables: Tables) -> None:
    apply(tables, begin())
    apply(tables, step("released"))
    apply(tables, commands.unassign_domain("rack", "r1"))
    assert row(tables).home == ""
    assert apply(tables, step("return"))["refusal"] == "move_stale"


def test_the_home_of_moved_machines_follows_their_domain(tables: Tables) -> None:
    apply(tables, begin())
    apply(tables, commands.unassign_domain("rack", "r1"))
    apply(tables, commands.assign_domain("rack", "r1", "third"))
    assert row(tables).home == "third"


def test_removing_a_shard_that_may_live_leaves_rows_alone(tables: Tables) -> None:
    apply(tables, begin())
    before = table_text(tables)["moves"]
    apply(tables, commands.remove_shard("home", destroyed=False, partitioned=True))
    assert table_text(tables)["moves"] == before


class TestDestroyed:
    """Rows of a shard whose process and disk are gone (`coordinator#ledger`, `coordinator#partition-mode`)."""

    def destroy(self, tables: Tables, shard: str) -> None:
        assert apply(tables, commands.remove_shard(shard, destroyed=True, partitioned=True))["ok"]

    def test_what_it_held_goes_home(self, tables: Tables) -> None:
        for command in (begin(), step("released"), step("settled")):
            apply(tables, command)
        self.destroy(tables, "away")
        assert (row(tables).holder, row(tables).phase) == ("home", "adopting")
        assert row(tables).seq > 1

    def test_what_it_held_without_another_home_is_deleted(self, tables: Tables) -> None:
        for command in (begin(), step("released"), step("settled"), commands.unassign_domain("rack", "r1")):
            apply(tables, command)
        self.destroy(tables, "away")
        assert table_text(tables)["moves"] == {}

    def test_what_it_had_not_let_go_counts_as_released(self, tables: Tables) -> None:
        apply(tables, begin())
        self.destroy(tables, "home")
        assert (row(tables).holder, row(tables).phase, row(tables).home) == ("away", "adopting", "")

    def test_others_rows_are_untouched(self, tables: Tables) -> None:
        apply(tables, begin())
        before = table_text(tables)["moves"]
        self.destroy(tables, "third")
        assert table_text(tables)["moves"] == before


class TestLearn:
    """Taking moves back after a restore (`coordinator#restore`, `coordinator#relearn`)."""

    def learn(self, *ids: str, seq: int = 5, holder: str = "away") -> Command:
        return move_learn(
            P, dict.fromkeys(ids, "r1"), key="rack", from_shard="home", holder=holder, seq=seq, at_ns=1
        )

    def test_only_while_relearning(self, tables: Tables) -> None:
        assert apply(tables, self.learn("m-1"))["refusal"] == "move_stale"

    def test_a_move_is_taken_back_and_later_numbers_are_above_it(self, tables: Tables) -> None:
        tables.relearn = True
        assert apply(tables, self.learn("m-1"))["ok"]
        assert apply(tables, self.learn("m-1"))["ok"]
        assert (row(tables).holder, row(tables).home, row(tables).phase, row(tables).seq) == (
            "away",
            "home",
            "held",
            5,
        )
        assert apply(tables, self.learn("m-1", holder="third"))["refusal"] == "move_stale"
        assert apply(tables, self.learn(seq=11))["ok"]
        assert tables.move_seq == 11
        assert apply(tables, begin("m-2"))["seq"] == 12
