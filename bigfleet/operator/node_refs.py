"""Noticing that a machine's Node has appeared, whichever of the two was seen first.

Must never: write by itself; what it finds goes into the lane of the machine.
Rules: operator 7.2 (filled when an UpcomingNode or a Node appears or changes).
"""

import asyncio
from collections.abc import Callable, Iterable

from bigfleet.operator.caches import Caches
from bigfleet.operator.core.node_identity import Names, find_node, reference_to
from bigfleet.operator.core.views import NodeView, UpcomingView


class NodeRefs:
    """Watches both kinds for pairs that are not noted yet."""

    def __init__(self, caches: Caches, found: Callable[[str], None]) -> None:
        self._caches, self._found = caches, found

    async def run(self) -> None:
        """Look at each change until cancelled."""
        nodes, upcoming = self._caches.nodes.feed(), self._caches.upcoming.feed()

        async def of_nodes() -> None:
            while True:
                node = (await nodes.take()).after
                if node is not None:
                    self._look(self._candidates(node))

        async def of_upcoming() -> None:
            while True:
                view = (await upcoming.take()).after
                if view is not None:
                    self._look([view])

        async with asyncio.TaskGroup() as group:
            group.create_task(of_nodes())
            group.create_task(of_upcoming())

    def _candidates(self, node: NodeView) -> Iterable[UpcomingView]:
        """Return the objects that this Node could belong to."""
        by_id = (self._caches.upcoming_of(name) for name in (node.name, node.machine_id) if name)
        by_provider = (
            view for name in node.provider_ids() for view in self._caches.upcoming.by_index("provider", name)
        )
        found = {view.uid: view for view in (*by_id, *by_provider) if view is not None}
        return found.values()

    def _look(self, candidates: Iterable[UpcomingView]) -> None:
        for view in candidates:
            node = find_node(Names((view.machine_id,), view.machine_id), view, self._caches).node
            if node is not None and view.node_ref != reference_to(node):
                self._found(view.machine_id)
