"""Access of a process to its Kubernetes cluster: the client, and the lease of leader election.

Why: the operator and the pod controller connect in the same way.
Rules: `operator#start-order`, `operator#process`.
"""

from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.aio.disk import Disk
from bigfleet.aio.ids import SystemIds
from bigfleet.aio.rng import Rng
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_transport import HttpTransport, run_plugin
from bigfleet.kube.kubeconfig import Target
from bigfleet.kube.lease import Lease
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login
from bigfleet.kube.resources import ObjectKey

_DEFAULT_NAMESPACE: Final = "default"


def connect(target: Target, disk: Disk, clock: Clock, *, qps: float, burst: int) -> KubeClient:
    """Return a client of the API server that keeps to a rate of calls."""
    transport = HttpTransport(Login(target, disk, clock, run_plugin))
    return KubeClient(transport, RateLimiter(clock, qps=qps, burst=burst))


def own_lease(client: KubeClient, target: Target, name: str, host: str, *, clock: Clock, rng: Rng) -> Lease:
    """Return the lease of this name in the namespace that the process runs in."""
    key = ObjectKey(target.namespace or _DEFAULT_NAMESPACE, name)
    holder = f"{host}_{SystemIds().session()}"
    return Lease(client, key, holder, clock=clock, stream=rng.stream("lease"))
