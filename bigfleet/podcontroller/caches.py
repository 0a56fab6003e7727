"""The caches of the pod controller: pods, its own requests, and, for events, upcoming nodes.

Why: what is missing for a pod is decided from memory; the API server is asked to change things only.
Must never: be read before both lists are complete; an empty cache says "no pods".
Rules: operator 12.1 (patience), 10 (upcoming nodes only with pod events), 15.6.
"""

import asyncio
from typing import Final

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.rng import Rng
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.crds.capacity_request import OWNED_BY_POD
from bigfleet.kube.reflector import Reflector
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, UPCOMING_NODES
from bigfleet.kube.store import Store
from bigfleet.model.errors import BigFleetError
from bigfleet.podcontroller.core.penalties import PenaltyDefaults
from bigfleet.podcontroller.core.views import (
    PodState,
    PodView,
    RequestView,
    UpcomingView,
    pod_view,
    request_view,
    upcoming_view,
)

SYNC_PATIENCE_S: Final = 600.0
BY_POD: Final = "pod"
WAITING: Final = "waiting"
_YES: Final = "yes"


class NotSynchronisedError(BigFleetError):
    """The first lists did not complete in time; a restart would only heat the API server, so the time is long."""


class Caches:
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
        self._clock = clock
        self.pods: Store[PodView] = Store(
            pod_view(defaults, exclude_daemonsets=exclude_daemonsets),
            clock=clock,
            indexes={
                BY_POD: lambda pod: (pod.id,),
                WAITING: lambda pod: (_YES,) if pod.state is PodState.LIVE and not pod.scheduled else (),
            },
        )
        self.requests: Store[RequestView] = Store(
            request_view, clock=clock, indexes={BY_POD: lambda request: (request.pod_id,)}
        )
        self.upcoming: Store[UpcomingView] | None = None
        self._reflectors: list[Reflector[PodView] | Reflector[RequestView] | Reflector[UpcomingView]] = [
            Reflector(client, Selection(PODS), self.pods, clock=clock, stream=rng.stream("pods")),
            Reflector(
                client,
                Selection(CAPACITY_REQUESTS, labels=OWNED_BY_POD),
                self.requests,
                clock=clock,
                stream=rng.stream("requests"),
            ),
        ]
        if with_upcoming:
            self.upcoming = Store(upcoming_view, clock=clock)
            self._reflectors.append(
                Reflector(
                    client,
                    Selection(UPCOMING_NODES),
                    self.upcoming,
                    clock=clock,
                    stream=rng.stream("upcoming"),
                )
            )

    async def run(self) -> None:
        """Keep the caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    def not_ready(self) -> list[str]:
        """Return what is still missing, one short line each."""
        synced = {PODS.plural: self.pods.synced, CAPACITY_REQUESTS.plural: self.requests.synced}
        return [f"{name}: first list not complete" for name, is_complete in synced.items() if not is_complete]

    async def wait_synced(self, patience_s: float = SYNC_PATIENCE_S) -> None:
        """Return once pods and requests are complete; NotSynchronisedError when that takes too long.

        Upcoming nodes are not waited for: events are advice, demand is not.
        """
        try:
            async with timeout(self._clock, patience_s):
                await self.pods.wait_synced()
                await self.requests.wait_synced()
        except TimeoutError:
            missing = "; ".join(self.not_ready())
            raise NotSynchronisedError(f"not synchronised within {patience_s:g} s: {missing}") from None

    def pod(self, pod_id: str) -> PodView | None:
        """Return the pod of an id."""
        return next(iter(self.pods.by_index(BY_POD, pod_id)), None)

    def requests_of(self, pod_id: str) -> tuple[RequestView, ...]:
        """Return every request that bears the UID of a pod, in the pod's own namespace."""
        return self.requests.by_index(BY_POD, pod_id)

    def waiting_pods(self) -> list[PodView]:
        """Return the pods that have no node yet, oldest first."""
        return sorted(self.pods.by_index(WAITING, _YES), key=lambda pod: (pod.created, pod.key))
