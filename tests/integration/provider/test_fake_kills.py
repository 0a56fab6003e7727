"""Kill -9 at random points under load: nothing that was acknowledged is lost (ADR-0058; `providers#durable-state` as a
process)."""

import asyncio
import json
import random
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from bigfleet.aio.net import Code, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import EDGES, OperationKind
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.integration.provider.programs import (
    CALLERS,
    GONE,
    MACHINES,
    ProviderProgram,
    start,
    until,
)

pytestmark = pytest.mark.integration


NEXT = {
    S.SPECULATIVE: OperationKind.CREATE,
    S.IDLE: OperationKind.CONFIGURE,
    S.CONFIGURED: OperationKind.DRAIN,
}


@dataclass
class Memory:
    """What callers know of one machine: what was acknowledged, and what was asked for without an answer."""

    acked: OperationKind | None = None
    operation: str = ""
    token: FencingToken = field(default_factory=FencingToken)
    asked: OperationKind | None = None
    cluster: str = ""


async def work(
    client: RawProviderClient,
    ids: list[str],
    known: dict[str, Memory],
    sequence: list[int],
    operations: set[str],
) -> None:
    """Walk machines round and round until the provider is gone."""
    while True:
        for machine_id in ids:
            try:
                state = S((await client.get(machine_id)).state)
                kind = NEXT.get(state)
                if kind is None:
                    continue
                memory = known[machine_id]
                sequence[0] += 1
                token = FencingToken("load", 1, sequence[0])
                memory.asked = kind
                if kind is OperationKind.CREATE:
                    ack = await client.create(machine_id, token)
                elif kind is OperationKind.CONFIGURE:
                    memory.cluster = f"c-{sequence[0]}"
                    ack = await client.configure(
                        machine_id, memory.cluster, token, metadata={"n": str(sequence[0])}
                    )
                else:
                    ack = await client.drain(machine_id, token)
            except RpcError as error:
                if error.code not in GONE:
                    raise
                return
            memory.asked, memory.acked, memory.operation, memory.token = None, kind, ack.operation_id, token
            assert ack.operation_id not in operations, "two transitions share an operation id"
            operations.add(ack.operation_id)


def allowed(memory: Memory) -> set[S]:
    found = set[S]()
    for kind in (memory.acked, memory.asked):
        if kind is not None:
            found.add(EDGES[kind].target)
    if memory.acked is None:
        found.add(S.SPECULATIVE)
    return found


def differing(before: pb.MachineList, after: pb.MachineList) -> set[str]:
    states = {machine.id: machine.state for machine in before.machines}
    return {machine.id for machine in after.machines if states[machine.id] != machine.state}


@dataclass
class Toll:
    """What a run of kills did, for the evidence."""

    kills: int = 0
    calls: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    resumed: int = 0
    """Operations that a kill interrupted and the next process resumed."""


async def kill_rounds(rounds: int, seed: int, pools: str, state: str) -> Toll:
    lots = random.Random(seed)
    known = {f"m-{number}": Memory() for number in range(MACHINES)}
    sequence, operations = [0], set[str]()
    waits = [
        *("--latency", "create=uniform:0-30ms", "--latency", "configure=uniform:0-30ms"),
        *("--latency", "ready=uniform:0-30ms", "--latency", "drain=uniform:0-30ms"),
    ]
    flags = ("--inventory", pools, "--state", state, "--control-addr", "127.0.0.1:0", *waits)
    toll = Toll()
    program = await start("bigfleet-fake-provider", *flags)
    try:
        for number in range(rounds):
            before = await program.client.list()
            ids = list(known)
            shares = [ids[place::CALLERS] for place in range(CALLERS)]
            working = [
                asyncio.ensure_future(work(program.client, share, known, sequence, operations))
                for share in shares
            ]
            called = sequence[0]
            moment = lots.randint(40, 400)  # a random call, not a random time: load varies with the host
            while sequence[0] < called + moment:
                done = [task for task in working if task.done()]
                assert not done, [task.exception() for task in done]
                await asyncio.sleep(0.002)
            assert await program.end(signal.SIGKILL) == -signal.SIGKILL
            await asyncio.gather(*working)
            toll.kills += 1
            toll.unanswered += sum(memory.asked is not None for memory in known.values())
            program = await start("bigfleet-fake-provider", *flags)
            await check_after_kill(program, known, before, f"round {number}")
            toll.resumed += len(program.lines("operation_resumed"))
            await remember(program, known)
    finally:
        await program.end(signal.SIGKILL)
    toll.calls, toll.acknowledged = sequence[0], len(operations)
    return toll


async def check_after_kill(
    program: ProviderProgram, known: dict[str, Memory], before: pb.MachineList, where: str
) -> None:
    client = program.client

    async def settled() -> bool:
        return not (await client.list([edge.during for edge in EDGES.values()])).machines

    await until(settled)  # what was interrupted is resumed
    after = await client.list()
    assert sorted(machine.id for machine in after.machines) == sorted(known), where  # none lost, none twice
    hosts = [machine.host.ref for machine in after.machines if machine.HasField("host")]
    assert len(set(hosts)) == len(hosts), where
    delta = await client.list(since=before.revision)
    assert differing(before, after) <= {machine.id for machine in delta.machines}, where
    assert not (await client.list(since=after.revision)).machines, where
    for machine in after.machines:
        memory, state = known[machine.id], S(machine.state)
        assert state in allowed(memory), (where, machine.id, state, memory)
        if state is S.CONFIGURED:
            assert machine.cluster == memory.cluster, (where, machine.id)
            assert machine.shard_metadata["n"] == memory.cluster.removeprefix("c-"), (where, machine.id)
        if memory.acked is None:
            continue
        # A token that was accepted before the kill is stale after it.
        with pytest.raises(RpcError) as refused:
            await client.create(machine.id, memory.token)
        assert refused.value.code is Code.FAILED_PRECONDITION, (where, machine.id)


async def remember(program: ProviderProgram, known: dict[str, Memory]) -> None:
    for machine in (await program.client.list()).machines:
        # What is true now is where the next round begins; the token stays, as marks never end.
        memory = known[machine.id]
        by_target = {EDGES[kind].target: kind for kind in (OperationKind.CREATE, OperationKind.CONFIGURE)}
        memory.acked, memory.asked = by_target.get(S(machine.state)), None


@pytest.mark.asyncio
async def test_no_acknowledged_transition_is_lost_by_a_kill_under_load(pools: str, tmp_path: Path) -> None:
    toll = await kill_rounds(5, 1, pools, str(tmp_path / "state"))
    assert toll.unanswered, "no kill hit a call that ran; the load is too light to show anything"
    assert toll.resumed, "no kill hit an operation that ran"


@pytest.mark.rule("providers#durable-state")
@pytest.mark.long
@pytest.mark.asyncio
async def test_fifty_kills_under_load_lose_nothing(pools: str, tmp_path: Path) -> None:
    toll = await kill_rounds(50, 2, pools, str(tmp_path / "state"))
    assert toll.kills == 50
    print(f"kills under load: {json.dumps(asdict(toll))}")
