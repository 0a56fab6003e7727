"""Laws of the coordinator's state machine on random command sequences.

Rules: `coordinator#invariants`, `coordinator#apply-is-total`, `coordinator#commands`.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.core.tables import Tables
from tests.support.coordinator.unproposed_commands import bind_cluster, move_begin, move_learn, move_step

SHARDS = st.sampled_from(["s-0", "s-1", "s-2", ""])
KEYS = st.sampled_from(["rack", "zone"])
VALUES = st.sampled_from(["a", "b", "c"])
IDS = st.sampled_from(["m-0", "m-1", "m-2"])
NUMBERS = st.integers(0, 8)
LISTS = st.lists(IDS, min_size=0, max_size=3)
STEPS = st.sampled_from(["move_released", "move_settled", "move_cancel", "move_return", "move_forget"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
COMMANDS = st.one_of(
    st.builds(commands.add_shard, SHARDS, st.just("a:1"), NUMBERS),
    st.builds(commands.remove_shard, SHARDS, destroyed=st.booleans(), partitioned=st.booleans()),
    st.builds(bind_cluster, st.sampled_from(["blue", "red"]), SHARDS),
    st.builds(commands.assign_domain, KEYS, VALUES, SHARDS),
    st.builds(commands.unassign_domain, KEYS, VALUES),
    st.builds(
        move_begin,
        st.just("p:1"),
        st.dictionaries(IDS, VALUES, max_size=3),
        key=KEYS,
        from_shard=SHARDS,
        to_shard=SHARDS,
        flow=st.sampled_from(["f1", "f2"]),
        at_ns=NUMBERS,
    ),
    st.builds(move_step, STEPS, st.just("p:1"), LISTS, NUMBERS),
    st.builds(
        move_learn,
        st.just("p:1"),
        st.dictionaries(IDS, VALUES, max_size=2),
        key=KEYS,
        from_shard=SHARDS,
        holder=SHARDS,
        seq=NUMBERS,
        at_ns=NUMBERS,
    ),
    st.just(commands.relearn_done()),
    st.just(commands.barrier()),
    st.fixed_dictionaries({"kind": st.sampled_from([*commands.KINDS, "unknown"])}, optional={"id": JSON}),
    JSON,
)
BATCHES = st.lists(
    st.one_of(
        st.lists(COMMANDS, min_size=1, max_size=6),
        st.builds(lambda term: [commands.begin_epoch(term, "n-0", "c")], NUMBERS),
    ),
    max_size=25,
)


def texts(batches: list[list[Any]], epochs: list[int]) -> list[str]:
    return [
        json.dumps({"v": 1, "epoch": epoch, "items": items})
        for items, epoch in zip(batches, epochs, strict=True)
    ]


def invariants(tables: Tables) -> None:
    """`coordinator#invariants`, each as one line."""
    owners = {shard for values in tables.domains.values() for shard in values.values()}
    assert owners <= tables.shards.keys(), "a domain names a shard that does not exist"
    assert set(tables.clusters.values()) <= tables.shards.keys(), (
        "a cluster names a shard that does not exist"
    )
    assert not tables.ghosts.keys() & tables.shards.keys(), "a registered shard is no ghost"
    rows = {
        (provider, machine_id): row
        for provider, moves in tables.moves.items()
        for machine_id, row in moves.items()
    }
    assert all(row.seq <= tables.move_seq for row in rows.values()), "a move is numbered beyond move_seq"
    assert tables.move_count == len(rows), "the count of moves is off"
    by_shard = {
        shard: {
            (key, value)
            for key, values in tables.domains.items()
            for value in values
            if values[value] == shard
        }
        for shard in owners
    }
    assert {shard: set(pairs) for shard, pairs in tables.domains_of_shard.items()} == by_shard
    by_domain: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for place, row in rows.items():
        by_domain.setdefault((row.key, row.value), set()).add(place)
    assert {pair: set(places) for pair, places in tables.moves_of_domain.items()} == by_domain


@pytest.mark.rule("coordinator#invariants", "coordinator#apply-is-total")
@given(BATCHES, st.booleans(), st.data())
def test_three_machines_agree_on_every_result_and_table_and_none_raises(
    batches: list[list[Any]], relearn: bool, data: st.DataObject
) -> None:
    machines = [CoordinatorStateMachine() for _ in range(3)]
    for state_machine in machines:
        state_machine.load({**state_machine.dump(), "relearn": relearn})
    epoch, move_seq = 0, 0
    for items in batches:
        stamped = data.draw(st.sampled_from([machines[0].epoch, machines[0].epoch, 5]))
        (text,) = texts([items], [stamped])
        answers = {state_machine.apply(text) for state_machine in machines}
        assert len(answers) == 1, "replicas answer differently"
        results = json.loads(answers.pop())
        assert len(results) == len(items)
        assert all(isinstance(result["ok"], bool) for result in results)
        assert "defect" not in {result.get("refusal") for result in results}
        machines[0].read(invariants)
        tables = machines[0].dump()
        assert tables["epoch"] >= epoch, "the epoch fell"
        assert tables["move_seq"] >= move_seq, "move_seq fell"
        epoch, move_seq = tables["epoch"], tables["move_seq"]
    assert machines[0].dump() == machines[1].dump() == machines[2].dump()


@pytest.mark.rule("coordinator#commands")
@given(BATCHES)
def test_a_refused_command_changes_nothing(batches: list[list[Any]]) -> None:
    state_machine = CoordinatorStateMachine()
    for items in batches:
        for item in items:
            before = state_machine.dump()
            (result,) = json.loads(state_machine.apply(*texts([[item]], [state_machine.epoch])))
            if not result["ok"]:
                assert state_machine.dump() == before, result


@given(BATCHES)
def test_a_replica_loaded_from_a_dump_goes_on_like_one_that_applied_everything(
    batches: list[list[Any]],
) -> None:
    lived, half = CoordinatorStateMachine(), len(batches) // 2
    for items in batches[:half]:
        lived.apply(*texts([items], [lived.epoch]))
    loaded = CoordinatorStateMachine()
    loaded.load(json.loads(json.dumps(lived.dump())))
    for items in batches[half:]:
        (text,) = texts([items], [lived.epoch])
        assert lived.apply(text) == loaded.apply(text)
    assert lived.dump() == loaded.dump()
