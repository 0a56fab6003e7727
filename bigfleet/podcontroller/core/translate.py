"""Translates a pod into the spec of its CapacityRequest.

Must never: raise, or include tolerations, claims or volumes: a request has no field for them.
Rules: `operator#request-life`, `operator#pod-requirements`, `operator#pod-affinity`; ADR-0024, ADR-0027, ADR-0039, ADR-0267.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.kube.crds.schema import MAX_RESOURCES
from bigfleet.kube.one_per_host import is_one_per_host
from bigfleet.kube.pod_request import pod_request
from bigfleet.model.quantity import parse_quantity
from bigfleet.podcontroller.core.affinity import co_location_of, spread_of
from bigfleet.podcontroller.core.penalties import PenaltyDefaults, penalties_of
from bigfleet.podcontroller.core.requirements import Inexact, requirements_of

Document = dict[str, Any]

_FIRST_RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Translation:
    """The spec and co-location scope of a request, what of the pod it cannot express, and warnings."""

    spec: Document
    scope: str
    inexact: tuple[Inexact, ...]
    warnings: tuple[str, ...]


def translate(pod: Mapping[str, Any], defaults: PenaltyDefaults) -> Translation:
    """Return the translation of a pod."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    requirements = requirements_of(spec)
    together, scope = co_location_of(spec)
    spread, spread_warnings = spread_of(spec)
    penalties, penalty_warnings = penalties_of(annotations, spec.get("priorityClassName") or "", defaults)
    resources, resource_warnings = _resources(spec)
    wanted: Document = {
        "priority": int(spec.get("priority") or 0),
        "requirements": requirements.items,
        "resources": resources,
        **penalties,
    }
    if spread:
        wanted["topologySpread"] = spread
    if together is not None:
        wanted["coLocation"] = together
    if any(parse_quantity(amount) for amount in resources.values()) and is_one_per_host(pod):
        wanted["maxPerMachine"] = 1
    warnings = (*requirements.warnings, *spread_warnings, *penalty_warnings, *resource_warnings)
    return Translation(wanted, scope, tuple(dict.fromkeys(requirements.inexact)), warnings)


def _resources(spec: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    amounts = pod_request(spec)
    if len(amounts) <= MAX_RESOURCES:
        return amounts, []
    names = sorted(amounts, key=lambda name: (name not in _FIRST_RESOURCES, name))
    kept = dict(sorted((name, amounts[name]) for name in names[:MAX_RESOURCES]))
    return kept, [f"{len(amounts)} resources requested, only {MAX_RESOURCES} of them count"]
