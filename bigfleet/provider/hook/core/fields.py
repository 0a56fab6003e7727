"""Reads plain values of a document into typed ones, and collects every fault with its path.

Must never: stop at the first fault, or guess what an unknown key means.
Rules: `providers#hook-inventory`.
"""

from collections.abc import Mapping
from typing import Any

from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import CapacityType, Shape
from bigfleet.provider.hook.core.inventory import InventoryEntry

CAPACITY_TYPES = {
    "bare-metal": CapacityType.BARE_METAL,
    "reserved": CapacityType.RESERVED,
    "on-demand": CapacityType.ON_DEMAND,
    "spot": CapacityType.SPOT,
}
_MACHINE_KEYS = (
    "id",
    "ref",
    "instance_type",
    "zone",
    "capacity_type",
    "price_per_hour",
    "interruption_probability",
    "resources",
    "allocatable",
    "labels",
    "vars",
)


class FaultList:
    """The faults found so far, each with its path."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.texts: list[str] = []

    def add(self, path: str, found: object, allowed: str) -> None:
        self.add_text(f"{path}: found {_shown(found)}, allowed is {allowed}")

    def missing(self, path: str, allowed: str) -> None:
        self.add_text(f"{path}: missing, allowed is {allowed}")

    def add_text(self, text: str) -> None:
        # A key may hold half a character, and the text must be printable.
        self.texts.append(f"{self._where}: {text}".encode("utf-8", "backslashreplace").decode())

    def unknown(self, document: Mapping[Any, object], path: str, known: tuple[str, ...]) -> None:
        for key in document:
            if key not in known:
                self.add_text(f"{path}{key}: unknown key, allowed is one of {', '.join(known)}")


def machine(value: object, path: str, faults: FaultList, shapes: dict[Shape, Shape]) -> InventoryEntry | None:
    """Read one machine; None if it has no id. Equal shapes become one object, as fleets have few kinds."""
    if not isinstance(value, dict):
        faults.add(path, value, "a mapping")
        return None
    faults.unknown(value, f"{path}.", _MACHINE_KEYS)
    machine_id = text(value, "id", path, faults)
    if not machine_id:
        if "id" not in value:
            faults.missing(f"{path}.id", "a text that is not empty")
        elif value["id"] == "":
            faults.add(f"{path}.id", "", "a text that is not empty")
        return None
    shape = Shape(
        instance_type=text(value, "instance_type", path, faults),
        zone=text(value, "zone", path, faults),
        capacity_type=_capacity_type(value, path, faults),
        price_per_hour=_number(value, "price_per_hour", path, faults),
        interruption_probability=_number(value, "interruption_probability", path, faults),
        resources=texts(value, "resources", path, faults),
        allocatable=texts(value, "allocatable", path, faults),
        labels=texts(value, "labels", path, faults),
    )
    ref = text(value, "ref", path, faults)
    return InventoryEntry(
        machine_id, ref, shapes.setdefault(shape, shape), texts(value, "vars", path, faults)
    )


def text(document: Mapping[str, object], key: str, path: str, faults: FaultList) -> str:
    """Return a text, empty when the key is absent."""
    value = document.get(key, "")
    where = f"{path}.{key}" if path else key
    if not isinstance(value, str):
        faults.add(where, value, "a text; put numbers into quotes")
        return ""
    return value if _is_sendable(value, where, faults) else ""


def texts(document: Mapping[str, object], key: str, path: str, faults: FaultList) -> FrozenMap[str]:
    """Return a map of texts; whole numbers become texts."""
    value = document.get(key)
    if value is None:
        return NO_TEXTS
    where = f"{path}.{key}" if path else key
    if not isinstance(value, dict):
        faults.add(where, value, "a mapping of texts")
        return NO_TEXTS
    found: dict[str, str] = {}
    for name, inner in value.items():
        if not isinstance(name, str):
            faults.add(f"{where}[{name}]", name, "a key that is a text; put it into quotes")
        elif isinstance(inner, str) or (isinstance(inner, int) and not isinstance(inner, bool)):
            if _is_sendable(name, where, faults) and _is_sendable(str(inner), f"{where}[{name}]", faults):
                found[name] = str(inner)
        else:
            faults.add(f"{where}[{name}]", inner, "a text; put it into quotes")
    return FrozenMap(found)


def _is_sendable(value: str, where: str, faults: FaultList) -> bool:
    """Return whether a text can be encoded; JSON can hold half a character, which cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        faults.add(where, value, "a text of whole characters")
        return False
    return True


def _capacity_type(document: Mapping[str, object], path: str, faults: FaultList) -> CapacityType:
    value = document.get("capacity_type")
    allowed = f"one of {', '.join(CAPACITY_TYPES)}"
    if value is None:
        faults.missing(f"{path}.capacity_type", allowed)
        # Some valid type, so that the rules of the contract do not report the same fault again.
        return CapacityType.BARE_METAL
    found = CAPACITY_TYPES.get(value) if isinstance(value, str) else None
    if found is None:
        faults.add(f"{path}.capacity_type", value, allowed)
        return CapacityType.BARE_METAL
    return found


def _number(document: Mapping[str, object], key: str, path: str, faults: FaultList) -> float:
    value = document.get(key, 0)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    faults.add(f"{path}.{key}", value, "a number")
    return 0.0


def _shown(found: object) -> str:
    if isinstance(found, dict | list):
        return f"a {'mapping' if isinstance(found, dict) else 'list'}"
    shown = repr(found)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
