"""The insight service: everything that the command line and the dashboard show of a shard.

Must never: delay a cycle or a session, or influence a decision. Long work runs in a worker thread, a slice at a time.
Rules: `dashboard#insight-service`, `dashboard#insight-package`, `wire#identity`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Final

from bigfleet.aio.identity import ADMIN, READONLY
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.aio.service import BoundService
from bigfleet.document.pieces import situation_pieces
from bigfleet.explain.lookup import AmbiguousNeedError
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import InventorySnapshot, Rows
from bigfleet.model.machine import NeedRef
from bigfleet.model.situation import GangRef
from bigfleet.model.times import NANOSECONDS
from bigfleet.shard.core.read.decision_log import DecisionQuery
from bigfleet.shard.core.read.machine_hold_offs import MachineHoldOffs
from bigfleet.shard.core.read.machine_query import find, state_counts
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.core.views import CycleView, ShardViews
from bigfleet.shard.read.coverage_reader import CoverageReader
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.explainer import Explained, Explainer, PresentFacts, bare_situation_of
from bigfleet.shard.read.insight_messages import (
    cycle_message,
    cycle_summary_message,
    decision_message,
    machine_query,
    need_query,
    shortfalls_message,
    status_message,
    transition_message,
)
from bigfleet.shard.read.need_frames import NeedFrames
from bigfleet.shard.read.request_limit import RequestLimit
from bigfleet.transport.gates import allow
from bigfleet.transport.shard_reading import INSIGHT
from bigfleet.wire.insight import machine_to_proto, need_key_from_proto

ROWS_AT_A_TIME: Final = 200
PIECE_BYTES: Final = 1024 * 1024
DECISIONS_OF_A_MACHINE: Final = 20
DOCUMENTS_AT_ONCE: Final = 2
"""A document of a large fleet costs seconds of CPU time, and a slow reader keeps its cycle in memory."""
DOCUMENTS_WAITING: Final = 8


class InsightService:
    """Answers from the last completed cycle and the logs of this process."""

    def __init__(
        self,
        views: ShardViews,
        follower: CycleFollower,
        sources: StatusSources,
        frames: NeedFrames | None = None,
        coverage: CoverageReader | None = None,
    ) -> None:
        """`frames` and `coverage` are shared with the other services that show needs of this shard."""
        self._views, self._follower, self._sources = views, follower, sources
        self._coverage = coverage or CoverageReader(views, sources)
        self._frames = frames or NeedFrames(self._coverage)
        self._explainer = Explainer()
        self._documents = RequestLimit("snapshots", at_once=DOCUMENTS_AT_ONCE, waiting=DOCUMENTS_WAITING)

    def bound(self) -> BoundService:
        """The service, to be served."""
        return INSIGHT.bind(self)

    @allow(READONLY, ADMIN)
    async def get_status(self, _request: pb.GetStatusRequest, _call: Call) -> pb.GetStatusResponse:
        view = self._views.last_cycle()
        coverage = None if view is None else await self._coverage.now(view)
        return await asyncio.to_thread(status_message, self._views.status(), view, coverage, self._sources)

    @allow(READONLY, ADMIN)
    async def watch_cycles(
        self, _request: pb.WatchCyclesRequest, _call: Call
    ) -> AsyncIterator[pb.WatchCyclesResponse]:
        view = self._views.last_cycle()
        while True:
            yield pb.WatchCyclesResponse(cycle=cycle_message(self._views.status(), view))
            view = await self._follower.after(0 if view is None else view.number)

    @allow(READONLY, ADMIN)
    async def list_cycles(
        self, request: pb.ListCyclesRequest, _call: Call
    ) -> AsyncIterator[pb.ListCyclesResponse]:
        status = self._views.status()
        for item in self._follower.cycles.summaries(request.after, request.limit):
            yield cycle_summary_message(status, item)

    @allow(READONLY, ADMIN)
    async def list_machines(
        self, request: pb.ListMachinesRequest, _call: Call
    ) -> AsyncIterator[pb.ListMachinesResponse | bytes]:
        view = self._views.last_cycle()
        header = pb.ListMachinesHeader(cycle=cycle_message(self._views.status(), view))
        first = _offset(request.page_token)
        query = machine_query(request)
        if view is None:
            yield pb.ListMachinesResponse(header=header)
            return
        snapshot = view.every_machine
        found = await asyncio.to_thread(find, snapshot, query)
        last = min(found.size, first + request.page_size) if request.page_size > 0 else found.size
        header.total, header.machines = found.size, len(snapshot)
        header.by_state.update(await asyncio.to_thread(state_counts, snapshot, found))
        header.next_page_token = str(last) if last < found.size else ""
        yield pb.ListMachinesResponse(header=header)
        for start in range(first, last, ROWS_AT_A_TIME):
            rows = found[start : min(last, start + ROWS_AT_A_TIME)]
            for frame in await asyncio.to_thread(self._machine_frames, view, rows):
                yield frame

    @allow(READONLY, ADMIN)
    async def list_needs(
        self, request: pb.ListNeedsRequest, _call: Call
    ) -> AsyncIterator[pb.ListNeedsResponse | bytes]:
        view = self._views.last_cycle()
        header = pb.ListNeedsHeader(cycle=cycle_message(self._views.status(), view))
        first, query = _offset(request.page_token), need_query(request)
        if view is None:
            yield pb.ListNeedsResponse(header=header)
            return
        page = await self._frames.page(view, query)
        rows = page.found.rows
        last = min(len(rows), first + request.page_size) if request.page_size > 0 else len(rows)
        header.total, header.needs = len(rows), len(page.rows)
        header.short, header.parked = page.found.short, page.found.parked
        header.by_reason.update(page.found.by_reason)
        header.before_first_short = page.found.before_first_short
        header.next_page_token = str(last) if last < len(rows) else ""
        if request.grouped:
            for group in await asyncio.to_thread(page.rows.groups, page.found, first, last):
                header.groups.add(**asdict(group))
        yield pb.ListNeedsResponse(header=header)
        shown = rows[first:last]
        async for frame in page.batches(shown) if request.batched else page.frames(shown):
            yield frame

    @allow(READONLY, ADMIN)
    async def list_decisions(
        self, request: pb.ListDecisionsRequest, _call: Call
    ) -> AsyncIterator[pb.ListDecisionsResponse]:
        query = DecisionQuery(
            since_ns=request.since_unix_nanos,
            after_sequence=request.after_sequence,
            kinds=frozenset(request.kinds),
            outcomes=frozenset(request.outcomes),
            machine_id=request.machine,
            cluster=request.cluster,
        )
        records = self._follower.decisions.newest_first(query)
        if request.limit > 0:
            records = islice(records, request.limit)
        while slice_ := await asyncio.to_thread(list, islice(records, ROWS_AT_A_TIME)):
            for record in slice_:
                yield decision_message(record)

    @allow(READONLY, ADMIN)
    async def list_shortfalls(
        self, _request: pb.ListShortfallsRequest, _call: Call
    ) -> pb.ListShortfallsResponse:
        view = self._views.last_cycle()
        coverage = None if view is None else await self._coverage.now(view)
        return await asyncio.to_thread(shortfalls_message, self._views.status(), view, coverage)

    @allow(READONLY, ADMIN)
    async def explain_need(self, request: pb.ExplainNeedRequest, _call: Call) -> pb.ExplainNeedResponse:
        key = need_key_from_proto(request.key) if request.HasField("key") else None
        if key is None and not request.need:
            raise InvalidFieldError(
                "need", "", "a number, cluster, cluster/group or cluster:priority, or a key in its place"
            )
        view = self._completed()
        try:
            explained = await self._explainer.need(
                view,
                request.need,
                key,
                quick=request.quick,
                now=PresentFacts(await self._coverage.now(view), self._sources.now(view.now)),
            )
        except AmbiguousNeedError as error:
            raise RpcRefusedError(Code.INVALID_ARGUMENT, str(error)) from None
        except InvalidFieldError as error:
            raise RpcRefusedError(Code.NOT_FOUND, str(error)) from None
        answer = pb.ExplainNeedResponse(
            cycle=cycle_message(self._views.status(), view),
            document=explained.document,
            changes_tried=explained.changes_tried,
        )
        if explained.need is not None:
            self._add_ages(answer, view, explained.need)
        return answer

    @allow(READONLY, ADMIN)
    async def explain_machine(
        self, request: pb.ExplainMachineRequest, _call: Call
    ) -> pb.ExplainMachineResponse:
        view = self._completed()
        row = view.every_machine.row_of(request.machine)
        if row is None:
            raise RpcRefusedError(
                Code.NOT_FOUND, f"no machine {request.machine[:80]!r} in cycle {view.number}"
            )
        explained: Explained | None = None
        if not request.quick:
            explained = await self._explainer.machine(
                view, request.machine, now_s=self._sources.now(view.now)
            )
        records = self._follower.decisions.newest_first(DecisionQuery(machine_id=request.machine))
        return pb.ExplainMachineResponse(
            cycle=cycle_message(self._views.status(), view),
            document=b"" if explained is None else explained.document,
            machine=self._machine(view.every_machine, row, self._hold_offs(view)),
            transitions=map(transition_message, self._follower.transitions.of(request.machine)),
            decisions=[decision_message(record) for record in islice(records, DECISIONS_OF_A_MACHINE)],
        )

    @allow(READONLY, ADMIN)
    async def get_snapshot(
        self, _request: pb.GetSnapshotRequest, _call: Call
    ) -> AsyncIterator[pb.GetSnapshotResponse]:
        async with self._documents.one():
            view = self._completed()
            yield pb.GetSnapshotResponse(
                header=pb.GetSnapshotHeader(
                    cycle=cycle_message(self._views.status(), view),
                    machines=len(view.snapshot),
                    needs=len(view.demand),
                )
            )
            pieces = situation_pieces(bare_situation_of(view), view.snapshot.machines())
            while joined := await asyncio.to_thread(_some_bytes, pieces):
                for start in range(0, len(joined), PIECE_BYTES):
                    yield pb.GetSnapshotResponse(data=joined[start : start + PIECE_BYTES])

    def _machine_frames(self, view: CycleView, rows: Rows) -> list[bytes]:
        snapshot, hold_offs = view.every_machine, self._hold_offs(view)
        return [
            pb.ListMachinesResponse(machine=self._machine(snapshot, row, hold_offs)).SerializeToString(
                deterministic=True
            )
            for row in rows.tolist()
        ]

    def _hold_offs(self, view: CycleView) -> MachineHoldOffs:
        return MachineHoldOffs(view, self._sources.now(view.now))

    def _machine(self, snapshot: InventorySnapshot, row: int, hold_offs: MachineHoldOffs) -> pb.MachineRow:
        machine = snapshot.machine(row)
        message = machine_to_proto(machine, pending=self._sources.is_pending(machine.id))
        held = hold_offs.of(machine)
        if held is not None:
            message.held_off, message.held_off_error = held.reason, held.error
            message.next_attempt_in_seconds = held.left_s
        return message

    def _completed(self) -> CycleView:
        view = self._views.last_cycle()
        if view is None:
            raise RpcRefusedError(
                Code.FAILED_PRECONDITION,
                "the shard has completed no cycle yet; ask again once it is ready",
            )
        return view

    def _add_ages(self, answer: pb.ExplainNeedResponse, view: CycleView, need: NeedRef) -> None:
        answer.age_cycles = view.unmet_ages.get(need.fingerprint, 0)
        gang = GangRef(need.cluster, need.group, need.fingerprint)
        answer.parked_age_cycles = view.parked_ages.get(gang, 0)
        backoff = view.bootstrap_backoffs.get((need.cluster, need.fingerprint))
        if backoff is not None:
            answer.blob_backoff_until_unix_nanos = round(backoff.until_s * NANOSECONDS)
        for past in self._follower.cycles.history(need):
            answer.history.add(cycle=past.cycle, reason=past.reason)


def _offset(token: str) -> int:
    if not token:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) < 10):
        raise InvalidFieldError("page_token", token[:80], "the next_page_token of an answer, or nothing")
    return int(token)


def _some_bytes(pieces: Iterator[bytes]) -> bytes:
    """About a quarter of a piece: enough to be worth a thread switch, little enough not to hold the interpreter for long."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES // 4:
            break
    return b"".join(parts)
