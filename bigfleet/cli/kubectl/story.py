"""What is happening for one pod, told from its documents: the pod, its request, upcoming nodes, and the shard's verdicts.

Why: each object says a part; whether somebody has to act follows only from all of them together.
Must never: call anything, or promise a node; the scheduler binds, the shard decides.
Rules: operator 2.1, 12.2, 13 (on-call), decision O5, ADR-0167.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bigfleet.cli.kubectl import formatting
from bigfleet.kube.crds.capacity_request import ACKNOWLEDGED, REPORTED
from bigfleet.kube.crds.upcoming_node import PHASES
from bigfleet.kube.suitability import may_serve

Document = dict[str, Any]
_COMING: Final = ("Provisioning", "Launched", "Registered")
_LATE_S: Final = 60
"""A request is reported with the next roll-up, ten seconds later at most; a minute means that nobody reports."""


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known of one pod's wait; what could not be found is None or empty."""

    pod: Document | None = None
    request: Document | None = None
    upcoming: Sequence[Document] = ()
    events: Sequence[Document] = ()
    verdicts: Sequence[str] = field(default=())


def suited(request: Document, nodes: Sequence[Document]) -> list[Document]:
    """Return the upcoming nodes that may serve a request, in the order of their life."""
    found = [node for node in nodes if may_serve(node.get("spec") or {}, request["spec"])]
    return sorted(found, key=lambda node: (PHASES.index(phase_of(node)), node["metadata"]["name"]))


def phase_of(node: Document) -> str:
    """Return the phase of an upcoming node; an empty one counts as the first."""
    return (node.get("status") or {}).get("phase") or PHASES[0]


def tell(case: Case, now: datetime) -> dict[str, object]:
    """Return the story as fields in the order in which a person reads them; the last says what it comes to."""
    told: dict[str, object] = {}
    if case.pod is not None:
        told["pod"] = f"{_name(case.pod)}, {_pod_words(case.pod, now)}"
    if case.request is not None:
        spec = case.request["spec"]
        told["request"] = f"{_name(case.request)}, {_request_words(case.request, now)}"
        told["asks for"] = _demand_words(spec)
        told["nodes for it"] = [
            _node_words(node) for node in suited(case.request, case.upcoming)[:10]
        ] or None
    told["events"] = [_event_words(event, now) for event in case.events] or None
    if case.verdicts:
        told["shard says"] = list(case.verdicts)
    told["so"] = conclusion(case, now)
    return told


def conclusion(case: Case, now: datetime) -> str:
    """Return what it all comes to, and what somebody may do about it."""
    pod, request = case.pod, case.request
    if pod is not None:
        phase = (pod.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            return "the pod has finished; it asks for nothing"
        if pod["spec"].get("schedulingGates"):
            gates = ", ".join(gate["name"] for gate in pod["spec"]["schedulingGates"])
            return f"the pod is held back by scheduling gates ({gates}); capacity is asked for when they are gone"
        if pod["spec"].get("nodeName"):
            return f"the pod has a node, {pod['spec']['nodeName']}; its request stays as part of the demand"
    if request is None:
        return "nobody has asked for capacity; is bigfleet-unschedulable-pod-controller running, and may it write?"
    reported = formatting.condition(request, REPORTED)
    if reported.get("status") == "False":
        return f"the request is left out of the demand, {reported.get('reason')}: {reported.get('message')}"
    if (request.get("status") or {}).get("phase") != ACKNOWLEDGED:
        created = datetime.fromisoformat(request["metadata"]["creationTimestamp"])
        if (now - created).total_seconds() < _LATE_S:
            return "the operator reports the request with its next roll-up"
        return "the operator has not reported the request; is it running, connected and synchronised? see its /readyz"
    nodes = suited(request, case.upcoming)
    coming = [node for node in nodes if phase_of(node) in _COMING]
    if coming:
        return f"a node that may serve it is on its way: {coming[0]['metadata']['name']}"
    ready = [node for node in nodes if phase_of(node) == "Ready"]
    if ready and pod is not None:
        return (
            f"{len(ready)} nodes of the kind are Ready, and the scheduler has not bound the pod: "
            f"{_scheduler_words(pod) or 'it has not said why'}"
        )
    if case.verdicts:
        return "the shard knows the need; its verdict is above"
    return "the shard knows the need, and no machine is on its way; --shard asks it why"


def _name(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


def _pod_words(pod: Document, now: datetime) -> str:
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    age = formatting.age(pod["metadata"].get("creationTimestamp"), now)
    node = pod["spec"].get("nodeName")
    waits = _scheduler_words(pod)
    return f"{phase} for {age}" + (f" on {node}" if node else "") + (f": {waits}" if waits else "")


def _scheduler_words(pod: Document) -> str:
    found = formatting.condition(pod, "PodScheduled")
    return str(found.get("message") or "") if found.get("status") == "False" else ""


def _request_words(request: Document, now: datetime) -> str:
    status = request.get("status") or {}
    since = status.get("acknowledgedAt") or request["metadata"].get("creationTimestamp")
    return f"{status.get('phase') or 'Pending'} for {formatting.age(since, now)}"


def _demand_words(spec: Document) -> list[str]:
    words = [
        formatting.amounts(spec.get("resources") or {}),
        f"priority {spec.get('priority', 0)}",
    ]
    words.append(
        f"nodes with {formatting.requirements(items)}" if (items := spec.get("requirements")) else "any node"
    )
    if spec.get("coLocation"):
        words.append(f"together in one {spec['coLocation']['topologyKey']}")
    words += [f"spread over {item['topologyKey']}" for item in spec.get("topologySpread") or ()]
    for name, title in (("interruptionPenalty", "an interruption"), ("reclamationPenalty", "a reclamation")):
        if spec.get(name) is not None:
            words.append(f"{title} costs {spec[name]} dollars")
    return words


def _node_words(node: Document) -> str:
    status = node.get("status") or {}
    told = f"{node['metadata']['name']} {phase_of(node)}"
    if name := (status.get("nodeRef") or {}).get("name"):
        told += f" as {name}"
    return f"{told}: {status['lastError']}" if status.get("lastError") else told


def _event_words(event: Document, now: datetime) -> str:
    stamp = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return f"{formatting.age(stamp, now)} ago {event.get('reason')}: {event.get('message')}"
