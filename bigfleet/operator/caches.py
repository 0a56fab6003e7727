"""What the operator knows of its cluster: four kinds, listed and watched.

Rules: `operator#start-order`, `operator#node-identity`, `operator#kubernetes-client`.
"""

from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import Rng
from bigfleet.kube.cache_set import CacheSet
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.reflector import ReflectorPolicy
from bigfleet.kube.resources import (
    AVAILABLE_CAPACITIES,
    CAPACITY_REQUESTS,
    NODES,
    UPCOMING_NODES,
    ObjectKey,
)
from bigfleet.kube.store import Store
from bigfleet.kube.transport import Document
from bigfleet.operator.core.contribution import Contributions
from bigfleet.operator.core.names import upcoming_name
from bigfleet.operator.core.request_status import RequestView, view_of
from bigfleet.operator.core.views import (
    CapacityView,
    NodeView,
    UpcomingNodeView,
    capacity_view,
    node_view,
    provider_ids,
    upcoming_node_view,
)


class OperatorCaches(CacheSet):
    """The four stores; also the `NodeLookup` of `bigfleet.operator.core.node_identity`."""

    def __init__(
        self, client: KubeClient, clock: Clock, rng: Rng, policy: ReflectorPolicy | None = None
    ) -> None:
        super().__init__(client, clock, policy)
        contributions = Contributions()

        def request_view(document: Document) -> RequestView:
            metadata = document["metadata"]
            return view_of(metadata, document.get("status"), contributions.of(metadata, document.get("spec")))

        self.requests: Store[RequestView] = Store(request_view, clock=clock)
        self.upcoming: Store[UpcomingNodeView] = Store(
            upcoming_node_view,
            clock=clock,
            indexes={
                "node": lambda view: [str(view.node_ref["name"])] if view.node_ref.get("name") else [],
                "provider": lambda view: [view.provider_id] if view.provider_id else [],
                "host": lambda view: provider_ids(view.provider_id),
            },
        )
        self.capacities: Store[CapacityView] = Store(capacity_view, clock=clock)
        self.nodes: Store[NodeView] = Store(
            node_view,
            clock=clock,
            indexes={
                "machine": lambda view: [view.machine_id] if view.machine_id else [],
                "provider": NodeView.provider_ids,
                "host": NodeView.host_names,
                "draining": lambda view: ["yes"] if view.reclaim_deadline else [],
            },
        )
        for resource, store in (
            (CAPACITY_REQUESTS, self.requests),
            (UPCOMING_NODES, self.upcoming),
            (AVAILABLE_CAPACITIES, self.capacities),
            (NODES, self.nodes),
        ):
            self.fill(store, Selection(resource), rng.stream(f"reflector {resource.plural}"))

    def upcoming_of(self, machine_id: str) -> UpcomingNodeView | None:
        """Return the UpcomingNode of a machine."""
        return self.upcoming.get(ObjectKey("", upcoming_name(machine_id)))

    def upcoming_on(self, node: str) -> tuple[UpcomingNodeView, ...]:
        """Return the UpcomingNodes that name a Node."""
        return self.upcoming.by_index("node", node)

    def upcoming_provided(self, node: NodeView) -> list[UpcomingNodeView]:
        """Return the UpcomingNodes whose provider id is that of a Node."""
        return [view for name in node.provider_ids() for view in self.upcoming.by_index("provider", name)]

    def upcoming_named_as(self, node: NodeView) -> list[UpcomingNodeView]:
        """Return the UpcomingNodes that the naming of the cluster may tie to a Node."""
        hosts = node.host_names()
        by_id = [self.upcoming_of(name) for name in (*hosts, *node.provider_ids()[1:])]
        by_name = [self.upcoming.get(ObjectKey("", name)) for name in hosts]
        by_provider = [view for name in hosts for view in self.upcoming.by_index("host", name)]
        return [view for view in (*by_id, *by_name, *by_provider) if view is not None]

    # ---- NodeLookup

    def named(self, name: str) -> NodeView | None:
        return self.nodes.get(ObjectKey("", name)) if name else None

    def labelled(self, machine_id: str) -> tuple[NodeView, ...]:
        return self.nodes.by_index("machine", machine_id)

    def provided(self, provider_id: str) -> tuple[NodeView, ...]:
        return self.nodes.by_index("provider", provider_id)

    def hosted(self, host: str) -> tuple[NodeView, ...]:
        return self.nodes.by_index("host", host)
