"""The two services by which a shard is read, as their callers and the shard name them.

Rules: `wire#inspection`, `dashboard#insight-service`.
"""

from typing import Final

from bigfleet.aio.service import ServiceSpec
from bigfleet.insight.v1 import insight_pb2 as i
from bigfleet.v1alpha1 import shardread_pb2 as r

SHARD_READ: Final = ServiceSpec(r.DESCRIPTOR.services_by_name["ShardRead"])
INSPECT_NEEDS: Final = SHARD_READ.server_stream("InspectNeeds", r.InspectNeedsRequest, r.InspectNeedsResponse)

INSIGHT: Final = ServiceSpec(i.DESCRIPTOR.services_by_name["InsightService"])
GET_STATUS: Final = INSIGHT.unary("GetStatus", i.GetStatusRequest, i.GetStatusResponse)
WATCH_CYCLES: Final = INSIGHT.server_stream("WatchCycles", i.WatchCyclesRequest, i.WatchCyclesResponse)
LIST_CYCLES: Final = INSIGHT.server_stream("ListCycles", i.ListCyclesRequest, i.ListCyclesResponse)
LIST_MACHINES: Final = INSIGHT.server_stream("ListMachines", i.ListMachinesRequest, i.ListMachinesResponse)
LIST_NEEDS: Final = INSIGHT.server_stream("ListNeeds", i.ListNeedsRequest, i.ListNeedsResponse)
LIST_DECISIONS: Final = INSIGHT.server_stream(
    "ListDecisions", i.ListDecisionsRequest, i.ListDecisionsResponse
)
LIST_SHORTFALLS: Final = INSIGHT.unary("ListShortfalls", i.ListShortfallsRequest, i.ListShortfallsResponse)
EXPLAIN_NEED: Final = INSIGHT.unary("ExplainNeed", i.ExplainNeedRequest, i.ExplainNeedResponse)
EXPLAIN_MACHINE: Final = INSIGHT.unary("ExplainMachine", i.ExplainMachineRequest, i.ExplainMachineResponse)
GET_SNAPSHOT: Final = INSIGHT.server_stream("GetSnapshot", i.GetSnapshotRequest, i.GetSnapshotResponse)
