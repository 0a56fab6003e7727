"""An API server in memory: lists in pages, watches with bookmarks, versions, conflicts, merge patches, eviction and budgets.

Why: the operator and the pod controller run against it in virtual time, with faults, and with the same code above the
transport as in a cluster.
Must never: be more lenient than the real one where our code could depend on it. It leaves out rules in the expression language,
admission, strategic merge and server-side apply; the end-to-end tests cover those.
Rules: `testing#memory-api-server`, `operator#kubernetes-client`, `operator#failures`.
"""

import base64
import json
from collections.abc import Iterable
from typing import Any, Final

from bigfleet.aio.clock import Clock
from bigfleet.kube import resources
from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.crds.schema import GROUP, VERSION, Schema
from bigfleet.kube.resources import ObjectKey, Resource, key_of
from bigfleet.kube.roles import RbacRole
from bigfleet.kube.transport import ApiCall, ApiResponse, Document
from bigfleet.model.times import rfc3339_of_ns
from tests.support.kube_api.merge import merged
from tests.support.kube_api.objects import BUDGETS, CompactedError, Matches, Objects, copy
from tests.support.kube_api.refusals import (
    ApiRefusedError,
    UnknownPathError,
    check_preconditions,
    check_right,
)
from tests.support.kube_api.schema import fields_match, label_matcher, labels_match, problems, prune
from tests.support.kube_api.transport import InMemoryTransport, namespace_of

_BUILT_IN: Final = (
    resources.NODES,
    resources.PODS,
    resources.EVENTS,
    resources.LEASES,
    BUDGETS,
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
)
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


class InMemoryApi:
    """The state of one cluster, and the calls on it."""

    def __init__(self, clock: Clock, definitions: Iterable[Definition] = DEFINITIONS) -> None:
        self.objects = Objects()
        self.terminating: set[str] = set()
        """Namespaces that end; nothing can be created in them."""
        self.collects_garbage = True
        """Whether what an object owned goes with it."""
        self.pods_linger = False
        """Whether deleted pods stay, terminating, until `finish_pod`."""
        self._clock = clock
        self._resources = {_route(resource): resource for resource in _BUILT_IN}
        self._schemas: dict[Resource, Schema] = {}
        self._numbers = 0
        for definition in definitions:
            self.install(definition)

    def install(self, definition: Definition) -> None:
        """Serve a custom resource from now on."""
        resource = Resource(GROUP, VERSION, definition.plural, definition.kind, definition.namespaced)
        self._resources[_route(resource)] = resource
        self._schemas[resource] = definition.schema()

    def transport(self, role: RbacRole | None = None) -> InMemoryTransport:
        """Return a transport with exactly the rights of a role; without a role everything is allowed."""
        return InMemoryTransport(self, role, self._clock)

    def finish_pod(self, key: ObjectKey) -> None:
        """Delete a terminating pod, as its kubelet would."""
        self._erase(resources.PODS, key)

    # ---- one call

    def answer(self, call: ApiCall, role: RbacRole | None) -> ApiResponse:
        """Carry out a call other than a watch."""
        try:
            resource, key, subresource = self._locate(call)
            verb = _VERBS.get(call.method, "get" if key is not None and key.name else "list")
            check_right(role, resource, subresource, verb)
            status, body = self._carry_out(call, resource, key, subresource, verb)
        except ApiRefusedError as refused:
            return ApiResponse(refused.status, refused.body, refused.headers)
        except UnknownPathError as unknown:
            return unknown.answer
        except CompactedError as error:
            gone = ApiRefusedError(410, "Expired", str(error))
            return ApiResponse(gone.status, gone.body)
        return ApiResponse(status, body)

    def _carry_out(
        self, call: ApiCall, resource: Resource, key: ObjectKey | None, subresource: str, verb: str
    ) -> tuple[int, Document]:
        body = copy(call.body) if call.body is not None else {}
        if verb == "list":
            return 200, self._list(call, resource)
        if key is None:
            raise ApiRefusedError(405, "MethodNotAllowed", f"{call.method} is not allowed on a list")
        if subresource == "eviction":
            return 201, self._evict(key, body)
        if verb == "create":
            return 201, self._create(resource, key.namespace, body)
        stored = self.objects.get(resource, key)
        if stored is None:
            raise ApiRefusedError(404, "NotFound", f'{resource.plural} "{key.name}" not found')
        if verb == "get":
            return 200, stored
        if verb == "delete":
            check_preconditions(stored, body.get("preconditions") or {})
            return 200, self._delete(resource, key, stored)
        wanted = merged(stored, body) if verb == "patch" else body
        return 200, self._write(resource, stored, wanted, subresource)

    def _locate(self, call: ApiCall) -> tuple[Resource, ObjectKey | None, str]:
        parts = call.path.strip("/").split("/")
        core = parts[0] == "api"
        group, version, rest = ("", parts[1], parts[2:]) if core else (parts[1], parts[2], parts[3:])
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        resource = self._resources.get((group, version, rest[0]))
        if resource is None:
            raise UnknownPathError
        name, subresource = [*rest[1:], "", ""][:2]
        wants_key = bool(name) or call.method != "GET"
        return resource, ObjectKey(namespace, name) if wants_key else None, subresource

    # ---- reading

    def _list(self, call: ApiCall, resource: Resource) -> Document:
        version, after = self.objects.version, ["", ""]
        if token := call.query.get("continue"):
            version, *after = json.loads(base64.b64decode(token))
        state = self.objects.as_of(resource, version)
        matches = self.matcher(call)
        namespace = namespace_of(call)
        keys = sorted(key for key, document in state.items() if matches(document))
        keys = [key for key in keys if (not namespace or key.namespace == namespace) and [*key] > after]
        limit = int(call.query.get("limit") or 0) or len(keys)
        shown, left = keys[:limit], len(keys) - limit
        metadata: Document = {"resourceVersion": str(version)}
        if left > 0:
            token_text = json.dumps([version, *shown[-1]]).encode()
            metadata |= {"continue": base64.b64encode(token_text).decode(), "remainingItemCount": left}
        items = [copy(state[key]) for key in shown]
        kind = f"{resource.kind}List"
        return {"kind": kind, "apiVersion": resource.api_version, "metadata": metadata, "items": items}

    def matcher(self, call: ApiCall) -> Matches:
        """Return the filter of the selectors of a call."""
        terms = label_matcher(call.query.get("labelSelector", ""))
        fields = call.query.get("fieldSelector", "")
        return lambda document: labels_match(document, terms) and fields_match(document, fields)

    def watched(self, call: ApiCall, role: RbacRole | None) -> tuple[Resource, int]:
        """Return the resource, the filter and the first version of a watch."""
        resource, _, _ = self._locate(call)
        check_right(role, resource, "", "watch")
        return resource, int(call.query.get("resourceVersion") or self.objects.version)

    # ---- writing

    def _create(self, resource: Resource, namespace: str, document: Document) -> Document:
        metadata = document.setdefault("metadata", {})
        self._numbers += 1
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._numbers:05x}"
        if not metadata.get("name"):
            raise ApiRefusedError(
                422, "Invalid", "metadata.name: Required value: name or generateName is required"
            )
        if resource.namespaced:
            metadata["namespace"] = namespace
        if namespace in self.terminating:
            cause = {"reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace"}
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise ApiRefusedError(403, "Forbidden", message, [cause])
        if key_of(document) in self.objects.of(resource):
            message = f'{resource.plural} "{metadata["name"]}" already exists'
            raise ApiRefusedError(409, "AlreadyExists", message)
        metadata |= {
            "uid": f"{self._numbers:08x}-0000-4000-8000-{self._numbers:012x}",
            "creationTimestamp": rfc3339_of_ns(self._clock.wall_ns(), 0),
            "generation": 1,
        }
        if resource in self._schemas:
            document.pop("status", None)
        return self.objects.put(resource, self._checked(resource, document))

    def _write(self, resource: Resource, stored: Document, wanted: Document, subresource: str) -> Document:
        metadata, before = wanted.get("metadata") or {}, stored["metadata"]
        if metadata.get("uid") and metadata["uid"] != before["uid"]:
            message = f'{resource.plural} "{before["name"]}" is invalid: metadata.uid: field is immutable'
            raise ApiRefusedError(422, "Invalid", message)
        if metadata.get("resourceVersion") and metadata["resourceVersion"] != before["resourceVersion"]:
            message = f'{resource.plural} "{before["name"]}": the object has been modified'
            raise ApiRefusedError(409, "Conflict", message)
        if resource in self._schemas:
            # Each endpoint writes its own half and leaves the other as it is.
            halves = {
                name: wanted.get(name)
                if (name == "status") == (subresource == "status")
                else stored.get(name)
                for name in sorted({*wanted, *stored})
            }
            halves["metadata"] = before if subresource == "status" else metadata
            wanted = {name: value for name, value in halves.items() if value is not None}
        kept = ("uid", "creationTimestamp", "generation", "resourceVersion", "name", "namespace")
        carried = {name: before[name] for name in (*kept, "deletionTimestamp") if name in before}
        wanted["metadata"] = {**wanted.get("metadata", {}), **carried}
        wanted |= {"apiVersion": stored["apiVersion"], "kind": stored["kind"]}
        wanted = self._checked(resource, wanted)
        if wanted == stored:
            return stored
        if wanted.get("spec") != stored.get("spec"):
            wanted["metadata"]["generation"] = int(before.get("generation") or 0) + 1
        if before.get("deletionTimestamp") and not wanted["metadata"].get("finalizers"):
            self._erase(resource, key_of(wanted))
            return wanted
        return self.objects.put(resource, wanted)

    def _checked(self, resource: Resource, document: Document) -> Document:
        schema = self._schemas.get(resource)
        if schema is None:
            return document
        pruned = {name: document[name] for name in ("apiVersion", "kind", "metadata")}
        for name in ("spec", "status"):
            if name in document:
                pruned[name] = prune(document[name], schema["properties"][name])
        faults = [fault for fault in problems(pruned, schema, "") if not fault[0].startswith(".metadata")]
        if faults:
            causes = [
                {"reason": "FieldValueInvalid", "field": path.lstrip("."), "message": text}
                for path, text in faults
            ]
            text = ", ".join(f"{cause['field']}: {cause['message']}" for cause in causes)
            message = f'{resource.kind}.{resource.group} "{document["metadata"]["name"]}" is invalid: {text}'
            raise ApiRefusedError(422, "Invalid", message, causes)
        return pruned

    def _delete(self, resource: Resource, key: ObjectKey, stored: Document) -> Document:
        metadata = stored["metadata"]
        lingers = resource == resources.PODS and self.pods_linger
        if metadata.get("finalizers") or lingers:
            if not metadata.get("deletionTimestamp"):
                metadata["deletionTimestamp"] = rfc3339_of_ns(self._clock.wall_ns(), 0)
                metadata["generation"] = int(metadata.get("generation") or 0) + 1
                return self.objects.put(resource, stored)
            return stored
        self._erase(resource, key)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _erase(self, resource: Resource, key: ObjectKey) -> Document:
        last = self.objects.remove(resource, key)
        if self.collects_garbage:
            for other in sorted(self._resources.values(), key=_route):
                for owned, document in sorted(self.objects.of(other).items()):
                    owners = document["metadata"].get("ownerReferences") or ()
                    if any(owner.get("uid") == last["metadata"]["uid"] for owner in owners):
                        self._erase(other, owned)
        return last

    # ---- eviction

    def _evict(self, key: ObjectKey, body: Document) -> Document:
        pod = self.objects.get(resources.PODS, key)
        if pod is None:
            raise ApiRefusedError(404, "NotFound", f'pods "{key.name}" not found')
        check_preconditions(pod, (body.get("deleteOptions") or {}).get("preconditions") or {})
        phase = (pod.get("status") or {}).get("phase")
        if phase == "Running" and not pod["metadata"].get("deletionTimestamp"):
            self._spend_budget(key, pod)
        self._delete(resources.PODS, key, pod)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _spend_budget(self, key: ObjectKey, pod: Document) -> None:
        budgets = [
            budget
            for budget in self.objects.of(BUDGETS).values()
            if budget["metadata"]["namespace"] == key.namespace and _selects(budget, pod)
        ]
        if len(budgets) > 1:
            raise ApiRefusedError(500, "InternalError", _SEVERAL)
        for budget in budgets:
            status: dict[str, Any] = budget.get("status") or {}
            allowed = int(status.get("disruptionsAllowed") or 0)
            if allowed < 1:
                name = budget["metadata"]["name"]
                cause = {
                    "reason": "DisruptionBudget",
                    "message": f"The disruption budget {name} allows none now.",
                }
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                raise ApiRefusedError(429, "TooManyRequests", message, [cause])
            self.objects.put(BUDGETS, {**budget, "status": {**status, "disruptionsAllowed": allowed - 1}})


def _route(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural


def _selects(budget: Document, pod: Document) -> bool:
    selector = (budget.get("spec") or {}).get("selector") or {}
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    wanted: dict[str, str] = selector.get("matchLabels") or {}
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())
