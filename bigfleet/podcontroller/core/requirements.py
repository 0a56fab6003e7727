"""The requirements of a pod on node labels: from node affinity and node selector to the four operators.

Why: a request with an unknown operator would be left out of the demand, and the machine of a running pod would look like surplus.
A weaker condition keeps the demand.
Must never: demand more than the pod does, or write what our schema refuses.
Rules: `operator#pod-requirements`, `operator#schema-limits`, `operator#reported-condition`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from bigfleet.kube.crds.capacity_request import MAX_REQUIREMENTS, MAX_VALUES
from bigfleet.kube.crds.schema import MAX_KEY, MAX_VALUE
from bigfleet.model.profile import INSTANCE_TYPE_KEY

Document = dict[str, Any]
_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


class Inexact(StrEnum):
    """What of a pod a request cannot express; the values are labels of the metric."""

    GT_LT = "gt_lt"
    MATCH_FIELDS = "match_fields"
    FURTHER_TERMS = "further_terms"


@dataclass(slots=True)
class Requirements:
    """The requirements in order, what was weakened, and warnings."""

    items: list[Document] = field(default_factory=list)
    inexact: list[Inexact] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def requirements_of(spec: Mapping[str, Any]) -> Requirements:
    """Return the requirements of a pod on its node."""
    found = Requirements()
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    wanted: list[Document] = []
    if required is not None:
        wanted += _first_term(required.get("nodeSelectorTerms") or (), found)
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    wanted += [_item(key, "In", (selector[key],)) for key in sorted(selector)]
    if required is None and not selector:
        wanted.append(_item(INSTANCE_TYPE_KEY, "Exists"))
    for item in wanted:
        fitting = _fitting(item, found)
        if fitting is not None and fitting not in found.items:
            found.items.append(fitting)
    if len(found.items) > MAX_REQUIREMENTS:
        found.warnings.append(
            f"{len(found.items)} requirements on the node, only the first {MAX_REQUIREMENTS} count"
        )
        del found.items[MAX_REQUIREMENTS:]
    return found


def _first_term(terms: Iterable[Mapping[str, Any]], found: Requirements) -> list[Document]:
    first, *further = [*terms] or [{}]
    if further:
        found.inexact.append(Inexact.FURTHER_TERMS)
    if first.get("matchFields"):
        found.inexact.append(Inexact.MATCH_FIELDS)
    items = []
    for expression in first.get("matchExpressions") or ():
        operator = str(expression.get("operator", ""))
        if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            # Gt and Lt: a request can only say that the label exists.
            found.inexact.append(Inexact.GT_LT)
            operator = "Exists"
        items.append(_item(str(expression.get("key", "")), operator, expression.get("values") or ()))
    return items


def _item(key: str, operator: str, values: Iterable[str] = ()) -> Document:
    item: Document = {"key": key, "operator": operator}
    if operator in _WITH_VALUES:
        item["values"] = [str(value) for value in values]
    return item


def _fitting(item: Document, found: Requirements) -> Document | None:
    """Return the requirement within the limits of the schema: weakened if it is too large, None if nothing is left."""
    key, values = item["key"], item.get("values")
    if not 0 < len(key) <= MAX_KEY:
        found.warnings.append(f"a node label key of {len(key)} characters is left out")
        return None
    if values is None:
        return item
    if 0 < len(values) <= MAX_VALUES and all(len(value) <= MAX_VALUE for value in values):
        return item
    found.warnings.append(
        f"the values for node label {key} are too many or too long, only part of the condition counts"
    )
    # In implies that the label exists; NotIn implies nothing.
    return _item(key, "Exists") if item["operator"] == "In" else None
