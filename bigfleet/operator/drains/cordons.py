"""The patches of Nodes for a reclaim: cordon, deadline, and their removal.

Why: cordon and deadline are one patch, so that a crash loses neither.
Must never: remove a cordon that another actor set, or leave a deadline on a Node whose drain is over.
Rules: `operator#reclaim-order`, `operator#serving-ends-reclaim`; ADR-0165, ADR-0166.
"""

from typing import Any

import structlog

from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import KubeError
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import NODES, ObjectKey
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.names import CORDONED_BY, RECLAIM_DEADLINE, RECLAIM_ID
from bigfleet.operator.core.views import NodeView
from bigfleet.operator.unconfirmed_writes import UnconfirmedWrites


class Cordons:
    """Patches the Nodes of one cluster."""

    def __init__(self, client: KubeClient, caches: OperatorCaches, metrics: Metrics) -> None:
        self._client, self._caches, self._metrics = client, caches, metrics
        self._unconfirmed = UnconfirmedWrites()
        self._log = structlog.get_logger("bigfleet.operator")

    async def set(self, node: NodeView, instruction_id: str, deadline: str) -> None:
        """Cordon a Node and write the instruction and its deadline onto it, in one patch."""
        # Read at each attempt: a person may have cordoned the Node meanwhile, or an earlier attempt may have succeeded.
        known = await self._current(node.name) or node
        annotations = {RECLAIM_ID: instruction_id, RECLAIM_DEADLINE: deadline}
        if known.cordoned_by or not known.unschedulable:
            annotations[CORDONED_BY] = instruction_id
        await self._patch(
            node.name, {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}}
        )

    async def tighten(self, node: str, deadline: str) -> None:
        """Write an earlier deadline."""
        await self._patch(node, {"metadata": {"annotations": {RECLAIM_DEADLINE: deadline}}})

    async def clear_deadline(self, node: str) -> None:
        """Remove the deadline; the cordon and the instruction stay for people to see."""
        known = await self._current(node)
        if known is not None and known.reclaim_deadline:
            await self._patch(node, {"metadata": {"annotations": {RECLAIM_DEADLINE: None}}})

    async def lift(self, node: str) -> None:
        """Remove our annotations, and the cordon if it is ours; nothing is sent if there are none."""
        known = await self._current(node)
        if known is None or not (known.reclaim_id or known.reclaim_deadline or known.cordoned_by):
            return
        annotations = dict.fromkeys((RECLAIM_ID, RECLAIM_DEADLINE, CORDONED_BY))
        patch: dict[str, Any] = {"metadata": {"annotations": annotations}}
        ours = bool(known.cordoned_by)
        if ours:
            patch["spec"] = {"unschedulable": None}
        await self._patch(node, patch)
        if ours:
            self._metrics.counter("bigfleet_operator_uncordons_total").inc()

    def log_refusal(self, node: str, error: KubeError) -> None:
        """Log that a Node could not be patched and will not be."""
        self._log.error("node_patch_refused", node=node, error=str(error))

    async def _current(self, node: str) -> NodeView | None:
        """Return a Node from the cache, or from the API server where the cache may lag."""
        if node in self._unconfirmed:
            # By a list of one: the role has no right to get Nodes and needs none elsewhere.
            selection = Selection(NODES, fields=f"metadata.name={node}")
            with self._unconfirmed.track(node):
                found = await self._client.list_all(selection, urgency=Urgency.NOW)
            if not found:
                return None
            self._caches.nodes.observe(found[0])
        return self._caches.named(node)

    async def _patch(self, node: str, patch: dict[str, Any]) -> None:
        with self._unconfirmed.track(node):
            document = await self._client.merge_patch(NODES, ObjectKey("", node), patch, urgency=Urgency.NOW)
        self._caches.nodes.observe(document)
