"""Each exit code of a hook leads to its documented outcome (`providers#hook-exit-codes`, `providers#hook-protocol`)."""

import asyncio
import json
from itertools import pairwise

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import EDGES, OperationKind
from bigfleet.provider.hook.core.exits import HookOutcome, describe_exit, outcome_of
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.processes import SpawnError
from bigfleet.testing.loop import run_virtual
from tests.support.scripted_hooks import HookReply
from tests.unit.provider.hook.harness import POWER_MANAGED, World, inventory

ALL = inventory(["m-1"], POWER_MANAGED)
KINDS = {kind: HookKind(kind.value) for kind in OperationKind}


async def called(world: World, kind: OperationKind) -> None:
    """Bring m-1 to where a kind begins, then call it."""
    if kind is not OperationKind.CREATE:
        await world.client.create("m-1")
        await world.settled("m-1")
    if kind is OperationKind.DRAIN:
        await world.configured("m-1")
    match kind:
        case OperationKind.CREATE:
            await world.client.create("m-1")
        case OperationKind.CONFIGURE:
            await world.client.configure("m-1", "prod", blob=b"join me")
        case OperationKind.DRAIN:
            await world.client.drain("m-1", grace_s=7)
        case OperationKind.DELETE:
            await world.client.delete("m-1")


@pytest.mark.rule("providers#hook-exit-codes")
@pytest.mark.parametrize(
    ("code", "told_error"),
    [
        (69, "stockout: out of racks"),
        (78, "{kind} failed: configuration error: out of racks"),
        (1, "{kind} failed: out of racks"),
        (2, "{kind} failed: out of racks"),
        (100, "{kind} failed: out of racks"),
        (127, "{kind} failed: out of racks"),
        (255, "{kind} failed: out of racks"),
    ],
)
@pytest.mark.parametrize("kind", list(OperationKind))
def test_a_final_exit_code_fails_the_machine_with_the_last_line_of_standard_error(
    kind: OperationKind, code: int, told_error: str
) -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.next(KINDS[kind], HookReply(code, errors=("trying", "out of racks", "")))
            await called(world, kind)
            machine = await world.settled("m-1")
            assert machine.state is S.FAILED
            assert machine.last_error == told_error.format(kind=kind)
            assert world.hooks.count(KINDS[kind]) == 1

    run_virtual(scenario())


@pytest.mark.parametrize("kind", list(OperationKind))
def test_exit_code_0_ends_the_operation_well(kind: OperationKind) -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            await called(world, kind)
            machine = await world.settled("m-1")
            assert (machine.state, machine.last_error) == (EDGES[kind].target, "")
            assert world.hooks.count(KINDS[kind]) == 1

    run_virtual(scenario())


@pytest.mark.rule("providers#hook-exit-codes")
@pytest.mark.parametrize("kind", list(OperationKind))
def test_exit_code_75_is_tried_again_after_1_2_and_4_seconds_with_the_same_operation(
    kind: OperationKind,
) -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.next(KINDS[kind], HookReply(75), HookReply(75), HookReply(75))
            times: list[float] = []
            world.hooks.on_call = lambda call: (
                times.append(world.seconds()) if call.kind is KINDS[kind] else None
            )
            await called(world, kind)
            assert (await world.settled("m-1")).state is EDGES[kind].target
            waits = [round(later - earlier, 3) for earlier, later in pairwise(times)]
            assert waits == [1, 2, 4]
            mine = [call.document for call in world.hooks.calls if call.kind is KINDS[kind]]
            assert [document["attempt"] for document in mine] == [1, 2, 3, 4]
            assert len({document["operation_id"] for document in mine}) == 1

    run_virtual(scenario())


def test_exit_code_75_without_end_fails_once_the_time_is_up() -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.always(HookKind.CREATE, HookReply(75, errors=("the switch is rebooting",)))
            await world.client.create("m-1")
            machine = await world.settled("m-1")
            assert machine.state is S.FAILED
            assert machine.last_error == "create failed: the switch is rebooting (gave up after 6 attempts)"
            assert world.seconds() < 60

    run_virtual(scenario())


def test_death_by_a_signal_is_tried_again_once_and_is_final_then() -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.always(HookKind.CREATE, HookReply(-11))
            await world.client.create("m-1")
            machine = await world.settled("m-1")
            assert machine.state is S.FAILED
            assert machine.last_error == "create failed: killed by SIGSEGV"
            assert world.hooks.count(HookKind.CREATE) == 2

    run_virtual(scenario())


def test_a_second_death_is_final_even_if_a_proper_answer_lay_between() -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.next(HookKind.CREATE, HookReply(-9), HookReply(75), HookReply(-9), HookReply(0))
            await world.client.create("m-1")
            assert (await world.settled("m-1")).last_error == "create failed: killed by SIGKILL"
            assert world.hooks.count(HookKind.CREATE) == 3

    run_virtual(scenario())


def test_a_hook_that_cannot_be_started_fails_the_machine_with_its_path() -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.always(HookKind.CREATE, SpawnError("/etc/bf/create: Exec format error"))
            await world.client.create("m-1")
            machine = await world.settled("m-1")
            assert machine.last_error == "create failed: /etc/bf/create: Exec format error"

    run_virtual(scenario())


def test_a_hook_that_takes_too_long_is_ended_and_the_machine_fails() -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.always(HookKind.CREATE, HookReply(takes_s=1000))
            await world.client.create("m-1")
            machine = await world.settled("m-1")
            assert machine.last_error == "create timed out after 60 s"
            await world.clock.sleep(1)
            assert [call.kind for call in world.hooks.ended] == [HookKind.CREATE]

    run_virtual(scenario())


@pytest.mark.rule("providers#hook-exit-codes")
@pytest.mark.parametrize("kind", list(HookKind))
@pytest.mark.parametrize("code", [0, 1, 69, 75, 78, 100, 255, -15])
def test_the_table_of_exit_codes(kind: HookKind, code: int) -> None:
    waiting = kind in (HookKind.READY, HookKind.PROBE)
    expected = {
        0: HookOutcome.DONE,
        69: HookOutcome.STOCK_OUT,
        75: HookOutcome.AGAIN,
        78: HookOutcome.MISCONFIGURED,
        100: HookOutcome.NOT_YET if waiting else HookOutcome.FAILED,
        -15: HookOutcome.KILLED,
    }
    assert outcome_of(kind, code) is expected.get(code, HookOutcome.FAILED)


def test_the_exit_of_a_silent_hook_is_described_in_words() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-15) == "killed by SIGTERM"
    assert describe_exit(-250) == "killed by signal 250"


def test_hooks_of_one_machine_never_overlap_and_no_more_run_at_once_than_allowed() -> None:
    async def scenario() -> None:
        machines = [f"m-{number}" for number in range(12)]
        async with World(inventory(machines, POWER_MANAGED), parallel=3) as world:
            world.hooks.always(HookKind.CREATE, HookReply(takes_s=5))
            await asyncio.gather(*(world.client.create(machine_id) for machine_id in machines))
            for machine_id in machines:
                assert (await world.settled(machine_id)).state is S.IDLE
            assert world.hooks.most_at_once == 3
            assert world.seconds() >= 20

    run_virtual(scenario())


def test_what_a_hook_says_is_logged_line_by_line() -> None:
    async def scenario() -> None:
        async with World(ALL) as world:
            world.hooks.next(
                HookKind.CREATE, HookReply(0, '{"message": "rack 12"}', ("powering on", "waiting"))
            )
            await world.client.create("m-1")
            await world.settled("m-1")
            lines = [json.loads(line) for line in world.log_text.splitlines()]
            said = [line["line"] for line in lines if line["event"] == "hook_said"]
            assert said == ["powering on", "waiting"]
            assert [line["message"] for line in lines if line["event"] == "hook_message"] == ["rack 12"]

    run_virtual(scenario())
