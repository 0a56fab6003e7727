"""Reads one shard: status, needs, machines, decisions, explanations and snapshot.

Why: pages need rows as JSON; only this module knows whether the shard is ours or the original's.
Must never: hold an answer larger than the request allows; the shard cuts pages.
Rules: `dashboard#api`, `dashboard#approximate`, `dashboard#insight-service`, `dashboard#original-calls`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, TypeVar

from bigfleet.aio.net import Channel, Code, Net, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.dashboard.core.need_list import NeedList, NeedListGroup, NeedListQuery, listed
from bigfleet.dashboard.core.observed import (
    CoordinatorLinkState,
    MachineCount,
    ObservedCluster,
    ObservedCoolOff,
    ObservedCoverage,
    ObservedProblem,
    ObservedProvider,
    ObservedShard,
    ObservedShortfall,
    ShardPlace,
)
from bigfleet.dashboard.rows import decision_row, machine_row, need_row
from bigfleet.dashboard.sources import SourceError, SourceProblem, failed, here
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.resources import Resources
from bigfleet.transport import shard_reading as calls
from bigfleet.v1alpha1 import shardread_pb2 as read

TIMEOUT_S: Final = 5.0
SLOW_TIMEOUT_S: Final = 30.0
"""For explanations and lists."""
SNAPSHOT_TIMEOUT_S: Final = 120.0
_STATUSES: Final = {
    "": pb.ListNeedsRequest.STATUS_UNSPECIFIED,
    "short": pb.ListNeedsRequest.STATUS_SHORT,
    "satisfied": pb.ListNeedsRequest.STATUS_SATISFIED,
    "parked": pb.ListNeedsRequest.STATUS_PARKED,
}
TableRow = Mapping[str, Any]  # a JSON object
Request = TypeVar("Request")
Response = TypeVar("Response")


class ShardReader:
    """Reads one shard over one connection."""

    def __init__(self, net: Net, shard_id: str, address: str) -> None:
        self.shard_id, self.address = shard_id, address
        self._channel: Channel = net.dial(address)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def status(self, now: float) -> ObservedShard:
        """Return the shard's status, dated by the time given; for a shard without the insight service, only what its needs show."""
        try:
            answer = (
                await self._channel.unary(calls.GET_STATUS, pb.GetStatusRequest(), timeout_s=TIMEOUT_S)
            ).message
        except RpcError as error:
            if error.code is Code.UNIMPLEMENTED:
                return await self._plain_status()
            raise failed(self._name, error) from error
        try:
            return _seen(answer, now)
        except InvalidFieldError as error:
            text = f"{self._name} sent a status that cannot be read: {error}"
            raise SourceError(SourceProblem.FAILED, text) from error

    async def shortfalls(self) -> tuple[ObservedShortfall, ...]:
        """Return the shard's ledger, worst first."""
        answer = await self._unary(calls.LIST_SHORTFALLS, pb.ListShortfallsRequest(), TIMEOUT_S)
        return tuple(
            ObservedShortfall(
                self.shard_id,
                row.fingerprint,
                row.priority,
                row.priority_class,
                dict(sorted(row.deficit.items())),
                row.age_cycles,
                row.interruption_penalty_bucket,
                tuple(row.clusters),
                row.reason,
            )
            for row in answer.shortfalls
        )

    async def needs(self, cluster: str = "", limit: int = 0) -> dict[str, Any]:
        """Return the needs of the last cycle in the form of `/needs`, at most so many; 0 is all."""
        header, rows = read.InspectNeedsHeader(), list[TableRow]()
        async for frame in self._inspect(cluster, limit):
            if frame.WhichOneof("frame") == "header":
                header = frame.header
            else:
                rows.append(need_row(frame.need))
        return {
            "shardId": self.shard_id,
            "cycle": header.cycle,
            "computedAtUnixNanos": header.computed_at_unix_nanos,
            "totalNeeds": header.total_needs,
            "needs": rows,
        }

    async def need_list(self, query: NeedListQuery) -> NeedList:
        """Return one page of needs; this method filters and counts for a shard that does not offer it."""
        try:
            return await self._need_list(query)
        except RpcError as error:
            if error.code is not Code.UNIMPLEMENTED:
                raise failed(self._name, error) from error
        answer = await self.needs()
        cycle, at_ns = answer["cycle"], answer["computedAtUnixNanos"]
        return await asyncio.to_thread(listed, answer["needs"], query, cycle, at_ns)

    async def _need_list(self, query: NeedListQuery) -> NeedList:
        request = pb.ListNeedsRequest(
            clusters=[query.cluster] if query.cluster else (),
            status=_STATUSES[query.status],
            reasons=[query.reason] if query.reason else (),
            text=query.text,
            page_size=query.size,
            page_token=str(query.first),
            batched=True,
            grouped=query.grouped,
        )
        header, rows = pb.ListNeedsHeader(), list[TableRow]()
        async with self._channel.server_stream(calls.LIST_NEEDS, request, timeout_s=SLOW_TIMEOUT_S) as frames:
            async for frame in frames:
                match frame.WhichOneof("frame"):
                    case "header":
                        header = frame.header
                    case "batch":
                        # In a thread: hundreds of rows would delay other requests.
                        rows += await asyncio.to_thread(_rows_of, frame.batch)
                    case _:
                        rows.append(need_row(frame.need))
        return NeedList(
            cycle=header.cycle.number,
            computed_at_ns=header.cycle.computed_at_unix_nanos,
            needs=header.needs,
            total=header.total,
            short=header.short,
            before_first_short=header.before_first_short,
            rows=rows,
            groups=[
                NeedListGroup(row.fingerprint, row.first, row.needs, row.short, row.before_first_short)
                for row in header.groups
            ],
        )

    async def _inspect(self, cluster: str, limit: int) -> AsyncIterator[read.InspectNeedsResponse]:
        request = read.InspectNeedsRequest(cluster_id=cluster, limit=limit)
        try:
            async with self._channel.server_stream(
                calls.INSPECT_NEEDS, request, timeout_s=SLOW_TIMEOUT_S
            ) as frames:
                async for frame in frames:
                    yield frame
        except RpcError as error:
            raise failed(self._name, error) from error

    async def machines(self, query: pb.ListMachinesRequest) -> dict[str, Any]:
        """Return one page of machines with its header."""
        header, rows = pb.ListMachinesHeader(), []
        try:
            async with self._channel.server_stream(
                calls.LIST_MACHINES, query, timeout_s=SLOW_TIMEOUT_S
            ) as frames:
                async for frame in frames:
                    if frame.WhichOneof("frame") == "header":
                        header = frame.header
                    else:
                        rows.append(machine_row(frame.machine))
        except RpcError as error:
            raise failed(self._name, error) from error
        return {
            "shardId": self.shard_id,
            "cycle": header.cycle.number,
            "total": header.total,
            "machines": header.machines,
            "byState": dict(sorted(header.by_state.items())),
            "nextPage": header.next_page_token,
            "rows": rows,
        }

    async def decisions(self, query: pb.ListDecisionsRequest) -> list[TableRow]:
        """Return recent actions with their outcomes, newest first."""
        try:
            async with self._channel.server_stream(
                calls.LIST_DECISIONS, query, timeout_s=SLOW_TIMEOUT_S
            ) as frames:
                return [decision_row(self.shard_id, row) async for row in frames]
        except RpcError as error:
            raise failed(self._name, error) from error

    async def explain_need(self, request: pb.ExplainNeedRequest) -> pb.ExplainNeedResponse:
        """Ask why a need is satisfied or short."""
        return await self._unary(calls.EXPLAIN_NEED, request, SLOW_TIMEOUT_S)

    async def explain_machine(self, machine: str, *, quick: bool = False) -> pb.ExplainMachineResponse:
        """Ask why a machine is in its state; `quick` leaves out the explanation, which costs a run of the engine."""
        request = pb.ExplainMachineRequest(machine=machine, quick=quick)
        return await self._unary(calls.EXPLAIN_MACHINE, request, SLOW_TIMEOUT_S)

    async def snapshot(self) -> AsyncIterator[bytes]:
        """Yield the snapshot document in pieces."""
        try:
            async with self._channel.server_stream(
                calls.GET_SNAPSHOT, pb.GetSnapshotRequest(), timeout_s=SNAPSHOT_TIMEOUT_S
            ) as frames:
                async for frame in frames:
                    if frame.WhichOneof("frame") == "data":
                        yield frame.data
        except RpcError as error:
            raise failed(self._name, error) from error

    async def document(self) -> tuple[int, bytes]:
        """Return the snapshot document and the number of its cycle."""
        cycle, pieces = 0, list[bytes]()
        try:
            async with self._channel.server_stream(
                calls.GET_SNAPSHOT, pb.GetSnapshotRequest(), timeout_s=SNAPSHOT_TIMEOUT_S
            ) as frames:
                async for frame in frames:
                    if frame.WhichOneof("frame") == "header":
                        cycle = frame.header.cycle.number
                    else:
                        pieces.append(frame.data)
        except RpcError as error:
            raise failed(self._name, error) from error
        return cycle, b"".join(pieces)

    async def cycles(self) -> AsyncIterator[int]:
        """Yield the number of each cycle when it ends, until the shard stops."""
        try:
            async with self._channel.server_stream(
                calls.WATCH_CYCLES, pb.WatchCyclesRequest(), timeout_s=None
            ) as frames:
                async for frame in frames:
                    yield frame.cycle.number
        except RpcError as error:
            raise failed(self._name, error) from error

    @property
    def _name(self) -> str:
        return f"shard {self.shard_id}"

    async def _unary(
        self, method: UnaryMethod[Request, Response], request: Request, timeout_s: float
    ) -> Response:
        try:
            return (await self._channel.unary(method, request, timeout_s=timeout_s)).message
        except RpcError as error:
            raise failed(self._name, error) from error

    async def _plain_status(self) -> ObservedShard:
        header, short = read.InspectNeedsHeader(), 0
        async for frame in self._inspect("", 0):
            if frame.WhichOneof("frame") == "header":
                header = frame.header
            else:
                short += not frame.need.satisfied
        return ObservedShard(
            self.shard_id,
            header.cycle,
            header.computed_at_unix_nanos / 1e9,
            0,
            needs=header.total_needs,
            needs_short=short,
            insight=False,
        )


def _rows_of(batch: pb.NeedBatch) -> list[TableRow]:
    return [need_row(need) for need in batch.needs]


async def look(reader: ShardReader, before: ShardPlace | None, now: float) -> ShardPlace:
    """Read a shard's status; for a shard that does not answer, keep its last one."""
    try:
        seen = await reader.status(now)
        shortfalls = await reader.shortfalls() if seen.insight and seen.shortfalls else ()
    except SourceError as error:
        answered = before.answered_at if before else None
        kept = (before.seen, before.shortfalls) if before else (None, ())
        why = error.text.removeprefix(f"shard {reader.shard_id} ")  # the reader of this error adds the name
        cycle_at = before.cycle_at if before else None
        return ShardPlace(reader.shard_id, reader.address, now, answered, why, *kept, cycle_at=cycle_at)
    return ShardPlace(
        seen.shard_id or reader.shard_id,
        reader.address,
        now,
        now,
        "",
        seen,
        shortfalls,
        _cycle_at(before, seen, now),
    )


def _cycle_at(before: ShardPlace | None, seen: ObservedShard, now: float) -> float | None:
    """When the last cycle ended, by this host's clock: when its number was first seen here.

    Only at the first look, when that is not known, the shard's own time counts, unless it is in the future.
    """
    if not seen.cycle:
        return None
    if before is None or before.seen is None:
        return min(seen.computed_at, now)
    same = (before.seen.epoch, before.seen.cycle) == (seen.epoch, seen.cycle)
    return before.cycle_at if same else now


def _seen(answer: pb.GetStatusResponse, now: float) -> ObservedShard:
    link = answer.coordinator if answer.HasField("coordinator") else None
    computed_at = here(now, answer.cycle.age_seconds, answer.cycle.computed_at_unix_nanos)
    return ObservedShard(
        shard_id=answer.cycle.shard_id,
        cycle=answer.cycle.number,
        computed_at=computed_at,
        clock_ahead_s=answer.cycle.computed_at_unix_nanos / 1e9 - computed_at if answer.cycle.number else 0.0,
        epoch=answer.cycle.shard_epoch,
        version=answer.version,
        started_at=here(now, answer.uptime_seconds, answer.started_at_unix_nanos),
        ready=answer.ready,
        notes=tuple(answer.notes),
        actuation_paused=answer.actuation_paused,
        dry_run=answer.dry_run,
        self_paused=answer.self_paused,
        provider_address=answer.provider_address,
        last_reconcile=here(now, answer.last_reconcile_age_seconds, answer.last_reconcile_unix_nanos),
        coordinator=link
        and CoordinatorLinkState(
            link.address,
            here(now, link.last_answer_age_seconds, link.last_answer_unix_nanos),
            link.failures,
            link.last_error,
            link.term,
        ),
        machines=tuple(
            MachineCount(
                row.state,
                row.capacity_type,
                row.count,
                row.price_per_hour,
                row.exposure_per_hour,
                row.pinned_at_risk,
            )
            for row in answer.machines
        ),
        clusters=tuple(
            ObservedCluster(
                row.cluster,
                row.connected,
                here(now, row.rollup_age_seconds, row.rollup_unix_nanos),
                row.rows,
                row.held_rollups,
                row.reported,
                row.machines,
                row.price_per_hour,
                _coverage(row.coverage) if row.HasField("coverage") else None,
            )
            for row in answer.clusters
        ),
        queue_depth=answer.queue_depth,
        in_flight=answer.in_flight,
        needs=answer.needs,
        needs_short=answer.needs_short,
        shortfalls=answer.shortfalls,
        totals=dict(answer.totals),
        cycle_interval_s=answer.cycle_interval_seconds or 10.0,
        provider=_provider(answer.provider) if answer.HasField("provider") else None,
        problems=tuple(ObservedProblem(row.kind, row.text, row.for_seconds) for row in answer.problems),
        cool_offs=tuple(
            ObservedCoolOff(
                row.instance_type,
                row.zone,
                row.capacity_type,
                row.error,
                row.failures,
                row.next_attempt_in_seconds,
                row.machines,
            )
            for row in answer.cool_offs
        ),
        needs_covered=answer.needs_covered if answer.HasField("coverage") else None,
        coverage=_coverage(answer.coverage) if answer.HasField("coverage") else None,
    )


def _provider(row: pb.ProviderStatus) -> ObservedProvider:
    return ObservedProvider(
        reachable=row.reachable,
        unreachable_for_s=row.unreachable_for_seconds,
        last_error=row.last_error,
        next_probe_in_s=row.next_probe_in_seconds,
        held_off_actions=row.held_off_actions,
        listing_age_s=row.last_listing_age_seconds if row.last_listing_age_seconds >= 0 else None,
        doubted_for_s=row.listing_doubted_for_seconds if row.listing_doubted else None,
        doubted_missing=row.listing_missing_machines,
    )


def _coverage(row: read.NeedCoverage) -> ObservedCoverage:
    return ObservedCoverage(
        row.running, row.joining, row.on_order, row.wanted, Resources.parse(row.missing.resources)
    )
