"""Accounts with exactly our roles, or less one verb, and a link that notes what is denied for want of it (acceptance 83)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bigfleet.aio.clock import SystemClock
from bigfleet.kube import roles
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.link import Answer, Call, Lines, Link
from bigfleet.kube.roles import Role, Rule, binding
from tests.support.control_plane.cluster import Cluster
from tests.support.kube_api.faults import FaultyLink

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OPERATOR, CONTROLLER = "operator", "upc"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Denied(FaultyLink):
    """Notes what was denied: resource and verb."""

    def __init__(self, link: Link) -> None:
        super().__init__(link, SystemClock())
        self.denied: set[tuple[str, str]] = set()

    async def send(self, call: Call) -> Answer:
        answer = await super().send(call)
        # A namespace that ends, such as one of an earlier test, refuses too; that is no want of a right.
        if answer.status == 403 and "because it is being terminated" not in str(answer.body):
            self._note(call, VERBS.get(call.method, ""))
        return answer

    def open(self, call: Call) -> Any:
        return self._watched(call, super().open(call))

    def _watched(self, call: Call, opened: Any) -> Any:
        link = self

        class Opened:
            async def __aenter__(self) -> Lines:
                lines: Lines = await opened.__aenter__()
                if lines.answer.status == 403:
                    link._note(call, "watch")
                return lines

            async def __aexit__(self, *about: object) -> None:
                await opened.__aexit__(*about)

        return Opened()

    def _note(self, call: Call, verb: str) -> None:
        parts = call.path.split("/")
        parts = parts[3:] if parts[1] == "api" else parts[4:]
        if parts[0] == "namespaces":
            parts = parts[2:]
        name = parts[0] + (f"/{parts[2]}" if len(parts) > 2 else "")
        self.denied.add((name, verb or ("get" if len(parts) > 1 else "list")))


def less(role: Role, resource: str, verb: str) -> Role:
    """Return a role without one verb on one resource; others that share a rule with it keep the verb."""

    def cut(rules: Sequence[Rule]) -> tuple[Rule, ...]:
        left: list[Rule] = []
        for rule in rules:
            if resource not in rule.resources:
                left.append(rule)
                continue
            others = tuple(name for name in rule.resources if name != resource)
            left += [replace(rule, resources=others), replace(rule.without(verb), resources=(resource,))]
        return tuple(rule for rule in left if rule.verbs and rule.resources)

    return replace(role, cluster=cut(role.cluster), own_namespace=cut(role.own_namespace))


def rights(role: Role) -> list[tuple[str, str]]:
    """Return every resource and verb of a role."""
    rules = (*role.cluster, *role.own_namespace)
    return [(name, verb) for rule in rules for name in rule.resources for verb in rule.verbs]


def bind(cluster: Cluster, role: Role, user: str, flags: frozenset[str]) -> None:
    """Give a user exactly a role, in the cluster and in the namespace `default`."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    own = role.namespace_role("default", flags=flags)
    for where, kind, document in (
        (RBAC, "clusterrole", role.cluster_role(flags=flags)),
        (f"{RBAC}/namespaces/default", "role", own),
    ):
        if document is not None:
            cluster.admin.post(f"{where}/{kind}s", document)
            cluster.admin.post(f"{where}/{kind}bindings", binding(document, subject))


def grant_roles(cluster: Cluster) -> None:
    """Install our kinds, and give each of our programs' accounts exactly its role."""
    cluster.install_crds(definition.manifest() for definition in DEFINITIONS)
    flags = frozenset({roles.LEADER_ELECT, roles.POD_EVENTS})
    bind(cluster, roles.OPERATOR, OPERATOR, flags)
    bind(cluster, roles.POD_CONTROLLER, CONTROLLER, flags)
