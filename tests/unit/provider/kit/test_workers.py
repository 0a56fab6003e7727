"""Backends that raise, hang, answer late or wrongly (`providers#kit`, `providers#workers`), readiness (ADR-0056), restarts."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from bigfleet.aio.backoff import BackoffPolicy
from bigfleet.aio.clock import NANOSECONDS
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import EDGES, OperationKind
from bigfleet.provider.kit.backend import NotOffered, Op, Permanent, StockOut, Transient
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord
from bigfleet.provider.kit.limits import Limits, Timeouts
from bigfleet.providerkit.scripted import ReadyBackend, ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual
from tests.support.builders import shape

MakeSlots = Callable[..., list[DescribedMachine]]
STEADY = BackoffPolicy(first_s=1.0, ceiling_s=30.0, jitter=0.0)
LIMITS = Limits(create=60, configure=60, drain=60, delete=60, retry=STEADY, refresh=0)


async def walk_to(provider: VirtualProvider, kind: OperationKind) -> None:
    """Bring m-0 to where a kind begins, then call it."""
    client = provider.client
    if kind is not OperationKind.CREATE:
        await client.create("m-0")
        await provider.settled("m-0")
    if kind is OperationKind.DRAIN:
        await client.configure("m-0", "c", metadata={"k": "v"})
        await provider.settled("m-0")
    match kind:
        case OperationKind.CREATE:
            await client.create("m-0")
        case OperationKind.CONFIGURE:
            await client.configure("m-0", "c", blob=b"secret blob", metadata={"k": "v"})
        case OperationKind.DRAIN:
            await client.drain("m-0", grace_s=5)
        case OperationKind.DELETE:
            await client.delete("m-0")


@pytest.mark.rule("providers#workers")
@pytest.mark.parametrize("kind", list(OperationKind))
@pytest.mark.parametrize(
    ("problem", "reported"),
    [
        (StockOut("no a100 left"), "stockout: no a100 left"),
        (Permanent("wrong image"), "{kind} failed: wrong image"),
        (NotOffered("bare metal"), "not offered: bare metal"),
        (ValueError("two\nlines"), "{kind} failed: ValueError: two lines"),
        (KeyError(), "{kind} failed: KeyError:"),
        (asyncio.CancelledError(), "{kind} was cancelled by the backend"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, BaseException) else "",
)
def test_a_backend_that_raises_fails_the_machine_with_one_line(
    slots: MakeSlots, kind: OperationKind, problem: BaseException, reported: str
) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())

        async def raises(_machine: MachineRecord, _op: Op) -> CreatedHost:
            raise problem

        backend.next(kind, raises)
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            await walk_to(provider, kind)
            (machine,) = await provider.settled("m-0")
            assert machine.state is S.FAILED
            assert machine.last_error == reported.format(kind=kind)
            assert machine.cluster == ("c" if kind in (OperationKind.CONFIGURE, OperationKind.DRAIN) else "")
            await provider.pass_time(1)
            assert provider.kit.tasks == 0

    run_virtual(run())


@pytest.mark.rule("providers#workers")
@pytest.mark.parametrize("kind", list(OperationKind))
def test_a_backend_that_hangs_is_cancelled_at_the_timeout(slots: MakeSlots, kind: OperationKind) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        cancelled: list[str] = []

        async def hang(machine: MachineRecord, _op: Op) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                cancelled.append(machine.id)

        backend.next(kind, hang)
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            await walk_to(provider, kind)
            timeout_s = 65 if kind is OperationKind.DRAIN else 60  # a drain has its grace on top
            await provider.pass_time(timeout_s - 0.5)
            assert provider.machine("m-0").state is EDGES[kind].during
            await provider.pass_time(1)
            machine = provider.machine("m-0")
            assert (machine.state, machine.last_error) == (S.FAILED, f"{kind} timed out after {timeout_s} s")
            assert cancelled == ["m-0"]
            assert provider.kit.tasks == 0

    run_virtual(run())


@pytest.mark.rule("providers#workers")
def test_a_result_after_the_timeout_is_thrown_away(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, limits=LIMITS) as provider:

            async def slow_and_stubborn(_machine: MachineRecord, _op: Op) -> CreatedHost:
                for _ in range(2):  # the second time undisturbed
                    try:
                        await provider.process.clock.sleep(61)
                    except asyncio.CancelledError:
                        continue
                return CreatedHost("too late")

            backend.next(OperationKind.CREATE, slow_and_stubborn)
            await walk_to(provider, OperationKind.CREATE)
            await provider.pass_time(61)
            assert provider.machine("m-0").state is S.FAILED
            revision = provider.kit.state.head
            await provider.pass_time(300)
            machine = provider.machine("m-0")
            assert (machine.state, machine.host, provider.kit.state.head) == (S.FAILED, "", revision)
            assert provider.kit.tasks == 0
            assert '"late_result_discarded"' in provider.log_text

    run_virtual(run())


@pytest.mark.rule("providers#workers")
@pytest.mark.parametrize("given", [None, CreatedHost(""), CreatedHost("h", resources={"cpu": "lots"})])
def test_a_create_without_a_usable_host_fails(slots: MakeSlots, given: CreatedHost | None) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())

        async def create(_machine: MachineRecord, _op: Op) -> CreatedHost | None:
            return given

        backend.next(OperationKind.CREATE, create)
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            await walk_to(provider, OperationKind.CREATE)
            (machine,) = await provider.settled("m-0")
            assert (machine.state, machine.host) == (S.FAILED, "")
            assert machine.last_error.startswith("create failed: ")

    run_virtual(run())


def test_a_transient_failure_is_repeated_with_growing_waits_under_one_operation_id(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            clock = provider.process.clock
            tried: list[float] = []

            async def flaky(_machine: MachineRecord, op: Op) -> CreatedHost:
                tried.append(clock.monotonic_ns() / NANOSECONDS)
                assert op.deadline > datetime.fromtimestamp(clock.wall_ns() / NANOSECONDS, UTC)
                if op.attempt < 4:
                    raise Transient("busy")
                return CreatedHost("h")

            backend.always(OperationKind.CREATE, flaky)
            await walk_to(provider, OperationKind.CREATE)
            await provider.settled("m-0")
            assert tried == [0, 1, 3, 7]
            assert [call.attempt for call in backend.calls] == [1, 2, 3, 4]
            assert len({call.operation_id for call in backend.calls}) == 1
            assert provider.machine("m-0").state is S.IDLE

    run_virtual(run())


def test_transient_failures_end_at_the_timeout_with_the_reason(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())

        async def busy(_machine: MachineRecord, _op: Op) -> CreatedHost:
            raise Transient("rate limited")

        backend.always(OperationKind.CREATE, busy)
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            await walk_to(provider, OperationKind.CREATE)
            (machine,) = await provider.settled("m-0")
            assert machine.last_error == "create failed: rate limited (gave up after 6 attempts)"
            assert provider.process.clock.monotonic_ns() < 60 * NANOSECONDS

    run_virtual(run())


def test_author_code_runs_in_a_bounded_pool_and_the_timeout_begins_with_the_turn(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots(10))
        limits = Limits(workers=2, create=60, refresh=0)
        async with VirtualProvider(backend, limits=limits) as provider:
            running, most = 0, 0

            async def slow(machine: MachineRecord, _op: Op) -> CreatedHost:
                nonlocal running, most
                running += 1
                most = max(most, running)
                await provider.process.clock.sleep(50)
                running -= 1
                return CreatedHost(f"h-{machine.id}")

            backend.always(OperationKind.CREATE, slow)
            ids = [f"m-{number}" for number in range(10)]
            for machine_id in ids:
                await provider.client.create(machine_id)
            machines = await provider.settled(*ids)
            assert {machine.state for machine in machines} == {S.IDLE}
            assert most == 2
            assert provider.process.clock.monotonic_ns() >= 250 * NANOSECONDS

    run_virtual(run())


def test_a_timeout_can_be_set_per_instance_type() -> None:
    async def run() -> None:
        backend = ScriptedBackend([DescribedMachine("m-0", shape("slow-metal"))])
        limits = Limits(create=60, by_instance_type={"slow-metal": Timeouts(create=600)}, refresh=0)
        async with VirtualProvider(backend, limits=limits) as provider:

            async def slow(_machine: MachineRecord, _op: Op) -> CreatedHost:
                await provider.process.clock.sleep(500)
                return CreatedHost("h")

            backend.always(OperationKind.CREATE, slow)
            await provider.client.create("m-0")
            assert (await provider.settled("m-0"))[0].state is S.IDLE

    run_virtual(run())


def test_configured_waits_until_the_node_is_ready(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ReadyBackend(slots())
        async with VirtualProvider(backend, limits=LIMITS) as provider:
            await walk_to(provider, OperationKind.CONFIGURE)
            await provider.pass_time(22)
            assert provider.machine("m-0").state is S.CONFIGURING
            assert len(backend.asked) == 5  # every five seconds
            backend.ready.add("m-0")
            await provider.pass_time(5)
            assert provider.machine("m-0").state is S.CONFIGURED
            assert "readiness_not_checked" not in provider.log_text

    run_virtual(run())


def test_a_node_that_never_gets_ready_fails_the_machine_at_the_configure_timeout(slots: MakeSlots) -> None:
    async def run() -> None:
        async with VirtualProvider(ReadyBackend(slots()), limits=LIMITS) as provider:
            await walk_to(provider, OperationKind.CONFIGURE)
            await provider.pass_time(59)
            assert provider.machine("m-0").state is S.CONFIGURING
            await provider.pass_time(2)
            machine = provider.machine("m-0")
            assert (machine.state, machine.cluster) == (S.FAILED, "c")
            assert machine.last_error == "configure timed out after 60 s"

    run_virtual(run())


def test_a_backend_without_readiness_is_warned_about_once(slots: MakeSlots) -> None:
    async def run() -> None:
        async with VirtualProvider(ScriptedBackend(slots()), limits=LIMITS) as provider:
            await walk_to(provider, OperationKind.CONFIGURE)
            await provider.settled("m-0")
            lines = [json.loads(line) for line in provider.log_text.splitlines()]
            assert [line["level"] for line in lines if line["event"] == "readiness_not_checked"] == [
                "warning"
            ]

    run_virtual(run())


async def hang(_machine: MachineRecord, _op: Op) -> None:
    await asyncio.get_running_loop().create_future()


def test_operation_ids_survive_a_restart_and_are_not_used_again(slots: MakeSlots) -> None:
    async def run() -> None:
        async with VirtualProvider(ScriptedBackend(slots()), limits=LIMITS) as provider:
            first = (await provider.client.create("m-0")).operation_id
            await provider.settled("m-0")
            await provider.restart()
            client = provider.another_client()
            assert (await client.create("m-0")).operation_id == first
            assert (await client.create("m-1")).operation_id != first

    run_virtual(run())


@pytest.mark.rule("providers#workers")
def test_a_stop_cancels_the_work_and_leaves_nothing_behind(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        backend.next(OperationKind.CREATE, hang)
        provider = VirtualProvider(backend, limits=LIMITS)
        async with provider:
            await provider.client.create("m-0")
        names = [task.get_name() for task in asyncio.all_tasks() if "create" in task.get_name()]
        assert names == []

    run_virtual(run())
