"""Asking a pod to leave, and what the answer means.

Why: the eviction subresource speaks through five statuses and the causes below them; a drain needs to know one of a few words.
Must never: delete a pod, override its termination grace, evict a namesake, or raise for an answer that is part of the game.
Rules: operator 7.4 (the table of answers), ADR-0009.
"""

import enum
from dataclasses import dataclass
from typing import Final

from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import ForbiddenError, KubeError, NotFoundError, ThrottledError
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.link import Call, Document
from bigfleet.kube.resources import PODS, ObjectKey

BUDGET_CAUSE: Final = "DisruptionBudget"
_TERMINATING_CAUSE: Final = "NamespaceTerminating"
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"


class Verdict(enum.Enum):
    """What the API server said to an eviction."""

    ACCEPTED = "accepted"  # wait for the pod to go
    GONE = "gone"  # it left before
    REPLACED = "replaced"  # another pod bears the name; list again
    BUDGET = "budget"  # a disruption budget allows none now; next round
    PASSING = "passing"  # the server is in trouble; next round
    SEVERAL_BUDGETS = "several-budgets"  # never, until somebody mends the budgets
    TERMINATING = "terminating"  # its namespace ends, the pod goes by itself
    FORBIDDEN = "forbidden"  # our role lacks the right


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """The verdict, with the words to show when a drain fails."""

    verdict: Verdict
    status: int
    text: str = ""
    retry_after_s: float | None = None

    @property
    def label(self) -> str:
        """The value of the metric label: status and verdict."""
        return f"{self.status}-{self.verdict.value}"


async def evict(client: KubeClient, pod: ObjectKey, uid: str) -> EvictionAnswer:
    """Ask for the eviction of one pod, of this very uid."""
    body: Document = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    call = Call("POST", PODS.path(pod, subresource="eviction"), body=body)
    try:
        await client.call(call, Urgency.NOW)
    except KubeError as error:
        return EvictionAnswer(_verdict(error), error.status, error.message, error.retry_after_s)
    return EvictionAnswer(Verdict.ACCEPTED, 201)


def _verdict(error: KubeError) -> Verdict:
    if isinstance(error, NotFoundError):
        return Verdict.GONE
    if error.status == 409:
        return Verdict.REPLACED
    if isinstance(error, ThrottledError):
        return Verdict.BUDGET if error.has_cause(BUDGET_CAUSE) else Verdict.PASSING
    if isinstance(error, ForbiddenError):
        if error.has_cause(BUDGET_CAUSE):
            return Verdict.BUDGET
        return Verdict.TERMINATING if error.has_cause(_TERMINATING_CAUSE) else Verdict.FORBIDDEN
    if error.status == 500 and _SEVERAL_BUDGETS in error.message:
        return Verdict.SEVERAL_BUDGETS
    return Verdict.PASSING if error.passing else Verdict.FORBIDDEN
