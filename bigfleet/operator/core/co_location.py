"""The group of a gang: the text that is equal for all requests that belong together.

Why: the shard compares groups for equality, so equal terms must give equal texts in every operator at every time.
Must never: join namespaces that did not ask for it, or keep a selector text of unlimited size.
Rules: `operator#gang-rows`; ADR-0024, ADR-0125. After the scope the text is the original's.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.kube.crds.capacity_request import OPERATORS
from bigfleet.kube.selectors import selector_text
from bigfleet.operator.core.label_grammar import is_label_key, is_label_value
from bigfleet.operator.core.refusal import RefusedRequestError

NUL: Final = "\0"
MAX_SELECTOR_TEXT: Final = 4096


def group_text(scope: str, topology_key: str, selector: Mapping[str, Any] | None) -> str:
    """Return the group: scope, key and selector, separated by a byte that none of them can contain."""
    if not is_label_key(topology_key):
        raise RefusedRequestError(
            "selector",
            "spec.coLocation.topologyKey",
            topology_key,
            "a label key such as zone or a.example/rack",
        )
    check_selector(selector)
    return f"{scope}{NUL}{topology_key}{NUL}{_bounded(selector_text(selector))}"


def check_selector(selector: Mapping[str, Any] | None) -> None:
    """Refuse a selector that is malformed or that no pod could match."""
    labels = (selector or {}).get("matchLabels") or {}
    expressions = (selector or {}).get("matchExpressions") or ()
    where = "spec.coLocation.labelSelector"
    if not isinstance(labels, Mapping) or not isinstance(expressions, list | tuple):
        raise RefusedRequestError("selector", where, "another shape", "matchLabels and matchExpressions")
    for key, value in labels.items():
        _check(key, [value], f"{where}.matchLabels")
    for entry in expressions:
        _check_expression(entry, f"{where}.matchExpressions")


def _check_expression(entry: object, where: str) -> None:
    if not isinstance(entry, Mapping):
        raise RefusedRequestError("selector", where, entry, "objects with key, operator and values")
    operator, values = entry.get("operator"), entry.get("values") or []
    if operator not in OPERATORS:
        raise RefusedRequestError("selector", f"{where}.operator", operator, f"one of {', '.join(OPERATORS)}")
    if not isinstance(values, list | tuple):
        raise RefusedRequestError("selector", f"{where}.values", values, "a list of label values")
    _check(entry.get("key"), values, where)


def _check(key: object, values: Sequence[object], where: str) -> None:
    if not isinstance(key, str) or not is_label_key(key):
        raise RefusedRequestError("selector", where, key, "a label key such as app or a.example/app")
    for value in values:
        if not isinstance(value, str) or not is_label_value(value):
            raise RefusedRequestError(
                "selector", where, value, "a label value of at most 63 letters, digits, - _ ."
            )


def _bounded(text: str) -> str:
    # Only compared for equality, so a hash is enough; the API server allows a selector of a megabyte.
    if len(text) <= MAX_SELECTOR_TEXT:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
