"""Every verb of the role is needed: without any one of them the pod controller is denied something (acceptance 83).

The calls are made in the name of an account that has the role less one verb, by an administrator who may speak for others.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_link import HttpLink
from bigfleet.kube.lease import Lease
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.link import Answer, Call, Lines, Link
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.resources import ObjectKey
from bigfleet.kube.roles import LEADER_ELECT, POD_CONTROLLER, POD_EVENTS, Role, binding
from bigfleet.testing.control_plane.cluster import Cluster
from bigfleet.testing.control_plane.objects import pod
from bigfleet.testing.kube_api_faults import FaultyLink

pytestmark = [pytest.mark.asyncio, pytest.mark.long]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
FLAGS = frozenset({POD_EVENTS, LEADER_ELECT})
WAITS: dict[str, Any] = {"nodeSelector": {"no": "node"}}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
Until = Callable[..., Awaitable[Any]]
Shop = Any


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
    def cut(rules: Any) -> Any:
        left = (rule.without(verb) if resource in rule.resources else rule for rule in rules)
        return tuple(rule for rule in left if rule.verbs)

    return replace(role, cluster=cut(role.cluster), own_namespace=cut(role.own_namespace))


RIGHTS = [
    (name, verb)
    for rule in (*POD_CONTROLLER.cluster, *POD_CONTROLLER.own_namespace)
    for name in rule.resources
    for verb in rule.verbs
]


@pytest.mark.parametrize("right", RIGHTS, ids=[f"{name} {verb}" for name, verb in RIGHTS])
async def test_without_one_verb_something_is_denied_83(
    controller: Callable[..., Any], shop: Shop, audited: Cluster, until: Until, right: tuple[str, str]
) -> None:
    resource, verb = right
    name = f"upc-{resource.replace('/', '-')}-{verb}"
    role = replace(less(POD_CONTROLLER, resource, verb), name=name)
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    own = role.namespace_role("default", flags=FLAGS)
    assert own is not None
    for kinds, document in (("cluster", role.cluster_role(flags=FLAGS)), ("", own)):
        where = RBAC if kinds else f"{RBAC}/namespaces/default"
        audited.admin.post(f"{where}/{kinds}roles", document)
        audited.admin.post(f"{where}/{kinds}rolebindings", binding(document, subject))
    target = find_target(os.environ, SystemDisk(), kubeconfig=str(audited.kubeconfig()))
    login = Login(replace(target, impersonate=name), SystemDisk(), SystemClock())
    link = Denied(HttpLink(login))

    taken = audited.admin.post(shop.pods_path, pod("taken", **WAITS))["metadata"]["uid"]
    stranger = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": f"cr-pod-taken-{taken[:13]}"},
        "spec": {"priority": 1, "resources": {}},
    }
    audited.admin.post(shop.crs_path, stranger)
    note = {"bigfleet.lucy.sh/interruption-penalty": "much"}
    noted = audited.admin.post(shop.pods_path, pod("noted", annotations=note, **WAITS))["metadata"]["uid"]
    done = audited.admin.post(shop.pods_path, pod("done", **WAITS))["metadata"]["uid"]
    # What an earlier process left: a request of a pod that has finished, and one that no longer fits its pod.
    for owner, uid in (("done", done), ("noted", noted)):
        left = {
            **stranger,
            "metadata": {"name": f"left-{owner}", "labels": {"bigfleet.lucy.sh/owned-by-pod": uid}},
        }
        audited.admin.post(shop.crs_path, left)
    audited.admin.patch(f"{shop.pods_path}/done/status", {"status": {"phase": "Succeeded"}})

    client = KubeClient(link, RateLimiter(SystemClock(), qps=500, burst=500))
    key = ObjectKey("default", f"lease-{name.replace('.', '-')}")
    lease = Lease(client, key, "me", clock=SystemClock(), stream=SeededRng(1).stream("lease"))
    leading = asyncio.ensure_future(lease.lead(asyncio.Event().wait))  # type: ignore[arg-type]  # waits for ever
    try:
        async with controller(link=link):
            if right == ("events", "patch"):
                await until("told", lambda: shop.events("noted"))
                await asyncio.to_thread(audited.admin.delete, f"{shop.crs_path}/left-noted")
            await until(f"{verb} on {resource} is denied", lambda: right in link.denied)
            assert link.denied == {right}
            # The link is closed with the controller, so whoever else uses it ends before.
            leading.cancel()
            await asyncio.wait({leading})
    finally:
        leading.cancel()
