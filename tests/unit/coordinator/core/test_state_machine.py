"""Batches, epochs, levels, dumps of the state machine.

Rules: `coordinator#commands`, `coordinator#invariants`, `coordinator#command-levels`, `coordinator#batches`,
`coordinator#stale-epoch`, `coordinator#command-raises`.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import KINDS, CommandKind
from bigfleet.coordinator.core.results import CommandOutcome
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.core.tables import Tables
from bigfleet.model.errors import InvalidFieldError
from tests.support.coordinator.unproposed_commands import bind_cluster, move_begin

CLUSTER = "c0ffee"


def batch(
    state_machine: CoordinatorStateMachine, *items: object, epoch: int | None = None
) -> list[dict[str, Any]]:
    text = json.dumps(
        {"v": 1, "epoch": state_machine.epoch if epoch is None else epoch, "items": list(items)}
    )
    results: list[dict[str, Any]] = json.loads(state_machine.apply(text))
    return results


def begun(term: int = 1) -> CoordinatorStateMachine:
    state_machine = CoordinatorStateMachine()
    assert batch(state_machine, commands.begin_epoch(term, "n-0", CLUSTER)) == [{"ok": True}]
    return state_machine


def codes(results: list[dict[str, Any]]) -> list[str]:
    return ["ok" if result["ok"] else result["refusal"] for result in results]


@pytest.mark.rule("coordinator#batches")
def test_256_commands_with_refused_ones_among_them_give_256_results_in_order() -> None:
    state_machine = begun()
    items = [commands.add_shard(f"s-{n // 2}", "a", 1) for n in range(256)]
    assert codes(batch(state_machine, *items)) == ["ok", "shard_exists"] * 128


@pytest.mark.parametrize("count", [0, 257])
def test_a_batch_of_none_or_too_many_is_one_refusal(count: int) -> None:
    assert codes(batch(begun(), *[commands.barrier()] * count)) == ["invalid"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "[" * 100_000,
        '{"v":2,"epoch":1,"items":[{"kind":"barrier"}]}',
        '{"v":true,"epoch":1,"items":[{"kind":"barrier"}]}',
        '{"v":1,"epoch":"1","items":[{"kind":"barrier"}]}',
        '{"v":1,"epoch":1,"items":{}}',
        '{"v":1,"epoch":1}',
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_what_is_no_batch_is_a_refusal_value(text: str) -> None:
    assert codes(json.loads(begun().apply(text))) == ["invalid"]


@pytest.mark.parametrize(
    "item",
    [
        None,
        7,
        [],
        {},
        {"kind": 3},
        {"kind": "set_quota"},
        {"kind": "add_shard"},
        {"kind": "add_shard", "id": "", "address": "", "registered_at": 1},
        {"kind": "add_shard", "id": "s", "address": 1, "registered_at": 1},
        {"kind": "add_shard", "id": "s", "address": "", "registered_at": -1},
        {"kind": "add_shard", "id": "s", "address": "", "registered_at": 2**63},
        {"kind": "add_shard", "id": "s", "address": "", "registered_at": True},
        {"kind": "add_shard", "id": "\ud800", "address": "", "registered_at": 1},
        {"kind": "remove_shard", "id": "s", "destroyed": 1, "partitioned": False},
        {"kind": "assign_domain", "key": "", "value": "v", "shard": "s"},
        {"kind": "move_begin", "provider": "p", "machines": [], "key": "k"},
        {"kind": "move_released", "provider": "p", "ids": [], "seq": 1},
        {"kind": "move_released", "provider": "p", "ids": ["m", "m"], "seq": 1},
        {"kind": "move_released", "provider": "p", "ids": [f"m{n}" for n in range(33)], "seq": 1},
    ],
    ids=str,
)
def test_a_command_that_cannot_be_read_is_refused_alone_and_changes_nothing(item: object) -> None:
    state_machine = begun()
    before = state_machine.dump()
    assert codes(batch(state_machine, item, commands.barrier())) == ["invalid", "ok"]
    assert state_machine.dump() == before


def test_a_refusal_names_the_field_and_what_is_allowed() -> None:
    (refused,) = batch(begun(), {"kind": "add_shard", "id": "s", "address": "", "registered_at": "now"})
    assert "registered_at: found \"'now'\", allowed is a whole number" in refused["detail"]


@pytest.mark.rule("coordinator#stale-epoch")
def test_an_old_epoch_is_refused_whole_after_a_new_one_began_and_epochs_never_fall() -> None:
    state_machine = begun(4)
    assert codes(batch(state_machine, commands.begin_epoch(7, "n-1", CLUSTER), epoch=4)) == ["ok"]
    late = batch(state_machine, commands.add_shard("s", "", 1), commands.barrier(), epoch=4)
    assert codes(late) == ["stale_epoch", "stale_epoch"]
    assert not state_machine.dump()["shards"]
    for term in (6, 7):
        assert codes(batch(state_machine, commands.begin_epoch(term, "n-0", CLUSTER))) == ["stale_epoch"]
    assert (state_machine.epoch, state_machine.dump()["epoch_owner"]) == (7, "n-1")


def test_begin_epoch_is_refused_among_other_commands() -> None:
    state_machine = begun(4)
    found = batch(state_machine, commands.begin_epoch(9, "n-1", CLUSTER), commands.barrier())
    assert codes(found) == ["invalid", "ok"]
    assert state_machine.epoch == 4


def test_begin_epoch_of_another_cluster_is_refused() -> None:
    state_machine = begun(1)
    assert codes(batch(state_machine, commands.begin_epoch(2, "n-0", "other"))) == ["invalid"]
    assert (state_machine.epoch, state_machine.dump()["cluster_id"]) == (1, CLUSTER)


def test_a_raising_command_is_a_refusal_and_its_neighbours_are_applied() -> None:
    def poison(_tables: Tables, _given: Mapping[str, Any]) -> CommandOutcome:
        raise ZeroDivisionError("planted")

    state_machine = CoordinatorStateMachine(kinds={**KINDS, "poison": CommandKind(1, poison)})
    batch(state_machine, commands.begin_epoch(1, "n-0", CLUSTER))
    found = batch(
        state_machine, commands.add_shard("a", "", 1), {"kind": "poison"}, commands.add_shard("b", "", 1)
    )
    assert codes(found) == ["ok", "defect", "ok"]
    assert "ZeroDivisionError" in found[1]["detail"]
    assert list(state_machine.dump()["shards"]) == ["a", "b"]


class TestLevels:
    """`coordinator#command-levels`: a new kind is proposed only after the level that brings it was raised."""

    KINDS: Mapping[str, CommandKind] = {
        **KINDS,
        "novelty": CommandKind(2, lambda tables, _given: tables.relearn_done()),
    }

    def test_a_kind_above_the_committed_level_is_refused_until_the_level_is_raised(self) -> None:
        state_machine = CoordinatorStateMachine(kinds=self.KINDS, known_level=2)
        batch(state_machine, commands.begin_epoch(1, "n-0", CLUSTER))
        assert codes(batch(state_machine, {"kind": "novelty"})) == ["level_too_low"]
        assert codes(batch(state_machine, commands.raise_level(2), {"kind": "novelty"})) == ["ok", "ok"]
        assert codes(batch(state_machine, commands.raise_level(1))) == ["ok"]
        assert state_machine.dump()["level"] == 2

    def test_a_replica_that_does_not_know_the_level_says_so_and_applies_nothing_further(self) -> None:
        levels: list[int] = []
        state_machine = CoordinatorStateMachine(on_outgrown=levels.append)
        batch(state_machine, commands.begin_epoch(1, "n-0", CLUSTER))
        batch(state_machine, commands.raise_level(2))
        assert levels == [2]
        assert codes(batch(state_machine, commands.add_shard("s", "", 1))) == ["level_unknown"]
        assert not state_machine.dump()["shards"]

    def test_tables_of_an_unknown_level_are_not_loaded(self) -> None:
        newer = CoordinatorStateMachine(known_level=2)
        batch(newer, commands.begin_epoch(1, "n-0", CLUSTER))
        batch(newer, commands.raise_level(2))
        with pytest.raises(InvalidFieldError, match="level: found 2, allowed is at most 1"):
            CoordinatorStateMachine().load(newer.dump())


def full() -> CoordinatorStateMachine:
    """A machine with a row in every table."""
    state_machine = begun(3)
    for item in (
        commands.add_shard("s-1", "s-1:7780", 5),
        commands.add_shard("s-2", "s-2:7780", 6),
        commands.add_shard("gone", "", 7),
        bind_cluster("blue", "s-1"),
        commands.assign_domain("rack", "r1", "s-1"),
        commands.assign_domain("rack", "r2", "s-2"),
        commands.assign_domain("zone", "a", "s-2"),
        move_begin("p:9000", {"m-1": "r1"}, key="rack", from_shard="s-1", to_shard="s-2", flow="f1", at_ns=9),
        commands.remove_shard("gone", destroyed=False, partitioned=True),
    ):
        assert batch(state_machine, item)[0]["ok"], item
    return state_machine


def test_a_dump_survives_json_and_loads_into_equal_tables() -> None:
    state_machine = full()
    fresh = CoordinatorStateMachine()
    fresh.load(json.loads(json.dumps(state_machine.dump())))
    assert fresh.dump() == state_machine.dump()
    assert fresh.read(lambda tables: tables.domains_of_shard) == {
        "s-1": {("rack", "r1"): None},
        "s-2": {("rack", "r2"): None, ("zone", "a"): None},
    }
    # Not only the rows: what is kept beside them works too.
    assert codes(batch(fresh, commands.unassign_domain("rack", "r1"), epoch=3)) == ["ok"]
    assert fresh.dump()["moves"]["p:9000"]["m-1"].home == ""


def test_a_dump_is_a_copy() -> None:
    state_machine = full()
    before = json.dumps(state_machine.dump())
    dump = state_machine.dump()
    dump["shards"].clear()
    dump["domains"]["rack"].clear()
    dump["moves"].clear()
    assert json.dumps(state_machine.dump()) == before


@pytest.mark.parametrize(
    ("table", "value", "named"),
    [
        ("format", 2, "format"),
        ("shards", {"s-1": ["only an address"]}, r"shards\[s-1\]"),
        ("shards", {"": ["a", 1]}, "shards"),
        ("clusters", {"blue": "nobody"}, r"clusters\[blue\]"),
        ("domains", {"rack": {"r1": "nobody"}}, r"domains\[rack=r1\]"),
        ("domains", {"": {"r1": "s-1"}}, "domains"),
        ("moves", {"p": {"m": ["too", "short"]}}, r"moves\[p\]\[m\]\.row"),
        ("ghosts", ["s-1"], "ghosts"),
        ("ghosts", "s-1", "ghosts"),
        ("epoch", -1, "epoch"),
        ("move_seq", 0, r"moves\[p:9000\]\[m-1\]"),
    ],
)
def test_rows_that_do_not_fit_refuse_the_whole_and_leave_the_tables_alone(
    table: str, value: object, named: str
) -> None:
    state_machine = full()
    before = state_machine.dump()
    with pytest.raises(InvalidFieldError, match=rf"^{named}"):
        state_machine.load({**before, table: value})
    assert state_machine.dump() == before
