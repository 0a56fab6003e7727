"""Marking a Node for a reclaim, and lifting the mark.

Why: intent and cordon land in one patch, so that a crash loses neither; what only we set, only we lift.
Called by: reclaims, drains, node states.
Must never: lift a cordon that somebody else made, or leave a deadline on a Node whose drain is over.
Rules: operator 7.3 steps 2 and 5, 7.6.
"""

from typing import Any

import structlog

from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import KubeError
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import NODES, ObjectKey
from bigfleet.operator.caches import Caches
from bigfleet.operator.core.names import CORDONED_BY, RECLAIM_DEADLINE, RECLAIM_ID
from bigfleet.operator.core.views import NodeView
from bigfleet.operator.meters import Meters


class Cordons:
    """The patches of Nodes."""

    def __init__(self, client: KubeClient, caches: Caches, meters: Meters) -> None:
        self._client, self._caches, self._meters = client, caches, meters
        self._log = structlog.get_logger("bigfleet.operator")

    async def set(self, node: NodeView, instruction_id: str, deadline: str) -> None:
        """Cordon a Node and write down why and until when, in one step."""
        annotations = {RECLAIM_ID: instruction_id, RECLAIM_DEADLINE: deadline}
        if not node.unschedulable:
            annotations[CORDONED_BY] = instruction_id
        await self._patch(
            node.name, {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}}
        )

    async def tighten(self, node: str, deadline: str) -> None:
        """Write down an earlier deadline."""
        await self._patch(node, {"metadata": {"annotations": {RECLAIM_DEADLINE: deadline}}})

    async def drain_is_over(self, node: str) -> None:
        """Take the deadline off; the cordon and the reason stay for people to see."""
        known = self._caches.named(node)
        if known is None or known.reclaim_deadline:
            await self._patch(node, {"metadata": {"annotations": {RECLAIM_DEADLINE: None}}})

    async def lift(self, node: str) -> None:
        """Take all marks off, and the cordon too if it is ours."""
        known = self._caches.named(node)
        marks = dict.fromkeys((RECLAIM_ID, RECLAIM_DEADLINE, CORDONED_BY))
        patch: dict[str, Any] = {"metadata": {"annotations": marks}}
        ours = known is not None and bool(known.cordoned_by)
        if ours:
            patch["spec"] = {"unschedulable": None}
        await self._patch(node, patch)
        if ours:
            self._meters.count("uncordons_total")

    def log_refusal(self, node: str, error: KubeError) -> None:
        """Say that a Node could not be patched and will not be."""
        self._log.error("node_patch_refused", node=node, error=str(error))

    async def _patch(self, node: str, patch: dict[str, Any]) -> None:
        document = await self._client.merge_patch(NODES, ObjectKey("", node), patch, urgency=Urgency.NOW)
        self._caches.nodes.observe(document)
