"""The nine gRPC calls of the coordinator: leader check, identity, arguments, then the work.

Must never: answer from a replica that does not serve, or read before a barrier that began after the request arrived.
Rules: `coordinator#calls`, `wire#coordinator`, `wire#codes`, `wire#identity`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from bigfleet.aio.identity import ADMIN, READONLY, Role
from bigfleet.aio.net import Call, Code, Metadata, RpcRefusedError
from bigfleet.coordinator.archive import make_archive
from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.results import RefusalCode
from bigfleet.coordinator.core.soft_state import ClockReading
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.leader_check import Leadership, leader_only
from bigfleet.coordinator.log import LogStatus, ReplicatedLog, Result
from bigfleet.coordinator.proposer import Proposer
from bigfleet.coordinator.reply_facts import facts_about
from bigfleet.coordinator.report_handler import ReportHandler
from bigfleet.model.instruction import Domain
from bigfleet.transport.coordinator import BLOCKED_BY, LAST_EXPORT, LIST_SHARDS
from bigfleet.transport.gates import allow, allow_exact
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from bigfleet.wire.shard_reports import (
    answer_to_proto,
    report_from_proto,
    shortfall_to_proto,
    summary_to_proto,
)

CHUNK_BYTES: Final = 1024 * 1024

_CODES: Final = {
    RefusalCode.SHARD_NOT_FOUND.value: Code.NOT_FOUND,
    RefusalCode.DOMAIN_ALREADY_ASSIGNED.value: Code.ALREADY_EXISTS,
    RefusalCode.INVALID.value: Code.INVALID_ARGUMENT,
}


class CoordinatorService:
    """The gRPC service of one replica."""

    def __init__(
        self,
        *,
        log: ReplicatedLog,
        state_machine: CoordinatorStateMachine,
        leadership: Leadership,
        proposer: Proposer,
        reports: ReportHandler,
        now: Callable[[], ClockReading],
    ) -> None:
        self._log, self._state_machine, self.leadership = log, state_machine, leadership
        self._proposer, self._reports, self._now = proposer, reports, now
        self._last_export_ns = 0
        self._facts: tuple[LogStatus | None, int, Metadata] = None, 0, ()

    def facts(self, call: Call) -> Metadata:
        """Return the facts that go with an answer; those of ListShards add blockers and the last export."""
        status, level = self._log.status(), self._state_machine.level
        if status is not self._facts[0] or level != self._facts[1]:
            self._facts = status, level, facts_about(status, level)
        facts = self._facts[2]
        if call.method != LIST_SHARDS.path:
            return facts
        blockers = self._blockers()
        if blockers:
            facts = (*facts, (BLOCKED_BY, ",".join(blockers)))
        return (*facts, (LAST_EXPORT, str(self._last_export_ns))) if self._last_export_ns else facts

    def record_export(self, now_ns: int) -> None:
        """Record when this replica last exported a snapshot."""
        self._last_export_ns = now_ns

    @leader_only
    async def report_shard(self, request: pb.ShardReport, call: Call) -> pb.ReportAck:
        _require(request, "shard_id")
        return await self._report(request, call)

    @allow_exact(Role.SHARD, lambda request: request.shard_id)
    async def _report(self, request: pb.ShardReport, call: Call) -> pb.ReportAck:
        arrived = self._now()
        return answer_to_proto(await self._reports.report(report_from_proto(request), call, arrived))

    @leader_only
    @allow(ADMIN)
    async def assign_domain(self, request: pb.AssignDomainRequest, call: Call) -> pb.AssignDomainResponse:
        _require(request, "topology_key", "topology_value", "shard_id")
        self._check_key(request.shard_id, request.topology_key)
        command = commands.assign_domain(request.topology_key, request.topology_value, request.shard_id)
        _accepted(await self._proposer.propose(command, call))
        return pb.AssignDomainResponse()

    @leader_only
    @allow(ADMIN)
    async def unassign_domain(
        self, request: pb.UnassignDomainRequest, call: Call
    ) -> pb.UnassignDomainResponse:
        _require(request, "topology_key", "topology_value")
        key, value = request.topology_key, request.topology_value
        owner = self._state_machine.read(lambda tables: tables.owner_of(key, value))
        _accepted(await self._proposer.propose(commands.unassign_domain(key, value), call))
        leader = self.leadership.current
        if owner and leader is not None:
            leader.delivery.taken(owner, Domain(key, value))
        return pb.UnassignDomainResponse()

    @leader_only
    @allow(ADMIN)
    async def remove_shard(self, request: pb.RemoveShardRequest, call: Call) -> pb.RemoveShardResponse:
        _require(request, "shard_id")
        leader = self.leadership.require()
        command = commands.remove_shard(
            request.shard_id,
            destroyed=request.destroyed,
            partitioned=leader.soft.is_partitioned(request.shard_id),
        )
        _accepted(await self._proposer.propose(command, call))
        self._reports.forget(leader, request.shard_id)
        return pb.RemoveShardResponse()

    @leader_only
    @allow(READONLY, ADMIN)
    async def list_shards(self, _request: pb.ListShardsRequest, call: Call) -> pb.ListShardsResponse:
        leader = self.leadership.require()
        await self._proposer.barrier(call)
        self.leadership.require(leader)

        shards, now = self._state_machine.read(lambda tables: dict(tables.shards)), self._now()
        return pb.ListShardsResponse(
            shards=[
                pb.ShardRegistryEntry(
                    shard_id=shard,
                    address=address,
                    registered_at_unix_ns=registered_at_ns,
                    last_heartbeat_unix_ns=leader.soft.heartbeat_ns(shard),
                    last_heartbeat_age_nanos=leader.soft.heartbeat_age_ns(shard, now),
                )
                for shard, (address, registered_at_ns) in sorted(shards.items())
            ]
        )

    @leader_only
    @allow(READONLY, ADMIN)
    async def list_domain_assignments(self, _request: pb.ListDomainAssignmentsRequest, call: Call) -> bytes:
        await self._proposer.barrier(call)
        owned = self._state_machine.read(
            lambda tables: {shard: list(pairs) for shard, pairs in tables.domains_of_shard.items()}
        )
        # In a thread, so that reports do not wait for a listing of 100,000 rows.
        return await asyncio.to_thread(_encode_assignments, owned)

    @leader_only
    @allow(READONLY, ADMIN)
    async def list_shard_reports(
        self, request: pb.ListShardReportsRequest, call: Call
    ) -> pb.ListShardReportsResponse:
        leader = self.leadership.require()
        await self._proposer.barrier(call)
        self.leadership.require(leader)
        reports, now = [], self._now()
        for shard, state in leader.soft.reported(request.shard_id):
            entry = pb.ShardReportSnapshot(
                shard_id=shard,
                cycle=state.cycle,
                received_at_unix_ns=state.reported.wall_ns if state.reported is not None else 0,
                received_age_nanos=state.reported.age_ns(now) if state.reported is not None else 0,
                shortfalls=[shortfall_to_proto(item, with_requirements=False) for item in state.shortfalls],
            )
            if state.summary is not None:
                entry.summary.CopyFrom(summary_to_proto(state.summary))
            reports.append(entry)
        return pb.ListShardReportsResponse(reports=reports)

    @leader_only
    @allow(ADMIN)
    async def join_raft_cluster(
        self, request: pb.JoinRaftClusterRequest, _call: Call
    ) -> pb.JoinRaftClusterResponse:
        _require(request, "node_id", "raft_address")
        await self._log.admit(request.node_id, request.raft_address)
        return pb.JoinRaftClusterResponse()

    @leader_only
    @allow(ADMIN)
    async def snapshot_save(
        self, _request: pb.SnapshotSaveRequest, _call: Call
    ) -> AsyncIterator[pb.SnapshotSaveChunk]:
        snapshot = await self._log.snapshot()
        voters = self._log.status().voters
        archive = await asyncio.to_thread(make_archive, snapshot, voters, self._now().wall_ns)
        yield pb.SnapshotSaveChunk(meta_json=archive.meta.text())
        for offset in range(0, len(archive.state), CHUNK_BYTES):
            yield pb.SnapshotSaveChunk(data=archive.state[offset : offset + CHUNK_BYTES])

    def _check_key(self, shard: str, key: str) -> None:
        """Refuse a domain that would never count: its shard divides a shared provider by another key."""
        state = self.leadership.require().soft.of(shard)
        partition_key = "" if state is None or state.summary is None else state.summary.partition_key
        if partition_key and key != partition_key:
            raise RpcRefusedError(
                Code.INVALID_ARGUMENT,
                f"topology_key: found {key}, allowed is {partition_key}, the partition key of shard {shard}",
            )

    def _blockers(self) -> list[str]:
        leader = self.leadership.current
        return [] if leader is None else self._state_machine.read(leader.blockers)


def _encode_assignments(owned: dict[str, list[tuple[str, str]]]) -> bytes:
    response = pb.ListDomainAssignmentsResponse()
    for shard in sorted(owned):
        for key, value in sorted(owned[shard]):
            response.assignments.add(topology_key=key, topology_value=value, shard_id=shard)
    return response.SerializeToString()


def _require(request: object, *fields: str) -> None:
    for field in fields:
        if not getattr(request, field):
            raise RpcRefusedError(
                Code.INVALID_ARGUMENT, f"{field}: found nothing, allowed is a text that is not empty"
            )


def _accepted(result: Result) -> None:
    if not result["ok"]:
        code = _CODES.get(result["refusal"], Code.UNAVAILABLE)
        raise RpcRefusedError(code, result["detail"])
