"""Each row of the failure injection matrix, by flag and by control (`providers#fault-injection`)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bigfleet.aio.net import Code
from bigfleet.app.fake_provider.command import FakeProviderSettings
from bigfleet.app.fake_provider.serve import options_of
from bigfleet.cli.framework.load import load
from bigfleet.cli.framework.options import options_of as flags_of
from bigfleet.cli.framework.parse import parse
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import REMOVED_LABEL
from bigfleet.provider.fake.control import VERBS
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.script import play, read_script
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.limits import Timeouts
from bigfleet.testing.loop import run_virtual
from tests.support.fake_provider import MemoryState, VirtualFake, bound, code_of, pool, spot

POOLS = (pool("m", 4), pool("host", 4, state=S.IDLE), bound("bound", 4), spot("spot", 4, state=S.IDLE))
SHORT_S = 5.0

Check = Callable[[VirtualFake], Awaitable[None]]
Verb = tuple[str, dict[str, object]]


@dataclass(frozen=True)
class Row:
    """One fault: how flags cause it, how the control does, and what a caller then sees."""

    name: str
    flags: tuple[str, ...]
    """`@` before JSON is a step of a script, as `--script` takes it."""
    control: tuple[Verb, ...]
    check: Check
    options: FakeOptions | None = None
    """What the control needs besides, such as short timeouts."""


def state(world: VirtualFake, machine_id: str) -> S:
    return world.machine(machine_id).state


async def refused_create(world: VirtualFake) -> None:
    assert await code_of(world.client.create("m-0")) is Code.INTERNAL
    assert state(world, "m-0") is S.SPECULATIVE


async def refused_configure(world: VirtualFake) -> None:
    assert await code_of(world.client.configure("host-0", "c")) is Code.INTERNAL
    assert state(world, "host-0") is S.IDLE


async def refused_drain(world: VirtualFake) -> None:
    assert await code_of(world.client.drain("bound-0")) is Code.INTERNAL
    assert state(world, "bound-0") is S.CONFIGURED


async def refused_delete(world: VirtualFake) -> None:
    assert await code_of(world.client.delete("host-0")) is Code.INTERNAL
    assert state(world, "host-0") is S.IDLE


async def failed_later(world: VirtualFake) -> None:
    await world.client.create("m-0")
    await world.pass_time(SHORT_S - 1)
    assert state(world, "m-0") is S.CREATING
    assert await world.settled("m-0") is S.FAILED
    assert world.machine("m-0").last_error == "create failed: boom"


async def never_finished(world: VirtualFake) -> None:
    await world.client.create("m-0")
    await world.pass_time(7200)
    assert S((await world.client.get("m-0")).state) is S.CREATING
    shown = {machine.id: S(machine.state) for machine in (await world.client.list()).machines}
    assert shown["m-0"] is S.CREATING


async def finished_too_late(world: VirtualFake) -> None:
    await world.client.create("m-0")
    assert await world.settled("m-0") is S.FAILED
    assert "timed out" in world.machine("m-0").last_error
    await world.pass_time(10)
    assert state(world, "m-0") is S.FAILED
    assert "late_result_discarded" in world.fake.log()


async def answer_lost(world: VirtualFake) -> None:
    assert await code_of(world.another_client(SHORT_S).create("m-0")) is Code.DEADLINE_EXCEEDED
    assert await world.settled("m-0") is S.IDLE


async def slower_than_the_deadline(world: VirtualFake) -> None:
    assert await code_of(world.another_client(SHORT_S).create("m-0")) is Code.DEADLINE_EXCEEDED
    assert state(world, "m-0") is S.SPECULATIVE


async def unavailable_for_a_while(world: VirtualFake) -> None:
    assert await code_of(world.client.list()) is Code.UNAVAILABLE
    assert await code_of(world.client.create("m-0")) is Code.UNAVAILABLE
    await world.pass_time(SHORT_S + 1)
    assert await code_of(world.client.list()) is Code.OK


async def connection_reset(world: VirtualFake) -> None:
    assert await code_of(world.client.create("m-0")) in (Code.UNAVAILABLE, Code.CANCELLED)
    assert await world.settled("m-0") is S.IDLE
    assert await code_of(world.another_client().list()) is Code.OK


async def slow_list(world: VirtualFake) -> None:
    begin_ns = world.process.clock.monotonic_ns()
    await world.client.list()
    assert world.process.clock.monotonic_ns() - begin_ns >= 15 * 10**9


async def list_cut(world: VirtualFake) -> None:
    shown = (await world.client.list()).machines
    assert 0 < len(shown) < len(world.fake.machines())


async def out_of_stock(world: VirtualFake, *ids: str) -> None:
    for machine_id in ids:
        await world.client.create(machine_id)
        assert await world.settled(machine_id) is S.FAILED
        assert world.machine(machine_id).last_error.startswith("stockout:")


async def type_out_of_stock(world: VirtualFake) -> None:
    await out_of_stock(world, "m-0", "m-1")


async def zone_out_of_stock(world: VirtualFake) -> None:
    await out_of_stock(world, "m-0", "m-2")
    await world.client.create("m-1")
    assert await world.settled("m-1") is S.IDLE


async def nothing_in_stock(world: VirtualFake) -> None:
    await out_of_stock(world, "m-0", "m-1", "m-2")


async def spot_storm(world: VirtualFake) -> None:
    failed = [machine.id for machine in world.fake.machines() if machine.state is S.FAILED]
    assert failed == ["spot-0", "spot-2"]
    assert (await world.client.get("spot-0")).last_error == "storm"


async def price_jump(world: VirtualFake) -> None:
    prices = {machine.id: machine.price_per_hour for machine in (await world.client.list()).machines}
    assert prices["spot-0"] == 9.5
    assert prices["m-0"] == 1.0


async def gone_while_bound(world: VirtualFake) -> None:
    machine = await world.client.get("bound-0")
    assert (S(machine.state), machine.cluster) == (S.FAILED, "prod")
    assert machine.last_error.startswith("removed:")
    assert machine.labels[REMOVED_LABEL]


async def gone_without_a_trace(world: VirtualFake) -> None:
    assert await code_of(world.client.get("bound-0")) is Code.NOT_FOUND
    assert await code_of(world.client.drain("bound-0")) is Code.NOT_FOUND
    shown = [machine.id for machine in (await world.client.list()).machines]
    assert "bound-0" not in shown
    assert "bound-1" in shown


async def restarted_with_state(world: VirtualFake) -> None:
    assert world.fake.starts == 2
    machine = await world.client.get("m-3")
    assert S(machine.state) is S.IDLE  # created before the restart, by the script or the control


async def restarted_without_state(world: VirtualFake) -> None:
    assert world.fake.starts == 2
    assert S((await world.client.get("m-3")).state) is S.SPECULATIVE


async def two_shards(world: VirtualFake) -> None:
    machine = await world.client.get("host-0")
    assert (S(machine.state), machine.cluster) == (S.CONFIGURED, "theirs")
    # Fences are per shard, so ours is let through, and finds what the other one did.
    ack = await world.client.configure("host-0", "ours", FencingToken("ours", 1, 1))
    assert ack.machine.cluster == "theirs"
    assert await code_of(world.client.create("host-0", FencingToken("ours", 1, 2))) is Code.INTERNAL
    assert (
        await code_of(world.client.drain("host-0", FencingToken("theirs", 1, 1))) is Code.FAILED_PRECONDITION
    )


def step(**fields: object) -> str:
    return "@" + json.dumps({"at": "0", **fields})


QUICK = FakeOptions(timeouts=Timeouts(create=2.0))
CREATED: Verb = ("call", {"rpc": "Create", "id": "m-3"})

ROWS = [
    *(
        Row(f"refused {rpc.lower()}", (step(do="refuse", rpc=rpc),), (("refuse", {"rpc": rpc}),), check)
        for rpc, check in (
            ("Create", refused_create),
            ("Configure", refused_configure),
            ("Drain", refused_drain),
            ("Delete", refused_delete),
        )
    ),
    Row(
        "accepted and failed later",
        ("--fail", "create=1:boom", "--latency", "create=5s"),
        (
            ("latency", {"kind": "create", "spec": "5s"}),
            ("fail-next", {"id": "m-0", "kind": "create", "message": "boom"}),
        ),
        failed_later,
    ),
    Row("accepted and never finished", ("--lie", "stuck"), (("lie", {"name": "stuck"}),), never_finished),
    Row(
        "finished after the timeout",
        ("--create-timeout", "2s", step(do="fail-next", kind="create", how="late")),
        (("fail-next", {"kind": "create", "how": "late"}),),
        finished_too_late,
        QUICK,
    ),
    Row(
        "answer lost after acceptance",
        (step(do="lose-answer", rpc="Create"),),
        (("lose-answer", {"rpc": "Create"}),),
        answer_lost,
    ),
    Row(
        "call slower than the caller's deadline",
        ("--latency", "create-call=40s"),
        (("pause-rpc", {"rpc": "Create", "seconds": 40}),),
        slower_than_the_deadline,
    ),
    Row(
        "UNAVAILABLE bursts",
        (step(do="refuse", code="UNAVAILABLE", seconds=SHORT_S),),
        (("refuse", {"code": "UNAVAILABLE", "seconds": SHORT_S}),),
        unavailable_for_a_while,
    ),
    Row(
        "connection reset mid-answer",
        (step(do="reset-during", rpc="Create", times=1),),
        (("reset-during", {"rpc": "Create", "times": 1}),),
        connection_reset,
    ),
    Row(
        "list slower than a cycle",
        ("--latency", "list=15s"),
        (("latency", {"kind": "list", "spec": "15s"}),),
        slow_list,
    ),
    Row("list cut", ("--lie", "drop-list=0.5"), (("lie", {"name": "drop-list", "share": 0.5}),), list_cut),
    Row(
        "stock-out by type",
        ("--stockout", "m6i.large"),
        (("stockout", {"type": "m6i.large"}),),
        type_out_of_stock,
    ),
    Row(
        "stock-out by zone",
        ("--stockout", "*@zone-a"),
        (("stockout", {"zone": "zone-a"}),),
        zone_out_of_stock,
    ),
    Row("stock-out of all", ("--stockout", "*"), (("stockout", {}),), nothing_in_stock),
    Row(
        "spot loss storm of one zone",
        (step(do="fail", zone="zone-a", capacity_type="Spot", reason="storm"),),
        (("fail", {"zone": "zone-a", "capacity_type": "Spot", "reason": "storm"}),),
        spot_storm,
    ),
    Row(
        "price jump",
        (step(do="price", selector={"capacity_type": "Spot"}, price=9.5),),
        (("price", {"selector": {"capacity_type": "Spot"}, "price": 9.5}),),
        price_jump,
    ),
    Row(
        "machine disappears while bound",
        (step(do="remove", id="bound-0"),),
        (("remove", {"id": "bound-0"}),),
        gone_while_bound,
    ),
    Row(
        "machine disappears while bound, without a trace",
        (step(do="remove", id="bound-0", without_trace=True),),
        (("remove", {"id": "bound-0", "without_trace": True}),),
        gone_without_a_trace,
    ),
    Row(
        "provider restart with state",
        (step(do="call", **CREATED[1]), step(do="restart", at="1s")),
        (CREATED, ("restart", {})),
        restarted_with_state,
    ),
    Row(
        "provider restart without state",
        (step(do="call", **CREATED[1]), step(do="restart", at="1s", forget=True)),
        (CREATED, ("restart", {"forget": True})),
        restarted_without_state,
    ),
    Row(
        "two shards on one machine",
        (
            step(
                do="call",
                rpc="Configure",
                id="host-0",
                cluster="theirs",
                shard_id="theirs",
                epoch=1,
                sequence=1,
            ),
        ),
        (
            (
                "call",
                {
                    "rpc": "Configure",
                    "id": "host-0",
                    "cluster": "theirs",
                    "shard_id": "theirs",
                    "epoch": 1,
                    "sequence": 1,
                },
            ),
        ),
        two_shards,
    ),
]


@pytest.mark.rule("providers#fault-injection")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_reachable_by_flag(row: Row, tmp_path: Path) -> None:
    steps = [flag.removeprefix("@") for flag in row.flags if flag.startswith("@")]
    script = tmp_path / "script.yaml"
    script.write_text("".join(f"- {step}\n" for step in steps))  # JSON is YAML
    argv = [flag for flag in row.flags if not flag.startswith("@")] + ["--script", str(script)]
    settings = load(FakeProviderSettings, parse(flags_of(FakeProviderSettings), argv).texts, {}).settings

    async def scene() -> None:
        state = MemoryState()
        async with VirtualFake(POOLS, options_of(settings), state=state) as world:
            playing = asyncio.get_running_loop().create_task(
                play(read_script(script.read_bytes()), world.fake, world.process.clock)
            )
            await world.pass_time(2 if "restart" in row.name else 0.01)
            await playing
            await row.check(world)

    run_virtual(scene())


@pytest.mark.rule("providers#fault-injection")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_reachable_by_control(row: Row) -> None:
    async def scene() -> None:
        state = MemoryState()
        async with VirtualFake(POOLS, row.options, state=state) as world:
            for verb, body in row.control:
                await VERBS[verb](world.fake, body)
                await world.pass_time(0.01)
            await row.check(world)

    run_virtual(scene())


@pytest.mark.rule("providers#fault-injection")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_without_the_fault_the_same_check_fails(row: Row) -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            with pytest.raises(AssertionError):
                await row.check(world)

    run_virtual(scene())
