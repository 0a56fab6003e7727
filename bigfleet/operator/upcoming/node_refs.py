"""Notices that the Node of a machine has appeared, before or after its UpcomingNode.

Must never: write by itself; what it finds goes into the queue of the machine.
Rules: `operator#node-identity`.
"""

import asyncio
from collections.abc import Callable, Iterable

from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.node_identity import MachineNames, find_node, reference_to
from bigfleet.operator.core.views import NodeView, UpcomingNodeView


class NodeRefWatcher:
    """Watches Nodes and UpcomingNodes for pairs whose reference is not written yet."""

    def __init__(self, caches: OperatorCaches, found: Callable[[str], None]) -> None:
        self._caches, self._found = caches, found

    async def run(self) -> None:
        """Check each change until cancelled."""
        nodes, upcoming = self._caches.nodes.subscribe(), self._caches.upcoming.subscribe()

        async def of_nodes() -> None:
            while True:
                node = (await nodes.take()).after
                if node is not None:
                    self._check(self._candidates(node))

        async def of_upcoming() -> None:
            while True:
                view = (await upcoming.take()).after
                if view is not None:
                    self._check([view])

        async with asyncio.TaskGroup() as group:
            group.create_task(of_nodes())
            group.create_task(of_upcoming())

    def _candidates(self, node: NodeView) -> Iterable[UpcomingNodeView]:
        """Return the UpcomingNodes that this Node could belong to."""
        labelled = self._caches.upcoming_of(node.machine_id) if node.machine_id else None
        candidates = (
            labelled,
            *self._caches.upcoming_provided(node),
            *self._caches.upcoming_named_as(node),
        )
        found = {view.uid: view for view in candidates if view is not None}
        return found.values()

    def _check(self, candidates: Iterable[UpcomingNodeView]) -> None:
        for view in candidates:
            node = find_node(MachineNames((view.machine_id,), view.machine_id), view, self._caches).node
            if node is not None and view.node_ref != reference_to(node):
                self._found(view.machine_id)
