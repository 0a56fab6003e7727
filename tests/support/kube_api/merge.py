"""What a JSON merge patch does to a document (RFC 7396)."""

from collections.abc import Mapping
from typing import Any

from bigfleet.kube.transport import Document


def merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Return a document as a merge patch leaves it."""
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result
