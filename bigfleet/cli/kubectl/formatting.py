"""Formats parts of Kubernetes objects as text: amounts, requirements, ages."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bigfleet.cli.framework.values import format_duration

Document = dict[str, Any]
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"))


def amounts(resources: Mapping[str, Any]) -> str:
    """Return amounts as `cpu 1, memory 1Gi`."""
    return ", ".join(f"{name} {resources[name]}" for name in sorted(resources)) or "nothing"


def requirements(items: Sequence[Mapping[str, Any]]) -> str:
    """Return requirements as `arch In arm64; zone Exists`."""
    return "; ".join(requirement(item) for item in items) or "any node"


def requirement(item: Mapping[str, Any]) -> str:
    """Return one requirement as `arch In arm64,x86`."""
    values = ",".join(item.get("values") or ())
    return f"{item['key']} {item['operator']}{f' {values}' if values else ''}"


def age(stamp: str | None, now: datetime) -> str | None:
    """Return how long ago a time of the API server is, in the form of kubectl; None without a time."""
    if not stamp:
        return None
    seconds = max(0, int((now - datetime.fromisoformat(stamp)).total_seconds()))
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return format_duration(seconds) if seconds else "0s"


def condition(document: Document, kind: str) -> Mapping[str, Any]:
    """Return the condition of this type, empty if there is none."""
    found = (document.get("status") or {}).get("conditions") or ()
    return next((item for item in found if item.get("type") == kind), {})
