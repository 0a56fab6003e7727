"""What the operator knows of its cluster: four kinds, and pods if it may, listed and watched.

Must never: hold up the start for want of pods; an installation whose role is older goes on without them.
Rules: `operator#start-order`, `operator#pod-cache`, `operator#node-identity`, `operator#kubernetes-client`; ADR-0266.
"""

from typing import Final

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.rng import Rng
from bigfleet.kube.cache_set import CacheSet
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.reflector import ReflectorPolicy
from bigfleet.kube.resources import (
    AVAILABLE_CAPACITIES,
    CAPACITY_REQUESTS,
    NODES,
    PODS,
    UPCOMING_NODES,
    ObjectKey,
)
from bigfleet.kube.store import IndexKeys, Store
from bigfleet.kube.transport import Document
from bigfleet.operator.core.contribution import Contributions
from bigfleet.operator.core.names import upcoming_name
from bigfleet.operator.core.pods import ClusterPod, ClusterPods
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

PODS_STALE_S: Final = 180.0
"""Without the right to watch the first list stays for ever; a watch that lives says something every two minutes."""


class OperatorCaches(CacheSet):
    """The stores; also the `NodeLookup` of `bigfleet.operator.core.node_identity`."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        rng: Rng,
        policy: ReflectorPolicy | None = None,
        *,
        watch_pods: bool = False,
    ) -> None:
        super().__init__(client, clock, policy)
        contributions = Contributions()

        def request_view(document: Document) -> RequestView:
            metadata = document["metadata"]
            return view_of(metadata, document.get("status"), contributions.of(metadata, document.get("spec")))

        by_pod: dict[str, IndexKeys[RequestView]] = {
            "pod": lambda view: [view.pod_uid] if view.pod_uid else []
        }
        self.requests: Store[RequestView] = Store(
            request_view, clock=clock, indexes=by_pod if watch_pods else None
        )
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
        self.pods: Store[ClusterPod] | None = None
        """None without `--watch-pods`. Until it is synchronised it says nothing about the cluster."""
        if watch_pods:
            self.pods = Store(
                ClusterPods().of,
                clock=clock,
                indexes={
                    "node": lambda pod: [pod.node] if pod.node else [],
                    "stuck": lambda pod: ["yes"] if pod.is_stuck else [],
                },
            )
            self.fill(self.pods, Selection(PODS), rng.stream("reflector pods"), required=False)

    async def wait_for_pods(self, seconds: float) -> bool:
        """Return whether pods are complete, after so many seconds at most; True at once if none are watched."""
        if self.pods is None:
            return True
        try:
            async with timeout(self._clock, seconds):
                await self.pods.wait_synced()
        except TimeoutError:
            return False
        return True

    @property
    def known_pods(self) -> Store[ClusterPod] | None:
        """The pods if they are watched, complete, and not older than what the watch of a live API server leaves unsaid."""
        age_s = self.pods.age_s() if self.pods is not None else None
        return self.pods if age_s is not None and age_s < PODS_STALE_S else None

    def pods_on(self, node: str) -> tuple[ClusterPod, ...]:
        """Return the pods that are bound to a Node, and not finished."""
        return self.pods.by_index("node", node) if self.pods is not None else ()

    def stuck_pods(self) -> tuple[ClusterPod, ...]:
        """Return the pods of which the scheduler says that no node takes them."""
        return self.pods.by_index("stuck", "yes") if self.pods is not None else ()

    def requests_of(self, pod: ClusterPod) -> tuple[RequestView, ...]:
        """Return the requests that say which pod they are for, as those of the pod controller do."""
        return self.requests.by_index("pod", pod.uid) if self.pods is not None else ()

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
