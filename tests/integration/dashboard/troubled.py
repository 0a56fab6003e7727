"""Insight services that change what a shard says: a dead provider, a stock-out, needs that wait for machines; or no trouble at all."""

from collections.abc import AsyncIterator

from bigfleet.aio.identity import ADMIN, READONLY
from bigfleet.aio.net import Call
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.transport.gates import allow
from bigfleet.v1alpha1 import provider_pb2
from bigfleet.v1alpha1 import shardread_pb2 as read


class TroubledInsight(InsightService):
    """A shard whose provider died twelve seconds ago; each need runs one machine and waits for two."""

    @allow(READONLY, ADMIN)
    async def get_status(self, request: pb.GetStatusRequest, call: Call) -> pb.GetStatusResponse:
        answer = await super().get_status(request, call)
        answer.last_reconcile_unix_nanos += 3_600 * 10**9  # listed when its clock was an hour fast
        answer.provider.CopyFrom(
            pb.ProviderStatus(
                unreachable_for_seconds=12.4,
                failures=3,
                last_error="UNAVAILABLE: connection refused",
                next_probe_in_seconds=4.0,
                held_off_actions=6,
                last_listing_age_seconds=17.0,
            )
        )
        del answer.problems[:]
        answer.problems.add(
            kind="provider_unreachable", text="provider unreachable for 12 s", for_seconds=12.4
        )
        answer.problems.add(kind="shortfalls", text="3 needs miss 6 machines")
        del answer.cool_offs[:]
        answer.cool_offs.add(
            instance_type="g8",
            zone="zone-b",
            capacity_type="Spot",
            error="no capacity for g8 in zone-b",
            failures=2,
            next_attempt_in_seconds=40.0,
            machines=6,
        )
        answer.needs_covered = 0
        answer.coverage.CopyFrom(coverage(answer.needs))
        for cluster in answer.clusters:
            cluster.coverage.CopyFrom(coverage(cluster.rows))
        return answer

    @allow(READONLY, ADMIN)
    async def list_needs(
        self, request: pb.ListNeedsRequest, call: Call
    ) -> AsyncIterator[pb.ListNeedsResponse | bytes]:
        async for frame in super().list_needs(request, call):
            message = pb.ListNeedsResponse.FromString(frame) if isinstance(frame, bytes) else frame
            for need in message.batch.needs:
                need.satisfied = True  # in-flight credit satisfies the verdict
                need.coverage.CopyFrom(coverage(1))
            yield message


class CalmInsight(InsightService):
    """A shard that reaches its provider and covers every need."""

    @allow(READONLY, ADMIN)
    async def get_status(self, request: pb.GetStatusRequest, call: Call) -> pb.GetStatusResponse:
        answer = await super().get_status(request, call)
        answer.provider.CopyFrom(pb.ProviderStatus(reachable=True, last_listing_age_seconds=3.0))
        del answer.problems[:]
        answer.needs_short = answer.shortfalls = 0
        answer.needs_covered = answer.needs
        answer.coverage.CopyFrom(read.NeedCoverage(running=20, joining=2, on_order=4))
        return answer


class DamagedInsight(InsightService):
    """A shard whose status holds an amount that cannot be read."""

    @allow(READONLY, ADMIN)
    async def get_status(self, request: pb.GetStatusRequest, call: Call) -> pb.GetStatusResponse:
        answer = await super().get_status(request, call)
        answer.coverage.missing.resources["cpu"] = "a lot"
        return answer


def coverage(needs: int) -> read.NeedCoverage:
    """Return what so many needs have and wait for."""
    return read.NeedCoverage(
        running=needs,
        wanted=2 * needs,
        missing=provider_pb2.Resources(resources={"cpu": str(8 * needs)}),
        held_off="provider-unreachable",
        waiting_seconds=11.0,
    )
