"""The caches of the pod controller: pods, its own requests and, for events, UpcomingNodes.

Rules: `operator#one-request-per-pod`, `operator#roles`, `operator#kubernetes-client`.
"""

from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import Rng
from bigfleet.kube.cache_set import CacheSet
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.crds.capacity_request import OWNED_BY_POD
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, UPCOMING_NODES
from bigfleet.kube.store import Store
from bigfleet.podcontroller.core.penalties import PenaltyDefaults
from bigfleet.podcontroller.core.views import (
    OwnedRequest,
    PodState,
    PodView,
    UpcomingNodeShape,
    owned_request,
    pod_view,
    upcoming_node_shape,
)

SYNC_PATIENCE_S: Final = 600.0
"""Long, because a restart would only add load to an API server that is slow already."""
BY_POD: Final = "pod"
WAITING: Final = "waiting"
_YES: Final = "yes"


class PodControllerCaches(CacheSet):
    """Everything that the controller knows of its cluster."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        rng: Rng,
        defaults: PenaltyDefaults,
        exclude_daemonsets: bool,
        with_upcoming: bool,
    ) -> None:
        super().__init__(client, clock)
        self.pods: Store[PodView] = Store(
            pod_view(defaults, exclude_daemonsets=exclude_daemonsets),
            clock=clock,
            indexes={
                BY_POD: lambda pod: (pod.id,),
                WAITING: lambda pod: (_YES,) if pod.state is PodState.LIVE and not pod.scheduled else (),
            },
        )
        self.fill(self.pods, Selection(PODS), rng.stream("pods"))
        self.requests: Store[OwnedRequest] = Store(
            owned_request, clock=clock, indexes={BY_POD: lambda request: (request.pod_id,)}
        )
        self.fill(self.requests, Selection(CAPACITY_REQUESTS, labels=OWNED_BY_POD), rng.stream("requests"))
        self.upcoming: Store[UpcomingNodeShape] | None = None
        if with_upcoming:
            self.upcoming = Store(upcoming_node_shape, clock=clock)
            # Not required: events are advice, demand is not.
            self.fill(self.upcoming, Selection(UPCOMING_NODES), rng.stream("upcoming"), required=False)

    def not_ready(self) -> list[str]:
        """Return what is still missing, one short line each."""
        return [f"{kind}: first list not complete" for kind in self.missing()]

    def pod(self, pod_id: str) -> PodView | None:
        """Return the pod of an id."""
        return next(iter(self.pods.by_index(BY_POD, pod_id)), None)

    def requests_of(self, pod_id: str) -> tuple[OwnedRequest, ...]:
        """Return every request that has the UID of a pod, in the pod's own namespace."""
        return self.requests.by_index(BY_POD, pod_id)

    def waiting_pods(self) -> list[PodView]:
        """Return the pods that have no node yet, oldest first."""
        return sorted(self.pods.by_index(WAITING, _YES), key=lambda pod: (pod.created, pod.key))
