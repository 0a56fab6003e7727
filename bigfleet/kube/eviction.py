"""Evicts one pod and classifies the answer.

Why: the eviction subresource answers with five statuses and causes below them; a drain needs one of a few verdicts.
Must never: delete a pod, override its termination grace, evict another pod of the same name, or raise for an expected refusal.
Rules: `operator#drain-rounds`; ADR-0009.
"""

import enum
from dataclasses import dataclass
from typing import Final

from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import ForbiddenError, KubeError, NotFoundError, ThrottledError
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.resources import PODS, ObjectKey
from bigfleet.kube.transport import ApiCall, Document

BUDGET_CAUSE: Final = "DisruptionBudget"
_TERMINATING_CAUSE: Final = "NamespaceTerminating"
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"


class EvictionVerdict(enum.Enum):
    """What the API server answered to an eviction."""

    ACCEPTED = "accepted"  # wait for the pod to terminate
    GONE = "gone"  # the pod had left already
    REPLACED = "replaced"  # another pod has the name; list again
    BUDGET = "budget"  # a disruption budget allows none now; next round
    TEMPORARY = "passing"  # a temporary error; next round
    SEVERAL_BUDGETS = "several-budgets"  # never, until a person fixes the budgets
    TERMINATING = "terminating"  # its namespace is being deleted, and the pod with it
    FORBIDDEN = "forbidden"  # the operator's role lacks the right


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """The verdict, with the text to show when a drain fails."""

    verdict: EvictionVerdict
    status: int
    text: str = ""

    @property
    def label(self) -> str:
        """The value of the metric label: status and verdict."""
        return f"{self.status}-{self.verdict.value}"


async def evict(client: KubeClient, pod: ObjectKey, uid: str) -> EvictionResult:
    """Evict the pod of this name and uid."""
    body: Document = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    call = ApiCall("POST", PODS.path(pod, subresource="eviction"), body=body)
    try:
        await client.call(call, Urgency.NOW)
    except KubeError as error:
        return EvictionResult(_verdict(error), error.status, error.message)
    return EvictionResult(EvictionVerdict.ACCEPTED, 201)


def _verdict(error: KubeError) -> EvictionVerdict:
    if isinstance(error, NotFoundError):
        return EvictionVerdict.GONE
    if error.status == 409:
        return EvictionVerdict.REPLACED
    if isinstance(error, ThrottledError):
        return EvictionVerdict.BUDGET if error.has_cause(BUDGET_CAUSE) else EvictionVerdict.TEMPORARY
    if isinstance(error, ForbiddenError):
        if error.has_cause(BUDGET_CAUSE):
            return EvictionVerdict.BUDGET
        return (
            EvictionVerdict.TERMINATING if error.has_cause(_TERMINATING_CAUSE) else EvictionVerdict.FORBIDDEN
        )
    if error.status == 500 and _SEVERAL_BUDGETS in error.message:
        return EvictionVerdict.SEVERAL_BUDGETS
    return EvictionVerdict.TEMPORARY if error.temporary else EvictionVerdict.FORBIDDEN
