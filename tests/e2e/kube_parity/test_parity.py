"""The in-memory API server answers a long conversation as the real one does."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.resources import CAPACITY_REQUESTS, UPCOMING_NODES, ObjectKey
from bigfleet.kube.transport import MERGE_PATCH, ApiCall, ApiTransport, Document
from tests.support.control_plane.cluster import Cluster
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.world import capacity_request

pytestmark = pytest.mark.asyncio


@dataclass
class Talk:
    """One side of the conversation: sends the calls, and keeps what must be equal on both sides."""

    transport: ApiTransport
    namespace: str
    un: str
    answers: list[tuple[Any, ...]] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)

    async def say(self, method: str, path: str, body: Document | None = None, **query: str) -> Document:
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"
        answer = await self.transport.send(ApiCall(method, path, query, body, content_type))
        document = answer.body if isinstance(answer.body, dict) else {}
        metadata = document.get("metadata") or {}
        shown: tuple[Any, ...] = (method, answer.status)
        if answer.status >= 400:
            shown += (document.get("reason"),)
        elif "items" in document:
            names = [item["metadata"]["name"] for item in document["items"]]
            shown += (names, bool(metadata.get("continue")))
        elif method != "DELETE":
            version = int(metadata["resourceVersion"])
            moved = version > self.versions.get(metadata["uid"], 0)
            self.versions[metadata["uid"]] = version
            shown += (
                moved,
                metadata["generation"],
                bool(metadata.get("deletionTimestamp")),
                document.get("spec"),
                document.get("status"),
                metadata.get("labels"),
            )
        self.answers.append(shown)
        return document


async def conversation(talk: Talk) -> None:
    many, one = CAPACITY_REQUESTS.path(namespace=talk.namespace), ObjectKey(talk.namespace, "a")
    path = CAPACITY_REQUESTS.path(one)
    head = {"apiVersion": "bigfleet.lucy.sh/v1alpha1", "kind": "CapacityRequest"}

    def request(name: str, **spec: Any) -> Document:
        return {**head, **capacity_request(name, talk.namespace, **spec)}

    await talk.say("GET", path)
    created = await talk.say("POST", many, {**request("a"), "status": {"phase": "Pending"}})
    await talk.say("POST", many, request("a"))
    await talk.say("POST", many, request("bad", priority="high"))
    await talk.say("POST", many, request("bad", resources={"cpu": "much"}))
    await talk.say("POST", many, {**head, "metadata": {"name": "bad"}})
    await talk.say(
        "POST", many, {**request("b"), "unknown": 1, "spec": {"priority": 1, "resources": {}, "x": 1}}
    )
    await talk.say("GET", path)
    await talk.say("PATCH", path, {"spec": {"priority": 7}, "metadata": {"labels": {"a": "1", "b": "2"}}})
    await talk.say("PATCH", path, {"spec": {"priority": 7}})  # nothing changes
    await talk.say("PATCH", path, {"metadata": {"labels": {"b": None}}})
    await talk.say("PATCH", path, {"status": {"phase": "Acknowledged"}})  # not this way
    await talk.say("PATCH", f"{path}/status", {"spec": {"priority": 9}, "status": {"phase": "Pending"}})
    await talk.say("PATCH", f"{path}/status", {"status": {"phase": "Shortfall"}})
    await talk.say("PATCH", path, {"spec": {"resources": None}})
    await talk.say("PATCH", path, {"metadata": {"resourceVersion": "1"}, "spec": {"priority": 8}})
    await talk.say("PATCH", path, {"metadata": {"uid": "other"}, "spec": {"priority": 8}})
    await talk.say("PUT", path, {**created, "spec": {"priority": 11, "resources": {}}})  # of an old version
    newest = await talk.say("GET", path)
    await talk.say("PUT", path, {**newest, "spec": {"priority": 12, "resources": {"cpu": 3}}})
    await talk.say("PATCH", CAPACITY_REQUESTS.path(ObjectKey(talk.namespace, "none")), {"spec": {}})
    for name in "cdef":
        await talk.say("POST", many, request(name))
    page = await talk.say("GET", many, limit="4")
    await talk.say("DELETE", CAPACITY_REQUESTS.path(ObjectKey(talk.namespace, "e")))
    await talk.say("GET", many, **{"limit": "4", "continue": page["metadata"]["continue"]})
    await talk.say("GET", many, labelSelector="a=1")
    await talk.say("GET", many, labelSelector="a notin (1),!z")
    await talk.say("GET", many, fieldSelector="status.phase=Pending")
    await talk.say("GET", many, fieldSelector="status.phase!=Pending")
    await talk.say("GET", many, fieldSelector="metadata.name=c")
    await talk.say("DELETE", path, {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}})
    await talk.say("DELETE", path, {"preconditions": {"uid": created["metadata"]["uid"]}})
    await talk.say("DELETE", path)
    held = request("held")
    held["metadata"]["finalizers"] = ["example.com/wait"]
    await talk.say("POST", many, held)
    held_path = CAPACITY_REQUESTS.path(ObjectKey(talk.namespace, "held"))
    await talk.say("DELETE", held_path)
    await talk.say("GET", held_path)
    await talk.say("PATCH", held_path, {"metadata": {"finalizers": None}})
    await talk.say("GET", held_path)
    node = {"apiVersion": "bigfleet.lucy.sh/v1alpha1", "kind": "UpcomingNode", "metadata": {"name": talk.un}}
    await talk.say(
        "POST", UPCOMING_NODES.path(), {**node, "spec": {"resources": {"cpu": "8"}, "labels": {"a": "b"}}}
    )
    un_path = UPCOMING_NODES.path(ObjectKey("", talk.un))
    await talk.say("PATCH", un_path, {"spec": {"labels": {"a": None}, "resources": {"cpu": "9"}}})
    await talk.say("PATCH", f"{un_path}/status", {"status": {"phase": "Ready", "lastError": None}})
    await talk.say("DELETE", un_path)
    await talk.say("GET", "/apis/bigfleet.lucy.sh/v1alpha1/nosuchthings")


async def test_both_servers_say_the_same(
    cluster: Cluster, namespace: str, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    clock = SystemClock()
    target = find_target(os.environ, SystemDisk(), kubeconfig=str(cluster.kubeconfig()))
    real = HttpTransport(Login(target, SystemDisk(), clock))
    name = f"un-{new_name()}"
    talks = [Talk(real, namespace, name), Talk(InMemoryApi(clock).transport(), namespace, name)]
    try:
        for talk in talks:
            await conversation(talk)
    finally:
        await real.close()
    assert talks[1].answers == talks[0].answers
    assert len(talks[0].answers) > 45
