"""Accounts with exactly our roles, or less one verb, and a transport that records what is denied (`operator#roles`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bigfleet.aio.clock import SystemClock
from bigfleet.kube import roles
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.roles import RbacRole, RbacRule
from bigfleet.kube.transport import ApiCall, ApiResponse, ApiTransport, WatchLines
from tests.support.control_plane.cluster import Cluster
from tests.support.kube_api.faults import FaultyTransport
from tests.support.rbac import binding, cluster_role, namespace_role, without

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OPERATOR, CONTROLLER = "operator", "upc"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Denied(FaultyTransport):
    """Records what was denied: resource and verb."""

    def __init__(self, transport: ApiTransport) -> None:
        super().__init__(transport, SystemClock())
        self.denied: set[tuple[str, str]] = set()

    async def send(self, call: ApiCall) -> ApiResponse:
        answer = await super().send(call)
        # A namespace that ends, such as one of an earlier test, refuses too; that is not a missing right.
        if answer.status == 403 and "because it is being terminated" not in str(answer.body):
            self._note(call, VERBS.get(call.method, ""))
        return answer

    def open(self, call: ApiCall) -> Any:
        return self._watched(call, super().open(call))

    def _watched(self, call: ApiCall, opened: Any) -> Any:
        transport = self

        class Opened:
            async def __aenter__(self) -> WatchLines:
                lines: WatchLines = await opened.__aenter__()
                if lines.answer.status == 403:
                    transport._note(call, "watch")
                return lines

            async def __aexit__(self, *about: object) -> None:
                await opened.__aexit__(*about)

        return Opened()

    def _note(self, call: ApiCall, verb: str) -> None:
        parts = call.path.split("/")
        parts = parts[3:] if parts[1] == "api" else parts[4:]
        if parts[0] == "namespaces":
            parts = parts[2:]
        name = parts[0] + (f"/{parts[2]}" if len(parts) > 2 else "")
        self.denied.add((name, verb or ("get" if len(parts) > 1 else "list")))


def less(role: RbacRole, resource: str, verb: str) -> RbacRole:
    """Return a role without one verb on one resource; others that share a rule with it keep the verb."""

    def cut(rules: Sequence[RbacRule]) -> tuple[RbacRule, ...]:
        left: list[RbacRule] = []
        for rule in rules:
            if resource not in rule.resources:
                left.append(rule)
                continue
            others = tuple(name for name in rule.resources if name != resource)
            left += [replace(rule, resources=others), replace(without(rule, verb), resources=(resource,))]
        return tuple(rule for rule in left if rule.verbs and rule.resources)

    return replace(role, cluster=cut(role.cluster), own_namespace=cut(role.own_namespace))


def rights(role: RbacRole) -> list[tuple[str, str]]:
    """Return every resource and verb of a role."""
    rules = (*role.cluster, *role.own_namespace)
    return [(name, verb) for rule in rules for name in rule.resources for verb in rule.verbs]


def bind(cluster: Cluster, role: RbacRole, user: str, flags: frozenset[str]) -> None:
    """Give a user exactly a role, in the cluster and in the namespace `default`."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    own = namespace_role(role, "default", flags=flags)
    for where, kind, document in (
        (RBAC, "clusterrole", cluster_role(role, flags=flags)),
        (f"{RBAC}/namespaces/default", "role", own),
    ):
        if document is not None:
            cluster.admin.post(f"{where}/{kind}s", document)
            cluster.admin.post(f"{where}/{kind}bindings", binding(document, subject))


def grant_roles(cluster: Cluster) -> None:
    """Install our kinds, and give each of our programs' accounts exactly its role."""
    cluster.install_crds(definition.manifest() for definition in DEFINITIONS)
    flags = frozenset({roles.LEADER_ELECT, roles.POD_EVENTS, roles.WATCH_PODS})
    bind(cluster, roles.OPERATOR, OPERATOR, flags)
    bind(cluster, roles.POD_CONTROLLER, CONTROLLER, flags)
