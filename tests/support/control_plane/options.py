"""What a test may ask of a cluster before it starts.

Why: most tests share one ordinary cluster; the few that need another minor, an audit log or silent nodes say so here.
Must never: reach outside; it is only a value.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.model.errors import InvalidFieldError

ADMIN: Final = "admin"
NOBODY: Final = "nobody"
SCHEDULER: Final = "system:kube-scheduler"
CONTROLLERS: Final = "system:kube-controller-manager"
OLDEST_MINOR: Final = "1.33"
"""The oldest minor that the API server of the testbed can emulate: three below its own."""

# Half the CPU and three quarters of the memory of all of them; what tests of BigFleet rest on is here.
USUAL_CONTROLLERS: Final = (
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
)
ALL_CONTROLLERS: Final = ("*",)


@dataclass(frozen=True, slots=True)
class User:
    """A user the API server knows by token; without a group only what a role binding gives is allowed."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """The bearer token, good for this cluster alone, which only this machine can reach."""
        return f"{self.name}-token"


USERS: Final = (User(ADMIN, ("system:masters",)), User(SCHEDULER), User(CONTROLLERS), User(NOBODY))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """How one cluster differs from the ordinary one.

    `minor` is what API server, scheduler and controllers emulate, such as `OLDEST_MINOR`. `audit` keeps a record of
    every call. `users` come on top of `USERS`. `kwok` has one label selector per fake kubelet, the empty one for all
    nodes; none at all leaves nodes and pods to the test. `stages` replaces kwok's stock behaviour. The three
    tuples of flags come last on their command lines, and the last one wins.
    """

    minor: str | None = None
    audit: bool = False
    users: tuple[User, ...] = ()
    kwok: tuple[str, ...] = ("",)
    stages: str | None = None
    scheduler: bool = True
    controllers: tuple[str, ...] = USUAL_CONTROLLERS
    api_server_flags: tuple[str, ...] = ()
    scheduler_flags: tuple[str, ...] = ()
    controller_flags: tuple[str, ...] = ()

    def user(self, name: str) -> User:
        """Return a user of the cluster by name."""
        known = {user.name: user for user in (*USERS, *self.users)}
        if name not in known:
            raise InvalidFieldError("user", name, f"one of {', '.join(known)}")
        return known[name]


ORDINARY: Final = ClusterOptions()
