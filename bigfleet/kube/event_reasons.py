"""The reason of every Kubernetes event that BigFleet writes; people search for them, so they must not change.

Rules: `operator#operator-metrics`.
"""

from collections.abc import Mapping
from typing import Final

# The operator, on Nodes and UpcomingNodes.
RECLAIM_STARTED: Final = "ReclaimStarted"
RECLAIM_UNRESOLVED: Final = "ReclaimUnresolved"
DRAINED: Final = "Drained"
DRAIN_FAILED: Final = "DrainFailed"

# The operator, on a CapacityRequest that is left out of the demand.
NOT_REPORTED: Final[Mapping[str, str]] = {
    "operator": "InvalidOperator",
    "requirement": "InvalidRequirement",
    "quantity": "InvalidQuantity",
    "spread": "InvalidSpread",
    "selector": "InvalidSelector",
}
"""From the label of the metric to the reason of the event, which is also that of the condition `Reported`."""

# The operator, on a few CapacityRequests of a roll-up that the shard refused as a whole.
ROLLUP_REFUSED: Final = "RollUpRefused"

# The pod controller, on pods.
CAPACITY_REQUESTED: Final = "CapacityRequested"
BRINGING_NODE: Final = "BringingNode"
DEMAND_NOT_EXACT: Final = "DemandNotExact"
CAPACITY_REQUEST_REFUSED: Final = "CapacityRequestRefused"
