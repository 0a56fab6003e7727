"""The canonical text of a label selector: equal selectors have equal texts.

Why: a gang is identified by its selector. The layout is the original's, so that clusters which are taken over keep their gangs.
Rules: `operator#group-text`.
"""

from collections.abc import Mapping
from typing import Any


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
