"""Label selectors: their canonical text, and which objects they select.

Why: a gang is identified by the text of its selector, so equal selectors have equal texts. The layout is the original's, so that
clusters which are taken over keep their gangs.
Rules: `operator#group-text`.
"""

from collections.abc import Mapping
from typing import Any

from bigfleet.kube.crds.capacity_request import OPERATORS
from bigfleet.model.matching import holds
from bigfleet.model.profile import Requirement


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return the canonical text of a selector: empty for a missing one, a semicolon for an empty one."""
    if selector is None:
        return ""
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    pairs = "".join(f"{key}={labels[key]}," for key in sorted(labels))
    expressions = sorted(
        (str(item.get("key", "")), str(item.get("operator", "")), ",".join(sorted(item.get("values") or ())))
        for item in selector.get("matchExpressions") or ()
    )
    return f"{pairs};" + "".join(f"{key} {operator} {values};" for key, operator, values in expressions)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector selects an object of these labels: a missing one nothing, an empty one everything.

    An operator that Kubernetes does not have selects nothing.
    """
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_selects(item, labels) for item in selector.get("matchExpressions") or ())


def _selects(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    operator = OPERATORS.get(str(item.get("operator", "")))
    if operator is None:
        return False
    key = str(item.get("key", ""))
    return holds(Requirement(key, operator, tuple(item.get("values") or ())), labels.get(key))
