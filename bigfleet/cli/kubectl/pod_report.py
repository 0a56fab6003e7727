"""The report on one pod from its objects: the pod, its request, upcoming nodes, and the shard's verdicts.

Why: whether a person has to act follows only from all of them together.
Must never: call anything, or promise a node; the scheduler binds and the shard decides.
Rules: `operator#capacity-request`, `operator#request-life`, `operator#kubectl-plugin`, `operator#plugin-why`; ADR-0167.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bigfleet.cli.kubectl import formatting
from bigfleet.kube.crds.capacity_request import ACKNOWLEDGED, REPORTED
from bigfleet.kube.crds.upcoming_node import PHASES
from bigfleet.kube.node_fit import may_serve

Document = dict[str, Any]
_COMING: Final = ("Provisioning", "Launched", "Registered")
_LATE_S: Final = 60
"""A request is reported with the next roll-up, within ten seconds; after a minute the operator is not reporting."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The objects about one pod; missing ones are None or empty."""

    pod: Document | None = None
    request: Document | None = None
    upcoming: Sequence[Document] = ()
    events: Sequence[Document] = ()
    verdicts: Sequence[str] = field(default=())


def suitable_nodes(request: Document, nodes: Sequence[Document]) -> list[Document]:
    """Return the upcoming nodes that may serve a request, by phase, then by name."""
    found = [node for node in nodes if may_serve(node.get("spec") or {}, request["spec"])]
    return sorted(found, key=lambda node: (PHASES.index(phase_of(node)), node["metadata"]["name"]))


def phase_of(node: Document) -> str:
    """Return the phase of an upcoming node; an empty one means the first."""
    return (node.get("status") or {}).get("phase") or PHASES[0]


def describe_pod(facts: PodFacts, now: datetime) -> dict[str, object]:
    """Return the report as fields in reading order; the last one is the conclusion."""
    report: dict[str, object] = {}
    if facts.pod is not None:
        report["pod"] = f"{_name(facts.pod)}, {_pod_text(facts.pod, now)}"
    if facts.request is not None:
        spec = facts.request["spec"]
        report["request"] = f"{_name(facts.request)}, {_request_text(facts.request, now)}"
        report["asks for"] = _demand_text(spec)
        report["nodes for it"] = [
            _node_text(node) for node in suitable_nodes(facts.request, facts.upcoming)[:10]
        ] or None
    report["events"] = [_event_text(event, now) for event in facts.events] or None
    if facts.verdicts:
        report["shard says"] = list(facts.verdicts)
    report["so"] = conclusion(facts, now)
    return report


def conclusion(facts: PodFacts, now: datetime) -> str:
    """Return the conclusion, and what to do about it."""
    pod, request = facts.pod, facts.request
    if pod is not None:
        phase = (pod.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            return "the pod has finished; it requests nothing"
        if pod["spec"].get("schedulingGates"):
            gates = ", ".join(gate["name"] for gate in pod["spec"]["schedulingGates"])
            return f"the pod has scheduling gates ({gates}); capacity is requested when they are removed"
        if pod["spec"].get("nodeName"):
            return f"the pod has a node, {pod['spec']['nodeName']}; its request remains part of the demand"
    if request is None:
        return "there is no request; is bigfleet-unschedulable-pod-controller running, and may it write?"
    reported = formatting.condition(request, REPORTED)
    if reported.get("status") == "False":
        return f"the request is left out of the demand, {reported.get('reason')}: {reported.get('message')}"
    if (request.get("status") or {}).get("phase") != ACKNOWLEDGED:
        created = datetime.fromisoformat(request["metadata"]["creationTimestamp"])
        if (now - created).total_seconds() < _LATE_S:
            return "the operator will report the request with its next roll-up"
        return "the operator has not reported the request; is it running, connected and synchronised? see its /readyz"
    nodes = suitable_nodes(request, facts.upcoming)
    coming = [node for node in nodes if phase_of(node) in _COMING]
    if coming:
        return f"a node that may serve it is on its way: {coming[0]['metadata']['name']}"
    ready = [node for node in nodes if phase_of(node) == "Ready"]
    if ready and pod is not None:
        return (
            f"{len(ready)} matching nodes are Ready, but the scheduler has not bound the pod: "
            f"{_scheduler_text(pod) or 'it gives no reason'}"
        )
    if facts.verdicts:
        return "the shard knows the need; its verdict is above"
    return "the shard knows the need, but no machine is on its way; --shard asks it why"


def _name(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


def _pod_text(pod: Document, now: datetime) -> str:
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    age = formatting.age(pod["metadata"].get("creationTimestamp"), now)
    node = pod["spec"].get("nodeName")
    waits = _scheduler_text(pod)
    return f"{phase} for {age}" + (f" on {node}" if node else "") + (f": {waits}" if waits else "")


def _scheduler_text(pod: Document) -> str:
    found = formatting.condition(pod, "PodScheduled")
    return str(found.get("message") or "") if found.get("status") == "False" else ""


def _request_text(request: Document, now: datetime) -> str:
    status = request.get("status") or {}
    since = status.get("acknowledgedAt") or request["metadata"].get("creationTimestamp")
    return f"{status.get('phase') or 'Pending'} for {formatting.age(since, now)}"


def _demand_text(spec: Document) -> list[str]:
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
    if spec.get("maxPerMachine"):
        words.append(f"at most {spec['maxPerMachine']} on a machine")
    for name, title in (("interruptionPenalty", "an interruption"), ("reclamationPenalty", "a reclamation")):
        if spec.get(name) is not None:
            words.append(f"{title} costs {spec[name]} dollars")
    return words


def _node_text(node: Document) -> str:
    status = node.get("status") or {}
    text = f"{node['metadata']['name']} {phase_of(node)}"
    if name := (status.get("nodeRef") or {}).get("name"):
        text += f" as {name}"
    return f"{text}: {status['lastError']}" if status.get("lastError") else text


def _event_text(event: Document, now: datetime) -> str:
    stamp = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return f"{formatting.age(stamp, now)} ago {event.get('reason')}: {event.get('message')}"
