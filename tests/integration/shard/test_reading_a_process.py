"""A real shard process with a real provider process, read over real sockets by the command line and by the services.

`shard#inspection`, `shard#metadata` and `shard#restart` (coordinator); `engine#snapshot-live`,
`dashboard#insight-service` and `wire#identity`.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.instruction import AssignDomain, Domain, Instruction, Outcome, ReportAnswer
from bigfleet.model.machine import MachineState
from bigfleet.transport import shard_reading as calls
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsFiles, TlsStore
from tests.support.builders import need
from tests.support.certificates import Authority
from tests.support.scripted_coordinator import ScriptedCoordinator

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 120.0
POOLS = """
pools:
  - {name: m, count: 6, instance_type: m6i.large, zones: [zone-a, zone-b], resources: {cpu: 4}}
"""


@dataclass
class Process:
    """A running program, its ports, and its log."""

    process: asyncio.subprocess.Process
    ports: dict[str, int]
    log: list[str]
    reading: "asyncio.Task[None]"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports['port']}"

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(DEADLINE_S):
            code = await self.process.wait()
            await self.reading
        return code


async def start(*command: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command, "--metrics-addr", "127.0.0.1:0", "--log-format", "json"),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    stream, log = process.stderr, list[str]()
    async with asyncio.timeout(DEADLINE_S):
        while '"event": "listening"' not in (log or [""])[-1]:
            line = (await stream.readline()).decode()
            assert line, f"the program ended: {log}"
            log.append(line)

    async def read() -> None:
        log.extend([more.decode() async for more in stream])

    ports = {name: value for name, value in json.loads(log[-1]).items() if name.endswith("port")}
    return Process(process, ports, log, asyncio.create_task(read()))


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[Process]:
    process = await start(*command)
    try:
        yield process
    finally:
        await process.end(signal.SIGKILL)


@asynccontextmanager
async def fleet(tmp_path: Path, *flags: str) -> AsyncIterator[Process]:
    """A provider with six slots, and a shard on it that looks every second."""
    pools = tmp_path / "pools.yaml"
    pools.write_text(POOLS)
    provider = ("cmd/bigfleet-fake-provider", "--addr", "127.0.0.1:0", "--inventory", str(pools))
    data = ("--data-dir", str(tmp_path / "data"), "--cycle-interval", "1s", "--listen", "127.0.0.1:0")
    async with (
        running(*provider, *_tls_flags(flags)) as fake,
        running("cmd/bigfleet", "shard", "--provider-addr", fake.address, *data, *flags) as shard,
    ):
        yield shard


def _tls_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    places = [place for place, flag in enumerate(flags) if flag.startswith("--tls-")]
    return tuple(word for place in places for word in flags[place : place + 2])


def flags_of(files: TlsFiles) -> tuple[str, ...]:
    return ("--tls-cert", str(files.cert), "--tls-key", str(files.key), "--tls-ca", str(files.ca))


async def bigfleet(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "cmd/bigfleet", *words),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate(stdin)
    return process.returncode or 0, out.decode(), err.decode()


async def good(*words: str, stdin: bytes = b"") -> str:
    code, out, err = await bigfleet(*words, stdin=stdin)
    assert (code, err) == (0, ""), err
    return out


async def until(fact: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await fact():  # noqa: ASYNC110  it comes true in another process
            await asyncio.sleep(0.05)


async def test_demand_becomes_machines_and_every_reader_tells_the_same_story(tmp_path: Path) -> None:
    async with fleet(tmp_path) as shard:
        channel = GrpcNet().dial(shard.address)
        watch = channel.server_stream(calls.WATCH_CYCLES, pb.WatchCyclesRequest(), timeout_s=None)
        operator = SessionPeer(GrpcNet().dial(shard.address), "prod", SystemClock())
        async with operator, watch:
            await operator.demand(
                need("prod", cpu=8), need("prod", priority=9, group="big", unit={"gpu": "1"}, gpu=1)
            )

            async def configured() -> bool:
                return len(operator.in_state(MachineState.CONFIGURED)) == 2

            await until(configured)

            async def shown() -> bool:
                request = pb.ListMachinesRequest(clusters=["prod"], states=["Configured"])
                async with channel.server_stream(calls.LIST_MACHINES, request, timeout_s=60) as frames:
                    header = await frames.receive()
                    return header is not None and header.header.total == 2

            await until(shown)
            listed = json.loads(
                await good("machines", "--shard", shard.address, "--cluster", "prod", "-o", "json")
            )
            assert [row["state"] for row in listed["machines"]] == ["Configured", "Configured"]
            first = await watch.receive()
            assert first is not None
            table = await good("needs", "--shard", shard.address)
            assert [line.split()[:3] for line in table.splitlines()[3:]] == [
                ["!", "prod/big", "9"],
                ["prod", "0", "cpu=8"],
            ]
            assert "no matching supply" in table
            explained = await good("explain", "--shard", shard.address, "--need", "prod/big", "--quick")
            assert "no machine can serve it" in explained
            machine = operator.in_state(MachineState.CONFIGURED)[0]
            told = await good("explain", "--shard", shard.address, "--machine", machine)
            assert "Configured; kept for need" in told
            answer = (
                await channel.unary(
                    calls.EXPLAIN_MACHINE, pb.ExplainMachineRequest(machine=machine), timeout_s=60
                )
            ).message
            assert {record.outcome for record in answer.decisions} == {"success"}
            assert next(change.after for change in answer.transitions) == "Configured"
            saved = (await good("snapshot", "--shard", shard.address)).encode()
            decided = json.loads(await good("decide", "-o", "json", "-", stdin=saved))
            assert [row["satisfied"] for row in decided["needs"]] == [False, True]
            edits = tmp_path / "edits.yaml"
            edits.write_text("edits:\n  - {edit: remove_needs, where: {cluster: prod}}\n")
            changed = await good("what-if", "--shard", shard.address, "--edit", str(edits))
            assert "no difference" not in changed
            status = (await channel.unary(calls.GET_STATUS, pb.GetStatusRequest(), timeout_s=60)).message
            assert (status.ready, status.cycle.shard_id, status.cycle.shard_epoch) == (True, "shard-0", 1)
            assert [(item.cluster, item.connected, item.machines) for item in status.clusters] == [
                ("prod", True, 2)
            ]
            assert status.totals["actions"] >= 2
            assert status.last_reconcile_unix_nanos > 0
        await channel.close()
        assert await shard.end() == 0


async def test_a_live_document_decides_to_the_very_actions_of_its_cycle(tmp_path: Path) -> None:
    """Rules: `engine#snapshot-live`. In dry run nothing is done, so that every cycle decides something."""
    async with fleet(tmp_path, "--dry-run") as shard:
        channel = GrpcNet().dial(shard.address)
        async with SessionPeer(GrpcNet().dial(shard.address), "prod", SystemClock()) as operator:
            await operator.demand(need("prod", cpu=12))

            async def wants() -> bool:
                request = pb.ListDecisionsRequest(limit=1)
                async with channel.server_stream(calls.LIST_DECISIONS, request, timeout_s=60) as records:
                    return await records.receive() is not None

            await until(wants)
            async with channel.server_stream(
                calls.GET_SNAPSHOT, pb.GetSnapshotRequest(), timeout_s=60
            ) as frames:
                header, *pieces = [frame async for frame in frames]
            document = b"".join(piece.data for piece in pieces)
            decided = json.loads(await good("decide", "-o", "json", "-", stdin=document))
            actions = {(item["kind"], item["machine"], item["cluster"]) for item in decided["actions"]}
            assert len(actions) == 3
            async with channel.server_stream(
                calls.LIST_DECISIONS, pb.ListDecisionsRequest(), timeout_s=60
            ) as records:
                noted = [record async for record in records]
            of_cycle = [record for record in noted if record.cycle == header.header.cycle.number]
            assert {(record.kind, record.machine, record.cluster) for record in of_cycle} == actions
            assert {record.outcome for record in noted} == {"dryrun"}
        await channel.close()


async def test_under_mutual_tls_readers_are_let_in_and_others_told_what_they_lack(tmp_path: Path) -> None:
    """`wire#identity` and `shard#inspection`: role gate."""
    authority = Authority(tmp_path / "pki", datetime.now(UTC))
    async with fleet(tmp_path, *flags_of(authority.issue(Identity.shard("shard-0")))) as shard:
        address = f"localhost:{shard.ports['port']}"
        reader, stranger = authority.issue(READONLY), authority.issue(Identity.cluster("prod"))
        assert "machines" in await good("machines", "--shard", address, *flags_of(reader))
        assert "needs" in await good("needs", "--shard", address, *flags_of(reader))
        for words in (("needs",), ("machines",), ("snapshot",)):
            code, out, err = await bigfleet(*words, "--shard", address, *flags_of(stranger))
            assert (code, out) == (6, "")
            assert "--role readonly" in err
        code, out, err = await bigfleet("needs", "--shard", address)
        assert (code, out) == (7, "")
        assert "pass --tls-cert, --tls-key and --tls-ca" in err


@pytest.mark.rule("shard#coordinator-down")
async def test_the_process_reports_obeys_and_keeps_its_term_over_a_restart_under_tls(tmp_path: Path) -> None:
    """`shard#terms`, `shard#instructions`, `shard#inspection` and `shard#coordinator-client`: with the coordinator
    absent at first, and gone in between."""
    authority = Authority(tmp_path / "pki", datetime.now(UTC))
    coordinator = ScriptedCoordinator(SystemClock())
    order = Instruction(41, 1, "i-1", AssignDomain(Domain("rack", "r1")))
    coordinator.answers(ReportAnswer(41, acknowledged=True, instructions=(order,)))
    coordinator.usually(ReportAnswer(41, acknowledged=True))
    net = GrpcNet(TlsStore(authority.issue(ADMIN), print))
    server = await net.serve("127.0.0.1:0", [coordinator.bound()])
    port = server.port
    flags = (
        *("--coordinator-addr", f"localhost:{port}", "--coordinator-heartbeat-interval", "100ms"),
        *("--advertise-addr", "shard-0.example:7780"),
        *flags_of(authority.issue(Identity.shard("shard-0"))),
    )
    async with fleet(tmp_path, *flags) as shard:

        async def acked() -> bool:
            return any(report.acks for report in coordinator.reports)

        async def counted() -> bool:
            last = coordinator.reports[-1].summary
            return last is not None and last.total_machines == 6

        await until(acked)
        await until(counted)
        await server.stop(0)
        reader = GrpcNet(TlsStore(authority.issue(READONLY), print)).dial(f"localhost:{shard.ports['port']}")

        async def alone() -> bool:
            status = (await reader.unary(calls.GET_STATUS, pb.GetStatusRequest(), timeout_s=60)).message
            assert (status.ready, status.coordinator.term) == (True, 41)
            return status.coordinator.failures >= 3 and status.cycle.number > 1

        await until(alone)
        await reader.close()
        assert await shard.end() == 0
    first = next(report for report in coordinator.reports if report.acks)
    assert (first.acks[0].instruction_id, first.acks[0].outcome) == ("i-1", Outcome.ACCEPTED)
    assert (first.shard_id, first.address, first.shard_epoch) == ("shard-0", "shard-0.example:7780", 1)
    assert (tmp_path / "data" / "coordinator-term").read_text() == "41\n"

    late = ScriptedCoordinator(SystemClock())
    zombie = Instruction(40, 1, "old", AssignDomain(Domain("rack", "r2")))
    late.usually(ReportAnswer(40, acknowledged=True, instructions=(zombie,)))
    server = await net.serve(f"127.0.0.1:{port}", [late.bound()])
    async with fleet(tmp_path, *flags) as shard:

        async def reported() -> bool:
            return len(late.reports) >= 3

        await until(reported)
        assert await shard.end() == 0
    await server.stop(0)
    assert {report.shard_epoch for report in late.reports} == {2}
    assert all(report.acks == () for report in late.reports)  # a stale answer is dropped whole
    assert any('"event": "coordinator_term_stale"' in line for line in shard.log)
