"""What the operator knows of its cluster: four kinds, listed and watched.

Why: every decision reads a cache, and a roll-up made from a cache that is not complete would read as "no demand".
Must never: be read for a roll-up before `wait_synced` has returned.
Rules: operator 3.1 step 6, 7.2, 15.6.
"""

import asyncio
from collections.abc import Iterator

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.rng import Rng
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.link import Document
from bigfleet.kube.reflector import Reflector, ReflectorPolicy
from bigfleet.kube.resources import (
    AVAILABLE_CAPACITIES,
    CAPACITY_REQUESTS,
    NODES,
    UPCOMING_NODES,
    ObjectKey,
    Resource,
)
from bigfleet.kube.store import Store
from bigfleet.model.errors import BigFleetError
from bigfleet.operator.core.contribution import Contributions
from bigfleet.operator.core.names import upcoming_name
from bigfleet.operator.core.request_status import RequestView, view_of
from bigfleet.operator.core.views import (
    CapacityView,
    NodeView,
    UpcomingView,
    capacity_view,
    node_view,
    upcoming_view,
)


class CacheSyncError(BigFleetError):
    """The first lists did not come in time."""

    def __init__(self, kinds: list[str], seconds: float) -> None:
        super().__init__(f"not synchronised within {seconds:g} s: {', '.join(kinds)}")
        self.kinds = kinds


class Caches:
    """The four stores and what fills them; also the Nodes as `bigfleet.operator.core.node_identity` looks them up."""

    def __init__(
        self, client: KubeClient, clock: Clock, rng: Rng, policy: ReflectorPolicy | None = None
    ) -> None:
        self._clock = clock
        contributions = Contributions()

        def request_view(document: Document) -> RequestView:
            metadata = document["metadata"]
            return view_of(metadata, document.get("status"), contributions.of(metadata, document.get("spec")))

        self.requests: Store[RequestView] = Store(request_view, clock=clock)
        self.upcoming: Store[UpcomingView] = Store(
            upcoming_view,
            clock=clock,
            indexes={
                "node": lambda view: [str(view.node_ref["name"])] if view.node_ref.get("name") else [],
                "provider": lambda view: [view.provider_id] if view.provider_id else [],
            },
        )
        self.capacities: Store[CapacityView] = Store(capacity_view, clock=clock)
        self.nodes: Store[NodeView] = Store(
            node_view,
            clock=clock,
            indexes={
                "machine": lambda view: [view.machine_id] if view.machine_id else [],
                "provider": NodeView.provider_ids,
                "draining": lambda view: ["yes"] if view.reclaim_deadline else [],
            },
        )
        self._stores: dict[
            Resource, Store[RequestView] | Store[UpcomingView] | Store[CapacityView] | Store[NodeView]
        ]
        self._stores = {
            CAPACITY_REQUESTS: self.requests,
            UPCOMING_NODES: self.upcoming,
            AVAILABLE_CAPACITIES: self.capacities,
            NODES: self.nodes,
        }
        self.reflectors = {
            resource.plural: Reflector(
                client,
                Selection(resource),
                store,
                clock=clock,
                stream=rng.stream(f"reflector {resource.plural}"),
                policy=policy,
            )
            for resource, store in self._stores.items()
        }

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors.values():
                group.create_task(reflector.run())

    async def wait_synced(self, seconds: float) -> None:
        """Return once every first list is complete; CacheSyncError when that takes too long."""
        try:
            async with timeout(self._clock, seconds):
                for store in self._stores.values():
                    await store.wait_synced()
        except TimeoutError:
            raise CacheSyncError(self.missing(), seconds) from None

    def missing(self) -> list[str]:
        """Return the kinds whose first list is not complete."""
        return [resource.plural for resource, store in self._stores.items() if not store.synced]

    def ages(self) -> Iterator[tuple[str, float]]:
        """Give for each kind how long ago it was known to be in step."""
        for resource, store in self._stores.items():
            age_s = store.age_s()
            if age_s is not None:
                yield resource.plural, age_s

    def upcoming_of(self, machine_id: str) -> UpcomingView | None:
        """Return the object of a machine."""
        return self.upcoming.get(ObjectKey("", upcoming_name(machine_id)))

    def upcoming_on(self, node: str) -> tuple[UpcomingView, ...]:
        """Return the objects that name a Node."""
        return self.upcoming.by_index("node", node)

    # ---- the Nodes, as they are looked up

    def named(self, name: str) -> NodeView | None:
        return self.nodes.get(ObjectKey("", name)) if name else None

    def labelled(self, machine_id: str) -> tuple[NodeView, ...]:
        return self.nodes.by_index("machine", machine_id)

    def provided(self, provider_id: str) -> tuple[NodeView, ...]:
        return self.nodes.by_index("provider", provider_id)
