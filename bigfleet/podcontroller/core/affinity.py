"""Co-location from required pod affinity, and topology spread, of a pod.

Why: users write ordinary Kubernetes fields and nothing of ours (ADR-0024).
Must never: read preferred affinity, anti-affinity (`bigfleet.kube.one_per_host` does), or anything about owners.
Rules: `operator#pod-requirements`, `operator#gang-rows`.
"""

from collections.abc import Mapping
from typing import Any, Final

from bigfleet.kube.crds.capacity_request import MAX_SPREADS
from bigfleet.kube.selectors import selector_text

Document = dict[str, Any]
_BINDING: Final = "DoNotSchedule"


def co_location_of(spec: Mapping[str, Any]) -> tuple[Document | None, str]:
    """Return the co-location of the first required pod-affinity term, and its scope if that is not the pod's namespace."""
    affinity = (spec.get("affinity") or {}).get("podAffinity") or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    term: Mapping[str, Any] | None = next(iter(terms), None)
    if term is None or not term.get("topologyKey"):
        return None, ""
    together: Document = {"topologyKey": term["topologyKey"]}
    selector = term.get("labelSelector")
    if selector is not None:
        together["labelSelector"] = {
            name: selector[name] for name in ("matchLabels", "matchExpressions") if selector.get(name)
        }
    return together, _scope(term)


def spread_of(spec: Mapping[str, Any]) -> tuple[list[Document], list[str]]:
    """Return the binding spread constraints, in the order of the pod, and warnings."""
    terms = [
        {
            "topologyKey": item["topologyKey"],
            "maxSkew": item["maxSkew"],
            "whenUnsatisfiable": item["whenUnsatisfiable"],
        }
        for item in spec.get("topologySpreadConstraints") or ()
        if item.get("whenUnsatisfiable") == _BINDING
    ]
    if len(terms) <= MAX_SPREADS:
        return terms, []
    return terms[:MAX_SPREADS], [f"{len(terms)} spread constraints, only the first {MAX_SPREADS} count"]


def _scope(term: Mapping[str, Any]) -> str:
    namespaces, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if not namespaces and selector is None:
        return ""
    return ",".join(sorted(namespaces)) + ";" + selector_text(selector)
