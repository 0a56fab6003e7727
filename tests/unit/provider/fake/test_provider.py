"""The fake as a provider: waits, holds, drains, losses, cursors, restarts, and one seed is one run (`providers#fake`)."""

import asyncio
import json

import pytest

from bigfleet.aio.net import Code
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.errors import OutOfPositionError
from bigfleet.provider.fake.injected_faults import FailureMode
from bigfleet.provider.fake.machine_losses import LOST
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.fake.specs import parse_failures, parse_latencies
from bigfleet.provider.fake.state import JournalState
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.kit import NotStartedError
from bigfleet.provider.kit.refresh import InvalidInventoryError
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process
from tests.support.fake_provider import MemoryState, VirtualFake, bound, code_of, pool, spot

POOLS = (pool("m", 6), pool("host", 4, state=S.IDLE), bound("bound", 4))


def test_a_machine_walks_the_whole_way_in_the_time_that_the_flags_say() -> None:
    async def scene() -> None:
        waits = ["create=10s", "configure=5s", "ready=7s", "drain=3s", "delete=2s"]
        async with VirtualFake(POOLS, FakeOptions(latencies=parse_latencies(waits))) as world:
            times = {}

            async def timed(name: str, due: S) -> None:
                begin_ns = world.process.clock.monotonic_ns()
                assert await world.settled("m-0") is due
                times[name] = round((world.process.clock.monotonic_ns() - begin_ns) / 10**9)

            await world.client.create("m-0")
            await timed("create", S.IDLE)
            await world.client.configure("m-0", "prod")
            await timed("configure", S.CONFIGURED)
            await world.client.drain("m-0")
            await timed("drain", S.IDLE)
            await world.client.delete("m-0")
            await timed("delete", S.SPECULATIVE)
            assert times == {"create": 10, "configure": 12, "drain": 3, "delete": 2}

    run_virtual(scene())


def test_a_time_scale_divides_all_waits() -> None:
    async def scene() -> None:
        options = FakeOptions(latencies=parse_latencies(["create=10m"]), time_scale=60)
        async with VirtualFake(POOLS, options) as world:
            await world.client.create("m-0")
            await world.pass_time(9.9)
            assert world.machine("m-0").state is S.CREATING
            await world.pass_time(0.2)
            assert world.machine("m-0").state is S.IDLE

    run_virtual(scene())


def test_a_synchronous_fake_answers_with_the_end() -> None:
    async def scene() -> None:
        options = FakeOptions(sync=True, latencies=parse_latencies(["create=2s"]))
        async with VirtualFake(POOLS, options) as world:
            assert S((await world.client.create("m-0")).machine.state) is S.IDLE

    run_virtual(scene())


def test_without_delete_it_behaves_like_bare_metal() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, FakeOptions(offer_delete=False)) as world:
            assert await code_of(world.client.delete("host-0")) is Code.UNIMPLEMENTED

    run_virtual(scene())


def test_a_held_kind_is_blocked_until_it_is_released() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            world.fake.hold(kind="ready")
            await world.client.configure("host-0", "prod")
            await world.client.configure("host-1", "prod")
            await world.pass_time(100)
            assert world.machine("host-0").state is S.CONFIGURING
            assert world.fake.release(kind="ready") == 1
            assert await world.settled("host-0") is S.CONFIGURED
            assert await world.settled("host-1") is S.CONFIGURED

    run_virtual(scene())


def test_a_held_machine_is_blocked_while_others_go_on() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            world.fake.hold("m-0")
            await world.client.create("m-0")
            await world.client.create("m-1")
            assert await world.settled("m-1") is S.IDLE
            await world.pass_time(60)
            assert world.machine("m-0").state is S.CREATING
            world.fake.release("m-0")
            assert await world.settled("m-0") is S.IDLE

    run_virtual(scene())


def test_a_hold_that_is_never_released_ends_at_the_timeout() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            world.fake.hold(kind="create")
            await world.client.create("m-0")
            await world.pass_time(301)
            assert world.machine("m-0").state is S.FAILED
            assert "timed out" in world.machine("m-0").last_error

    run_virtual(scene())


@pytest.mark.parametrize(
    ("how", "state", "error"),
    [
        (FailureMode.FAIL, S.FAILED, "create failed: boom"),
        (FailureMode.STOCKOUT, S.FAILED, "stockout: boom"),
        (FailureMode.HANG, S.FAILED, "create timed out after 300 s"),
        (FailureMode.TRANSIENT, S.IDLE, ""),
    ],
)
def test_the_next_operation_can_go_wrong_in_each_way(how: FailureMode, state: S, error: str) -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            world.fake.fail_next("m-0", "create", message="boom", how=how)
            await world.client.create("m-0")
            assert await world.settled("m-0") is state
            assert world.machine("m-0").last_error == error
            await world.client.create("m-1")
            assert await world.settled("m-1") is S.IDLE

    run_virtual(scene())


def test_failures_come_as_often_as_the_share_says() -> None:
    async def scene() -> None:
        options = FakeOptions(failures=parse_failures(["create=0.3:no luck"]), sync=True)
        async with VirtualFake((pool("m", 300),), options) as world:
            for number in range(300):
                await world.client.create(f"m-{number}")
            failed = len(world.fake.machines(Selector(states=(S.FAILED,))))
            assert 60 < failed < 120

    run_virtual(scene())


def test_losses_take_configured_machines_at_the_rate_of_the_flag() -> None:
    async def scene() -> None:
        options = FakeOptions(loss_per_hour=0.5)
        async with VirtualFake((bound("bound", 400), pool("host", 50, state=S.IDLE)), options) as world:
            await world.pass_time(3600)
            lost = world.fake.machines(Selector(states=(S.FAILED,)))
            assert 110 < len(lost) < 200  # 400 (1 - exp(-0.5)) = 157
            assert {machine.last_error for machine in lost} == {LOST}
            assert all(machine.cluster == "prod" for machine in lost)

    run_virtual(scene())


def test_declared_losses_take_each_machine_at_its_own_rate() -> None:
    async def scene() -> None:
        risky = spot("risky", 300, state=S.CONFIGURED, cluster="prod", interruption_probability=0.8)
        safe = bound("safe", 300)
        async with VirtualFake((risky, safe), FakeOptions(use_declared_loss=True)) as world:
            await world.pass_time(3600)
            lost = [machine.id for machine in world.fake.machines(Selector(states=(S.FAILED,)))]
            assert all(machine_id.startswith("risky") for machine_id in lost)
            assert 120 < len(lost) < 210  # 300 (1 - exp(-0.8)) = 165

    run_virtual(scene())


def test_without_cursors_every_listing_is_a_full_one() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, FakeOptions(cursor="none")) as world:
            first = await world.client.list()
            assert first.revision == b""
            assert len((await world.client.list(since=b"3")).machines) == len(first.machines)

    run_virtual(scene())


def test_a_stale_cursor_repeats_old_news_and_misses_nothing() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, FakeOptions(cursor="stale", sync=True)) as world:
            cursor = (await world.client.list()).revision
            seen = []
            for number in range(4):
                await world.client.create(f"m-{number}")
                delta = await world.client.list(since=cursor)
                seen.append(sorted(machine.id for machine in delta.machines))
                cursor = delta.revision
            assert all(f"m-{number}" in delta for number, delta in enumerate(seen))
            assert "m-1" in seen[2]  # shown twice

    run_virtual(scene())


def test_a_restart_keeps_what_the_state_kept_and_resumes_what_was_under_way() -> None:
    async def scene() -> None:
        process = virtual_process("fake")
        state = JournalState("/state", disk=process.disk, clock=process.clock, rng=process.rng)
        options = FakeOptions(latencies=parse_latencies(["create=10s"]))
        async with VirtualFake(POOLS, options, process=process, state=state) as world:
            await world.client.create("m-0")
            await world.settled("m-0")
            ack = await world.client.configure("m-0", "prod", metadata={"a": "b"})
            await world.settled("m-0")
            await world.fake.price(Selector(id="m-1"), price=7.5)
            await world.fake.add([pool("more", 1)])
            await world.client.create("m-2")
            await world.fake.restart()
            machine = await world.client.get("m-0")
            assert (S(machine.state), machine.cluster) == (S.CONFIGURED, "prod")
            assert dict(machine.shard_metadata) == {"a": "b"}
            assert (await world.client.configure("m-0", "prod")).operation_id == ack.operation_id
            assert (await world.client.get("m-1")).price_per_hour == 7.5
            assert await code_of(world.client.get("more-0")) is Code.OK
            assert S((await world.client.get("m-2")).state) is S.CREATING
            await world.settled("m-2")
            assert S((await world.client.get("m-2")).state) is S.IDLE
            await world.fake.restart(forget=True)
            assert {machine.state for machine in world.fake.machines(Selector(prefix="m-"))} == {
                S.SPECULATIVE
            }
            assert await code_of(world.client.get("more-0")) is Code.NOT_FOUND

    run_virtual(scene())


def test_a_reset_starts_again_without_the_faults_that_came_later() -> None:
    async def scene() -> None:
        options = FakeOptions(lies={"nan-price": 1.0}, latencies=parse_latencies(["create=1s"]))
        async with VirtualFake(POOLS, options, state=MemoryState()) as world:
            world.fake.honest()
            world.fake.lie("empty-list")
            world.fake.hold(kind="create")
            world.fake.refuse("Get")
            world.fake.latency("create", "1h")
            await world.client.create("m-0")
            await world.fake.reset()
            stats = world.fake.stats()
            assert stats["lies"] == {"nan-price": 1.0}
            assert (stats["holds"], stats["disturbances"]) == ([], [])
            assert stats["latencies"] == {"create": "1s"}
            assert world.machine("m-0").state is S.SPECULATIVE
            await world.client.create("m-0")
            assert await world.settled("m-0") is S.IDLE

    run_virtual(scene())


def test_machines_can_be_added_shed_removed_and_repaired() -> None:
    async def scene() -> None:
        async with VirtualFake((pool("m", 10), pool("host", 2, state=S.IDLE))) as world:
            before = (await world.client.list()).revision
            assert await world.fake.add([pool("new", 2), pool("m", 10)]) == 2
            delta = await world.client.list(since=before)
            assert sorted(machine.id for machine in delta.machines) == ["new-0", "new-1"]
            assert await world.fake.shed(0.5) == 6
            assert world.fake.stats()["machines"] == {
                **dict.fromkeys((state.label for state in S if state), 0),
                "Speculative": 6,
                "Idle": 2,
                "Failed": 6,
            }
            assert await world.fake.fail(Selector(id="host-0")) == ["host-0"]
            with pytest.raises(OutOfPositionError):
                await world.fake.repair("host-1", S.IDLE)
            await world.fake.repair("host-0", S.IDLE)
            assert world.machine("host-0").state is S.IDLE
            assert await world.fake.remove("host-1")
            await world.pass_time(25 * 3600)
            assert world.fake.kit.machine("host-1") is None  # the tombstone's time is over

    run_virtual(scene())


def test_an_unsound_inventory_does_not_start() -> None:
    async def scene() -> None:
        with pytest.raises(InvalidInventoryError, match="interruption_probability"):
            async with VirtualFake((spot("s", interruption_probability=0.0),)):
                pass

    run_virtual(scene())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda fake: fake.hold(),
        lambda fake: fake.hold(kind="reboot"),
        lambda fake: fake.fail_next(kind="reboot"),
        lambda fake: fake.fail_next(times=0),
        lambda fake: fake.latency("reboot", "2s"),
        lambda fake: fake.latency("create", "soon"),
        lambda fake: fake.lie("white"),
        lambda fake: fake.honest("white"),
        lambda fake: fake.refuse("Reboot"),
        lambda fake: fake.pause_rpc("Reboot", 1),
    ],
)
def test_a_verb_with_a_wrong_argument_changes_nothing(wrong: object) -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            before = world.fake.stats()
            assert callable(wrong)
            with pytest.raises(InvalidFieldError):
                wrong(world.fake)
            assert world.fake.stats() == before

    run_virtual(scene())


def test_calls_are_recorded_with_their_tokens_and_without_their_blobs() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            await world.fake.call("Create", "m-0")
            await world.client.configure("host-0", "prod", blob=b"top-secret", metadata={"secret": "map"})
            await code_of(world.client.get("nobody"))
            calls = world.fake.calls()
            assert [(call.rpc, call.machine_id, call.code) for call in calls] == [
                ("Create", "m-0", "OK"),
                ("Configure", "host-0", "OK"),
                ("Get", "nobody", "NOT_FOUND"),
            ]
            assert calls[1].arguments == "cluster=prod blob=10B metadata=1"
            assert world.fake.calls(rpc="Get", last=1) == calls[2:]
            assert "top-secret" not in world.fake.log() + str([call.as_dict() for call in calls])

    run_virtual(scene())


def test_long_texts_of_callers_are_kept_by_their_beginning_only() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            long = "x" * 100_000
            assert await code_of(world.client.create(long, FencingToken(long, 1, 1))) is Code.INVALID_ARGUMENT
            assert await code_of(world.client.configure("host-0", long)) is Code.INVALID_ARGUMENT
            assert await code_of(world.client.get(long)) is not Code.OK
            assert len(str(world.fake.calls())) < 5_000
            assert len(world.fake.log()) < 5_000
            assert world.fake.calls()[0].machine_id == f"{'x' * 256}… (100000 characters)"

    run_virtual(scene())


def test_before_its_start_and_after_its_end_nothing_can_be_asked() -> None:
    async def scene() -> None:
        world = VirtualFake(POOLS)
        with pytest.raises(NotStartedError):
            world.fake.stats()
        async with world:
            assert world.fake.started
        with pytest.raises(NotStartedError):
            world.fake.machines()
        await world.fake.stop()

    run_virtual(scene())


async def eventful(seed: int) -> str:
    """A busy hour: calls of several callers, losses, failures, lies, a restart; returns the event log."""
    waits = [
        "create=lognormal:20s,p99=3m",
        "configure=uniform:1s-9s",
        "ready=uniform:1s-30s",
        "list=uniform:0-2s",
    ]
    options = FakeOptions(
        seed=seed,
        latencies=parse_latencies(waits),
        failures=parse_failures(["create=0.1", "ready=0.1:node never came"]),
        loss_per_hour=2.0,
        lies={"drop-list": 0.2},
    )
    async with VirtualFake((pool("m", 10), spot("s", 5)), options, state=MemoryState()) as world:

        async def walk(machine_id: str) -> None:
            for call in (
                world.client.create(machine_id),
                world.client.configure(machine_id, "prod", blob=b"x"),
                world.client.drain(machine_id, grace_s=3),
            ):
                await code_of(call)
                await code_of(world.client.list())
                await world.pass_time(200)

        ids = [f"m-{number}" for number in range(10)] + [f"s-{number}" for number in range(5)]
        await asyncio.gather(*map(walk, ids))
        await world.fake.shed(0.3)
        await world.fake.restart()
        world.fake.refuse(probability=0.5, seconds=60)
        await asyncio.gather(*map(walk, ids))
        await world.pass_time(3600)
        return world.fake.log()


@pytest.mark.rule("providers#fake-determinism")
def test_one_seed_on_the_virtual_clock_gives_the_same_event_log_byte_for_byte() -> None:
    first, second = run_virtual(eventful(7)), run_virtual(eventful(7))
    assert first.encode() == second.encode()
    kinds = {json.loads(line)["event"] for line in first.splitlines()}
    assert {"call", "transition", "injected", "verb", "provider_started"} <= kinds
    assert len(first.splitlines()) > 200


def test_another_seed_gives_another_log() -> None:
    assert run_virtual(eventful(7)) != run_virtual(eventful(8))


def test_one_offering_runs_out_of_stock_and_comes_back_while_others_are_to_be_had() -> None:
    async def scene() -> None:
        pools = (pool("od", 3), spot("spot", 3))
        async with VirtualFake(pools) as world:
            instance_type, zone = world.machine("spot-0").instance_type, world.machine("spot-0").zone
            world.fake.stockout(instance_type, zone, capacity_type="Spot")
            for machine_id in ("spot-0", "od-0"):
                await world.client.create(machine_id)
                await world.settled(machine_id)
            assert world.machine("spot-0").last_error == f"stockout: no Spot {instance_type} in {zone}"
            assert world.machine("od-0").state is S.IDLE
            world.fake.stockout(instance_type, zone, capacity_type="OnDemand", over=True)  # another offering
            assert world.fake.stats()["stockouts"] == [[instance_type, zone, "Spot", 0.0, None]]
            world.fake.stockout(instance_type, zone, capacity_type="Spot", over=True)
            await world.client.create("spot-1")
            assert await world.settled("spot-1") is S.IDLE
            assert world.fake.stats()["rpcs"]["Create"] == 3  # type: ignore[index]  # a mapping, as others are not
            with pytest.raises(InvalidFieldError, match="capacity_type: found 'cheap', allowed is one of"):
                world.fake.stockout(capacity_type="cheap")

    run_virtual(scene())
