"""Carries out the plan for one pod: creates, patches and deletes its requests, and writes their first phase.

Why: a second replica, the operator or a person may write first; this module decides what that means.
Must never: touch a request without our label, delete one that was replaced meanwhile, or set an acknowledged one back to Pending.
Rules: `operator#request-life`, `operator#u2`, `operator#u4`.
"""

from typing import Final

import structlog

from bigfleet.kube.client import KubeClient
from bigfleet.kube.crds.capacity_request import OWNED_BY_POD, PENDING
from bigfleet.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
)
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import CAPACITY_REQUESTS, ObjectKey, version_of
from bigfleet.kube.store import Store
from bigfleet.kube.transport import Document
from bigfleet.podcontroller.core.request_plan import RequestPlan, request_document, request_names
from bigfleet.podcontroller.core.views import OwnedRequest, PodView

_TERMINATING: Final = "NamespaceTerminating"
_GONE: Final = "pod_gone"
_EXISTS: Final = "cr_exists"


class NameTakenError(KubeError):
    """Both names of a pod's request are taken by objects of another author."""


class RequestWriter:
    """Writes requests, and puts every write into the cache at once."""

    def __init__(self, client: KubeClient, requests: Store[OwnedRequest]) -> None:
        self._client, self._requests = client, requests
        self._log = structlog.get_logger("bigfleet.podcontroller")

    async def carry_out(self, plan: RequestPlan, pod: PodView) -> str:
        """Carry out a plan and return its outcome, the label of the metric."""
        for request in plan.drop:
            await self.delete(request)
        if plan.create:
            return await self._create(pod)
        if plan.keep is not None:
            version = plan.keep.version
            if plan.patch is not None:
                try:
                    changed = await self._client.merge_patch(CAPACITY_REQUESTS, plan.keep.key, plan.patch)
                except NotFoundError:
                    return await self._create(pod)  # deleted meanwhile, but the pod still needs it
                self._requests.observe(changed)
                version = version_of(changed)
            if plan.stamp:
                await self._stamp(plan.keep.key, version)
        return plan.outcome

    async def delete(self, request: OwnedRequest) -> None:
        """Delete the request of this uid; one that is gone already is fine."""
        try:
            await self._client.delete(CAPACITY_REQUESTS, request.key, uid=request.uid)
        except (NotFoundError, ConflictError):
            return
        self._log.info("request_deleted", request=str(request.key))

    async def _create(self, pod: PodView) -> str:
        for name in request_names(pod):
            try:
                created = await self._client.create(CAPACITY_REQUESTS, request_document(pod, name))
            except AlreadyExistsError:
                if await self._is_ours(ObjectKey(pod.key.namespace, name), pod):
                    return _EXISTS
                continue
            except NotFoundError:
                return _GONE  # the namespace was deleted, and the pod with it
            except ForbiddenError as error:
                if error.has_cause(_TERMINATING):
                    return _GONE
                raise
            self._requests.observe(created)
            return "cr_created"
        raise NameTakenError("create", f"{' and '.join(request_names(pod))} belong to another author")

    async def _is_ours(self, key: ObjectKey, pod: PodView) -> bool:
        try:
            found = await self._client.get(CAPACITY_REQUESTS, key)
        except NotFoundError:
            raise ConflictError("create", f"{key} came and went") from None
        if not _is_for(found, pod.uid):
            return False
        self._requests.observe(found)
        return True

    async def _stamp(self, key: ObjectKey, version: int) -> None:
        """Write the first phase, but only to the version that had none: the operator may have written meanwhile."""
        patch: Document = {"metadata": {"resourceVersion": str(version)}, "status": {"phase": PENDING}}
        try:
            stamped = await self._client.merge_patch(
                CAPACITY_REQUESTS, key, patch, subresource="status", urgency=Urgency.BULK
            )
        except (ConflictError, NotFoundError):
            return
        except KubeError as error:
            # Not retried: a missing phase counts as Pending.
            self._log.warning("stamp_failed", request=str(key), error=str(error))
            return
        self._requests.observe(stamped)


def _is_for(request: Document, uid: str) -> bool:
    return (request["metadata"].get("labels") or {}).get(OWNED_BY_POD) == uid
