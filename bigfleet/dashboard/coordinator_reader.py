"""Reads the coordinator: registry, domains, reports, and the state of each replica.

Must never: call anything but the three read calls.
Rules: `dashboard#sources`, `coordinator#calls`.
"""

from typing import Final

from bigfleet.aio.net import RpcError
from bigfleet.dashboard.core.observed import (
    DomainRow,
    ObservedCoordinator,
    ObservedReplica,
    ObservedReport,
    RegisteredShard,
)
from bigfleet.dashboard.sources import SourceError, SourceProblem, failed, here
from bigfleet.transport.coordinator import LIST_DOMAIN_ASSIGNMENTS, LIST_SHARD_REPORTS, LIST_SHARDS, facts_of
from bigfleet.transport.leader import LeaderClient, NoLeaderError
from bigfleet.v1alpha1 import capacity_pb2
from bigfleet.v1alpha1 import coordinator_pb2 as pb

TIMEOUT_S: Final = 5.0


class CoordinatorReader:
    """Reads the replica that leads."""

    def __init__(self, client: LeaderClient) -> None:
        self._client = client

    async def read(self, now: float) -> ObservedCoordinator:
        """Return everything the coordinator reports, dated by the time given; raises `SourceError`."""
        try:
            shards = (
                await self._client.unary(LIST_SHARDS, pb.ListShardsRequest(), timeout_s=TIMEOUT_S)
            ).message
            domains = (
                await self._client.unary(
                    LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest(), timeout_s=TIMEOUT_S
                )
            ).message
            reports = (
                await self._client.unary(
                    LIST_SHARD_REPORTS, pb.ListShardReportsRequest(), timeout_s=TIMEOUT_S
                )
            ).message
        except NoLeaderError as error:
            raise SourceError(
                SourceProblem.NO_LEADER, "no replica of the coordinator leads at present"
            ) from error
        except RpcError as error:
            raise failed("the coordinator", error) from error
        return ObservedCoordinator(
            tuple(_registered(row, now) for row in shards.shards),
            tuple(
                DomainRow(row.topology_key, row.topology_value, row.shard_id) for row in domains.assignments
            ),
            tuple(_report(row, now) for row in reports.reports),
            await self._replicas(),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _replicas(self) -> tuple[ObservedReplica, ...]:
        found = []
        for target in await self._client.targets():
            answer = await self._client.ask_one(
                target, LIST_SHARDS, pb.ListShardsRequest(), timeout_s=TIMEOUT_S
            )
            facts = facts_of(answer.trailing)
            silent = (
                failed("it", answer).text if isinstance(answer, RpcError) and not facts.raft_state else ""
            )
            found.append(
                ObservedReplica(
                    target[0],
                    facts.raft_state,
                    facts.membership,
                    facts.last_term,
                    facts.last_index,
                    silent,
                )
            )
        return tuple(found)


def _registered(row: pb.ShardRegistryEntry, now: float) -> RegisteredShard:
    heartbeat = here(now, row.last_heartbeat_age_nanos / 1e9, row.last_heartbeat_unix_ns)
    return RegisteredShard(row.shard_id, row.address, row.registered_at_unix_ns / 1e9, heartbeat)


def _report(row: pb.ShardReportSnapshot, now: float) -> ObservedReport:
    summary = row.summary
    return ObservedReport(
        row.shard_id,
        row.cycle,
        row.received_at_unix_ns,
        here(now, row.received_age_nanos / 1e9, row.received_at_unix_ns),
        summary.total_machines,
        summary.free_machines,
        dict(sorted(summary.per_instance_type_counts.items())),
        dict(sorted(summary.per_zone_counts.items())),
        summary.provider_address,
        tuple(
            {
                "priority": shortfall.priority,
                "deficit": dict(sorted(shortfall.deficit.resources.items())),
                "ageCycles": shortfall.age_cycles,
                "penaltyBucket": capacity_pb2.PenaltyBucket.Name(shortfall.interruption_penalty_bucket),
            }
            for shortfall in row.shortfalls
        ),
    )
