"""The insight service over the in-memory network (`dashboard#insight-service`)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import structlog
from google.protobuf.message import Message

from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.aio.net import Channel, Code, RpcError
from bigfleet.aio.service import ServerStreamMethod, UnaryMethod
from bigfleet.document.decisions import decision_document
from bigfleet.document.snapshot import read_situation, write_situation
from bigfleet.engine.cycle import decide_situation
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import GangRef, Situation
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import CoordinatorLinkStatus, StatusSources
from bigfleet.shard.core.views import BootstrapBackoff, CycleFacts
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.explainer import AT_ONCE, WAITING, Explained, Explainer
from bigfleet.shard.read.insight_service import DOCUMENTS_AT_ONCE, DOCUMENTS_WAITING, InsightService
from bigfleet.shard.read.need_frames import AT_A_TIME
from bigfleet.shard.read.read_service import ReadService
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.network import Network
from bigfleet.transport import shard_reading as calls
from bigfleet.v1alpha1 import shardread_pb2
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import StaticShard

M = TypeVar("M", bound=Message)
N = TypeVar("N", bound=Message)

GANG = Profile((Requirement("rack", RequirementOperator.SAME),), priority=900)
FLEET = (
    machine("m-1", S.CONFIGURED, cluster="web", assigned=assigned(5), shape=shape("m5")),
    machine("m-2", S.IDLE, shape=shape("m5", price=2.0)),
    machine("m-3", S.SPECULATIVE, shape=shape("g8", labels={"rack": "r1"})),
)
NEEDS = (
    Need("train", GANG, amounts(cpu=64), amounts(cpu=4), group="llm-7"),
    Need("web", Profile(priority=5), amounts(cpu=4)),
)
SITUATION = Situation(1_700_000_000.0, FLEET, NEEDS, reported_clusters=frozenset({"train", "web"}))


class World:
    """A static shard, its insight service, and a reader."""

    def __init__(self, identity: Identity | None = None, standing: StatusSources | None = None) -> None:
        self.shard = StaticShard()
        self.watching = CycleFollower(self.shard, DecisionLog(), log=structlog.get_logger())
        self.service = InsightService(self.shard, self.watching, standing or StatusSources())
        self.network = Network(secured=identity is not None)
        self._identity = identity

    async def start(self) -> "World":
        host = self.network.host("shard-0", Identity.shard("shard-0"))
        await host.serve(":7780", [self.service.bound()])
        self.channel: Channel = self.network.host("reader", self._identity).dial("shard-0:7780")
        return self

    async def ask(self, method: UnaryMethod[M, N], request: M) -> N:
        return (await self.channel.unary(method, request, timeout_s=60)).message

    async def stream(self, method: ServerStreamMethod[M, N], request: M) -> list[N]:
        async with self.channel.server_stream(method, request, timeout_s=60) as frames:
            return [frame async for frame in frames]

    @asynccontextmanager
    async def watched(self) -> Any:
        task = asyncio.create_task(self.watching.follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def refusal(self, method: UnaryMethod[M, N], request: M) -> RpcError:
        with pytest.raises(RpcError) as refused:
            await self.ask(method, request)
        return refused.value


def virtually(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    run_virtual(run())


# Before the first cycle


def test_before_the_first_cycle_answers_carry_cycle_zero_and_nothing_is_shown_as_zero() -> None:
    async def scenario() -> None:
        world = await World().start()
        status = await world.ask(calls.GET_STATUS, pb.GetStatusRequest())
        assert (status.cycle.number, status.cycle.shard_id, status.cycle.shard_epoch) == (0, "shard-0", 3)
        assert (list(status.machines), list(status.clusters)) == ([], [])
        (frame,) = await world.stream(calls.LIST_MACHINES, pb.ListMachinesRequest())
        assert frame.header.cycle.number == 0
        (page,) = await world.stream(calls.LIST_NEEDS, pb.ListNeedsRequest())
        assert page.header == pb.ListNeedsHeader(cycle=status.cycle)
        shortfalls = await world.ask(calls.LIST_SHORTFALLS, pb.ListShortfallsRequest())
        assert (shortfalls.cycle.number, list(shortfalls.shortfalls)) == (0, [])
        assert await world.stream(calls.LIST_CYCLES, pb.ListCyclesRequest()) == []
        assert await world.stream(calls.LIST_DECISIONS, pb.ListDecisionsRequest()) == []

    virtually(scenario)


def test_before_the_first_cycle_there_is_nothing_to_explain_and_no_document() -> None:
    async def scenario() -> None:
        world = await World().start()
        for error in (
            await world.refusal(calls.EXPLAIN_NEED, pb.ExplainNeedRequest(need="0")),
            await world.refusal(calls.EXPLAIN_MACHINE, pb.ExplainMachineRequest(machine="m-1")),
        ):
            assert error.code is Code.FAILED_PRECONDITION
            assert "no cycle yet" in error.detail
        with pytest.raises(RpcError, match="no cycle yet"):
            await world.stream(calls.GET_SNAPSHOT, pb.GetSnapshotRequest())

    virtually(scenario)


# Needs, page by page


def test_needs_come_page_by_page_filtered_and_counted_by_the_shard() -> None:
    async def scenario() -> None:
        world = await World().start()
        needs = tuple(Need(f"c-{n % 3}", Profile(priority=n), amounts(cpu=4)) for n in range(10))
        world.shard.complete(Situation(0.0, (machine("m-1"), machine("m-2")), needs))
        header, *rows = await world.stream(calls.LIST_NEEDS, pb.ListNeedsRequest(page_size=4))
        told = header.header
        assert (told.total, told.needs, told.short, told.before_first_short) == (10, 10, 8, 2)
        assert (told.parked, dict(told.by_reason)) == (0, {"PRIORITY_STARVED": 8})
        assert [row.need.need.priority for row in rows] == [9, 8, 7, 6]
        assert rows[0].need.claimed_machine_count == 1
        request = pb.ListNeedsRequest(page_size=4, page_token=told.next_page_token)
        header, *rows = await world.stream(calls.LIST_NEEDS, request)
        assert [row.need.need.priority for row in rows] == [5, 4, 3, 2]
        request = pb.ListNeedsRequest(clusters=["c-0"], status=pb.ListNeedsRequest.STATUS_SHORT)
        header, *rows = await world.stream(calls.LIST_NEEDS, request)
        assert (header.header.total, header.header.needs, header.header.next_page_token) == (3, 10, "")
        assert [row.need.need.priority for row in rows] == [6, 3, 0]

    virtually(scenario)


def test_every_row_of_needs_is_the_one_that_inspection_shows() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(SITUATION)
        host = world.network.host("shard-1", Identity.shard("shard-1"))
        await host.serve(":7780", [ReadService(world.shard).bound()])
        channel = world.network.host("reader").dial("shard-1:7780")
        async with channel.server_stream(
            calls.INSPECT_NEEDS, shardread_pb2.InspectNeedsRequest(), timeout_s=60
        ) as frames:
            inspected = [frame.need async for frame in frames][1:]
        listed = [frame.need for frame in await world.stream(calls.LIST_NEEDS, pb.ListNeedsRequest())][1:]
        _, *batches = await world.stream(calls.LIST_NEEDS, pb.ListNeedsRequest(batched=True))
        assert [
            need for frame in batches for need in frame.batch.needs
        ] == listed  # many to a frame, the same rows
        assert len(batches) == -(-len(listed) // AT_A_TIME)
        assert listed == inspected
        assert len(listed) == len(NEEDS)

    virtually(scenario)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.ListNeedsRequest(reasons=["BAD_LUCK"]), "reasons"),
        (pb.ListNeedsRequest(status=9), "status"),  # type: ignore[arg-type]  # of a later version
        (pb.ListNeedsRequest(page_token="x"), "page_token"),
    ],
)
def test_a_question_about_needs_that_cannot_be_understood_is_refused_by_field(
    request_: pb.ListNeedsRequest, field: str
) -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(SITUATION)
        with pytest.raises(RpcError, match=field) as refused:
            await world.stream(calls.LIST_NEEDS, request_)
        assert refused.value.code is Code.INVALID_ARGUMENT

    virtually(scenario)


# Gates


@pytest.mark.parametrize("identity", [READONLY, ADMIN])
def test_readers_and_admins_pass_every_gate(identity: Identity) -> None:
    async def scenario() -> None:
        world = await World(identity).start()
        world.shard.complete(SITUATION)
        await world.ask(calls.GET_STATUS, pb.GetStatusRequest())
        await world.ask(calls.LIST_SHORTFALLS, pb.ListShortfallsRequest())
        await world.ask(calls.EXPLAIN_MACHINE, pb.ExplainMachineRequest(machine="m-1"))
        await world.stream(calls.GET_SNAPSHOT, pb.GetSnapshotRequest())

    virtually(scenario)


@pytest.mark.parametrize("identity", [Identity.cluster("web"), Identity.shard("shard-0")])
def test_every_other_role_is_refused_everywhere(identity: Identity) -> None:
    async def scenario() -> None:
        world = await World(identity).start()
        world.shard.complete(SITUATION)
        refused = [
            await world.refusal(calls.GET_STATUS, pb.GetStatusRequest()),
            await world.refusal(calls.LIST_SHORTFALLS, pb.ListShortfallsRequest()),
            await world.refusal(calls.EXPLAIN_NEED, pb.ExplainNeedRequest(need="0")),
            await world.refusal(calls.EXPLAIN_MACHINE, pb.ExplainMachineRequest(machine="m-1")),
        ]
        streams: tuple[tuple[ServerStreamMethod[Any, Any], Message], ...] = (
            (calls.WATCH_CYCLES, pb.WatchCyclesRequest()),
            (calls.LIST_CYCLES, pb.ListCyclesRequest()),
            (calls.LIST_MACHINES, pb.ListMachinesRequest()),
            (calls.LIST_NEEDS, pb.ListNeedsRequest()),
            (calls.LIST_DECISIONS, pb.ListDecisionsRequest()),
            (calls.GET_SNAPSHOT, pb.GetSnapshotRequest()),
        )
        for method, request in streams:
            with pytest.raises(RpcError) as caught:
                await world.stream(method, request)
            refused.append(caught.value)
        assert {error.code for error in refused} == {Code.PERMISSION_DENIED}
        assert len(refused) == len(calls.INSIGHT.descriptor.methods)

    virtually(scenario)


# Status and cycles


def test_status_says_how_the_shard_stands_in_one_message() -> None:
    async def scenario() -> None:
        standing = StatusSources(
            version="1.2.3",
            cycle_interval_s=10.0,
            actuation_paused=True,
            coordinator=lambda: CoordinatorLinkStatus("c:7790", failures=2, last_error="away", term=7),
            last_reconcile_ns=lambda: 55,
            held_rollups=lambda cluster: 2 if cluster == "web" else 0,
            totals=lambda: {"reclaims_capped": 4},
        )
        world = await World(standing=standing).start()
        world.shard.complete(SITUATION)
        world.shard.stand(ready=False, not_ready=("fenced",), remarks=("dry run",), paused=True, queued=3)
        status = await world.ask(calls.GET_STATUS, pb.GetStatusRequest())
        assert (status.version, status.ready, list(status.notes)) == ("1.2.3", False, ["fenced", "dry run"])
        assert (status.actuation_paused, status.self_paused) == (True, False)
        assert (status.queue_depth, status.last_reconcile_unix_nanos) == (3, 55)
        assert (status.coordinator.address, status.coordinator.failures) == ("c:7790", 2)
        assert (status.needs, status.needs_short, status.shortfalls) == (2, 1, 1)
        assert {(item.state, item.count) for item in status.machines} == {
            ("Configured", 1),
            ("Idle", 1),
            ("Speculative", 1),
        }
        clusters = {item.cluster: item for item in status.clusters}
        assert (clusters["web"].machines, clusters["web"].held_rollups, clusters["web"].rows) == (1, 2, 1)
        assert status.totals["reclaims_capped"] == 4

    virtually(scenario)


def test_a_pause_of_its_own_is_told_apart_from_the_kill_switch() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.stand(paused=True)
        status = await world.ask(calls.GET_STATUS, pb.GetStatusRequest())
        assert (status.actuation_paused, status.self_paused) == (False, True)
        assert not status.HasField("coordinator")

    virtually(scenario)


def test_watchers_are_told_at_once_and_after_each_cycle() -> None:
    async def scenario() -> None:
        world = await World().start()
        async with (
            world.watched(),
            world.channel.server_stream(
                calls.WATCH_CYCLES, pb.WatchCyclesRequest(), timeout_s=None
            ) as notices,
        ):
            seen = []
            for _ in range(3):
                notice = await notices.receive()
                assert notice is not None
                seen.append(notice.cycle.number)
                world.shard.complete(SITUATION)
            assert seen == [0, 1, 2]

    virtually(scenario)


def test_cycles_are_listed_in_figures() -> None:
    async def scenario() -> None:
        world = await World().start()
        async with world.watched():
            for number in range(3):
                facts = CycleFacts(duration_s=0.25, phases_s={"phase1": 0.1}, capped=number)
                world.shard.complete(SITUATION, facts=facts)
                await asyncio.sleep(1)
        frames = await world.stream(calls.LIST_CYCLES, pb.ListCyclesRequest(after=1))
        assert [frame.cycle.number for frame in frames] == [2, 3]
        last = frames[-1]
        assert (last.seconds, dict(last.phase_seconds), dict(last.withheld)) == (
            0.25,
            {"phase1": 0.1},
            {"capped": 2},
        )
        assert (last.machines, last.needs, last.needs_short) == (3, 2, 1)

    virtually(scenario)


# Machines


def test_the_header_comes_first_and_rows_are_paged_without_a_gap() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(Situation(0.0, tuple(machine(f"m-{n:03d}") for n in range(450))))
        seen: list[str] = []
        token, sizes = "", []
        while True:
            request = pb.ListMachinesRequest(page_size=200, page_token=token)
            header, *rows = await world.stream(calls.LIST_MACHINES, request)
            assert (header.header.total, header.header.machines) == (450, 450)
            seen += [row.machine.id for row in rows]
            sizes.append(len(rows))
            token = header.header.next_page_token
            if not token:
                break
        assert sizes == [200, 200, 50]
        assert seen == [f"m-{n:03d}" for n in range(450)]
        everything = await world.stream(calls.LIST_MACHINES, pb.ListMachinesRequest())
        assert [frame.machine.id for frame in everything[1:]] == seen

    virtually(scenario)


def test_a_row_says_what_the_record_says() -> None:
    async def scenario() -> None:
        pending = StatusSources(is_pending=lambda machine_id: machine_id == "m-1")
        world = await World(standing=pending).start()
        world.shard.complete(SITUATION)
        header, row = await world.stream(calls.LIST_MACHINES, pb.ListMachinesRequest(states=["Configured"]))
        assert (header.header.total, dict(header.header.by_state)) == (1, {"Configured": 1})
        shown = row.machine
        assert (shown.id, shown.state, shown.cluster, shown.instance_type) == (
            "m-1",
            "Configured",
            "web",
            "m5",
        )
        assert (shown.host_ref, shown.assigned.priority) == ("host-of-m-1", 5)
        assert shown.capacity["cpu"] == "4"
        assert shown.pending

    virtually(scenario)


@pytest.mark.parametrize(
    "request_",
    [pb.ListMachinesRequest(states=["idle"]), pb.ListMachinesRequest(page_token="x")],
    ids=["unknown state", "unknown token"],
)
def test_a_bad_question_is_an_invalid_argument(request_: pb.ListMachinesRequest) -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(SITUATION)
        with pytest.raises(RpcError) as refused:
            await world.stream(calls.LIST_MACHINES, request_)
        assert refused.value.code is Code.INVALID_ARGUMENT

    virtually(scenario)


# Decisions and shortfalls


def test_decisions_are_filtered_by_the_shard() -> None:
    async def scenario() -> None:
        world = await World().start()
        for number in range(1, 500):
            world.watching.decisions.add(
                at_ns=number,
                cycle=1,
                kind="Bootstrap",
                machine_id=f"m-{number}",
                cluster="web",
                reason="phase1.idle",
                grace_s=0,
                outcome="success",
            )
        frames = await world.stream(calls.LIST_DECISIONS, pb.ListDecisionsRequest(limit=300))
        assert [frame.sequence for frame in frames] == list(range(499, 199, -1))
        (one,) = await world.stream(calls.LIST_DECISIONS, pb.ListDecisionsRequest(machine="m-7"))
        assert (one.kind, one.outcome, one.at_unix_nanos) == ("Bootstrap", "success", 7)

    virtually(scenario)


def test_shortfalls_name_who_asks_and_why() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(SITUATION)
        answer = await world.ask(calls.LIST_SHORTFALLS, pb.ListShortfallsRequest())
        (row,) = answer.shortfalls
        assert (answer.total, row.fingerprint, row.priority) == (1, GANG.fingerprint, 900)
        assert (list(row.clusters), row.reason, row.age_cycles) == (["train"], "TOPOLOGY_UNSATISFIABLE", 1)
        assert (row.priority_class, row.interruption_penalty_bucket) == ("batch", "0")

    virtually(scenario)


# Explanations


def test_a_need_is_explained_with_its_ages_back_off_and_history() -> None:
    async def scenario() -> None:
        world = await World().start()
        async with world.watched():
            gang = GangRef("train", "llm-7", GANG.fingerprint)
            held = {("train", GANG.fingerprint): BootstrapBackoff("no template", 1_700_000_300.0)}
            world.shard.complete(SITUATION, parked_ages={gang: 4}, bootstrap_backoffs=held)
            await asyncio.sleep(1)
        answer = await world.ask(calls.EXPLAIN_NEED, pb.ExplainNeedRequest(need="train/llm-7"))
        content = json.loads(answer.document)
        assert content["sentence"].startswith("Short cpu=")
        assert (content["cluster"], content["group"]) == ("train", "llm-7")
        assert (answer.age_cycles, answer.parked_age_cycles) == (1, 4)
        assert answer.blob_backoff_until_unix_nanos == 1_700_000_300 * 10**9
        assert [(past.cycle, past.reason) for past in answer.history] == [(1, "TOPOLOGY_UNSATISFIABLE")]
        assert sum(row["count"] for row in (*content["chosen"], *content["refused"])) == len(FLEET)

    virtually(scenario)


@pytest.mark.parametrize("need", ["1", "web"])
def test_a_need_is_found_by_number_and_by_name_and_the_quick_way_tries_nothing(need: str) -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(SITUATION)
        answer = await world.ask(calls.EXPLAIN_NEED, pb.ExplainNeedRequest(need=need, quick=True))
        content = json.loads(answer.document)
        assert (content["cluster"], content["satisfied"], content["changes"]) == ("web", True, [])

    virtually(scenario)


def test_a_need_is_found_by_its_exact_key() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(SITUATION)
        key = pb.NeedKey(cluster="train", fingerprint=GANG.fingerprint, group="llm-7")
        answer = await world.ask(calls.EXPLAIN_NEED, pb.ExplainNeedRequest(key=key, quick=True))
        assert json.loads(answer.document)["needs"] == [0]
        key.group = "other"
        error = await world.refusal(calls.EXPLAIN_NEED, pb.ExplainNeedRequest(key=key))
        assert error.code is Code.NOT_FOUND

    virtually(scenario)


@pytest.mark.parametrize(
    ("need", "code"),
    [
        ("9", Code.NOT_FOUND),
        ("nobody", Code.NOT_FOUND),
        ("web", Code.INVALID_ARGUMENT),
        ("", Code.INVALID_ARGUMENT),
    ],
    ids=["no such number", "no such name", "a name of several", "nothing at all"],
)
def test_a_need_that_cannot_be_told_is_refused_with_what_could_be_meant(need: str, code: Code) -> None:
    async def scenario() -> None:
        world = await World().start()
        other = Need("web", Profile(priority=6), amounts(cpu=1))
        world.shard.complete(Situation(0.0, FLEET, (*NEEDS, other)))
        error = await world.refusal(calls.EXPLAIN_NEED, pb.ExplainNeedRequest(need=need))
        assert error.code is code

    virtually(scenario)


def test_a_machine_is_explained_with_its_timeline_and_its_decisions() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(SITUATION)
        world.watching.decisions.add(
            at_ns=9,
            cycle=1,
            kind="Bootstrap",
            machine_id="m-1",
            cluster="web",
            reason="phase1.idle",
            grace_s=0,
            outcome="success",
        )
        answer = await world.ask(calls.EXPLAIN_MACHINE, pb.ExplainMachineRequest(machine="m-1"))
        content = json.loads(answer.document)
        assert content["sentence"] == "Configured; kept for need 1 of web."
        assert (answer.machine.id, [item.outcome for item in answer.decisions]) == ("m-1", ["success"])
        quick = await world.ask(calls.EXPLAIN_MACHINE, pb.ExplainMachineRequest(machine="m-1", quick=True))
        assert (quick.document, quick.machine, quick.decisions) == (b"", answer.machine, answer.decisions)
        error = await world.refusal(calls.EXPLAIN_MACHINE, pb.ExplainMachineRequest(machine="m-9"))
        assert error.code is Code.NOT_FOUND

    virtually(scenario)


@pytest.mark.asyncio
async def test_two_explanations_run_at_once_a_few_wait_and_the_rest_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rules: `dashboard#insight-service`. On a real loop, as the virtual one runs the work of threads at once."""
    explainer = Explainer()
    running: list[asyncio.Event] = []

    async def held(_function: object) -> Explained:
        running.append(asyncio.Event())
        await running[-1].wait()
        return Explained(b"{}")

    monkeypatch.setattr(asyncio, "to_thread", held)
    shard = StaticShard()
    view = shard.complete(SITUATION)
    asked = [
        asyncio.create_task(explainer.machine(view, "m-1", now_s=0.0)) for _ in range(AT_ONCE + WAITING + 1)
    ]
    await asyncio.wait([asked[-1]])
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
        await asked[-1]
    assert len(running) == AT_ONCE == 2
    while not all(task.done() for task in asked):
        for event in running:
            event.set()
        await asyncio.sleep(0)
    assert len(running) == AT_ONCE + WAITING


# The snapshot document


def test_the_document_of_a_cycle_decides_to_the_very_actions_of_that_cycle() -> None:
    """Rules: `engine#snapshot-live`."""

    async def scenario() -> None:
        world = await World().start()
        view = world.shard.complete(SITUATION)
        header, *frames = await world.stream(calls.GET_SNAPSHOT, pb.GetSnapshotRequest())
        assert (header.header.cycle.number, header.header.machines, header.header.needs) == (1, 3, 2)
        data = b"".join(frame.data for frame in frames)
        assert data == write_situation(SITUATION)
        document = read_situation(data)
        again = decide_situation(document.situation)
        assert decision_document(document.situation, again) == decision_document(SITUATION, view.decision)

    virtually(scenario)


def test_a_reader_that_dawdles_over_a_document_keeps_a_slot_and_the_many_are_told_to_come_again() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.shard.complete(Situation(0.0, tuple(machine(f"m-{n:05d}") for n in range(6000))))
        held = [
            world.channel.server_stream(calls.GET_SNAPSHOT, pb.GetSnapshotRequest(), timeout_s=None)
            for _ in range(DOCUMENTS_AT_ONCE + DOCUMENTS_WAITING)
        ]
        for stream in held[:DOCUMENTS_AT_ONCE]:
            assert await stream.receive() is not None
        await asyncio.sleep(1)
        with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
            await world.stream(calls.GET_SNAPSHOT, pb.GetSnapshotRequest())
        for stream in held:
            stream.cancel()
        await asyncio.sleep(1)
        assert len(await world.stream(calls.GET_SNAPSHOT, pb.GetSnapshotRequest())) > 1

    virtually(scenario)


def test_a_large_document_comes_in_pieces_that_are_small() -> None:
    async def scenario() -> None:
        world = await World().start()
        situation = Situation(0.0, tuple(machine(f"m-{n:05d}") for n in range(6000)))
        world.shard.complete(situation, reported_clusters=frozenset())
        _, *frames = await world.stream(calls.GET_SNAPSHOT, pb.GetSnapshotRequest())
        assert len(frames) > 2
        assert max(len(frame.data) for frame in frames) <= 1024 * 1024
        assert (
            read_situation(b"".join(frame.data for frame in frames)).situation.machines == situation.machines
        )

    virtually(scenario)
