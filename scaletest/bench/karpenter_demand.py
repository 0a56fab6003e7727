"""Pods to needs as a cluster does it: the pod controller's core, the operator's core, and the roll-up as on the wire.

Must never: leave a pod out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.contribution import Contribution, Contributions, DemandRow
from bigfleet.operator.core.request_status import view_of
from bigfleet.operator.core.rollup import KeptDemand, SurplusKey
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS
from bigfleet.podcontroller.core.request_plan import request_document, request_names
from bigfleet.podcontroller.core.views import pod_view
from bigfleet.v1alpha1.capacity_pb2 import CapacityNeed, ClusterCapacityNeeds
from bigfleet.wire.operator_frames import encoded_row
from bigfleet.wire.rollups import RollupReader

CLUSTER: Final = "bench"
_ALL_ROWS: Final = 1 << 30

Document = dict[str, Any]


class ClusterDemand:
    """The demand of some pods, and what is asked for on top of it."""

    def __init__(self, pods: Sequence[Document]) -> None:
        self._kept, self._reader = KeptDemand(), RollupReader(CLUSTER)
        self._encoded: dict[DemandRow, bytes] = {}
        self._found: dict[str, Contribution] = {}
        project, contributions = pod_view(NO_DEFAULTS, exclude_daemonsets=True), Contributions()
        for pod in pods:
            view = project(pod)
            if view is None:
                raise ValueError(f"pod {pod['metadata']['name']}: left out by the pod controller")
            request = request_document(view, request_names(view)[0])
            metadata = request["metadata"]
            found = contributions.of(metadata, request["spec"])
            if not isinstance(found, Contribution):
                raise ValueError(f"pod {pod['metadata']['name']}: left out by the operator, {found}")
            self._found[view.key.name] = found
            self._kept.put(view.key, view_of(metadata, None, found))

    def needs(self) -> tuple[Need, ...]:
        """Return what the shard reads of the roll-up."""
        for row, added_up in self._kept.take_changed(_ALL_ROWS):
            if added_up is None:
                self._encoded.pop(row, None)
            else:
                self._encoded[row] = encoded_row(
                    row.profile,
                    added_up.total,
                    added_up.unit,
                    row.group,
                    max_units=row.max_units,
                    for_fragments=row.for_fragments,
                )
        rows = [CapacityNeed.FromString(self._encoded[row]) for row in self._kept.order()]
        frame = ClusterCapacityNeeds(cluster_id=CLUSTER, timestamp_unix_nanos=1, needs=rows)
        return self._reader.read(frame.SerializeToString()).needs

    def put_surplus(self, surplus: Mapping[SurplusKey, Resources]) -> bool:
        """Replace what is asked for on top of the sum; return whether that changes the roll-up."""
        return self._kept.put_surplus(surplus)

    def sums(self) -> Mapping[DemandRow, tuple[Resources, Resources]]:
        """Return total and unit of the rows, without what is asked for on top."""
        sums: dict[DemandRow, tuple[Resources, Resources]] = {}
        for row, amounts in map(self.of_pod, self._found):
            total, unit = sums.get(row, (ZERO, ZERO))
            sums[row] = (total + amounts, unit.maximum(amounts))
        return sums

    def of_pod(self, name: str) -> tuple[DemandRow, Resources]:
        """Return the row of a pod, and what it asks for."""
        found = self._found[name]
        return found.row, _amounts(found)


def _amounts(found: Contribution) -> Resources:
    return Resources((name, nano) for name, nano, _ in found.amounts.entries)
