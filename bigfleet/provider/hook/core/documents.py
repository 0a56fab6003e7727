"""Parses inventory files, YAML, JSON or CSV, into one inventory.

Must never: accept a key that is given twice, in one file or in two.
Rules: `providers#hook-inventory`.
"""

import csv
import io
import json
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from bigfleet.document.strict_yaml import clipped, load_strict_yaml, problem_of
from bigfleet.model.machine import Shape
from bigfleet.provider.hook.core import fields
from bigfleet.provider.hook.core.errors import InventoryError
from bigfleet.provider.hook.core.fields import FaultList
from bigfleet.provider.hook.core.inventory import (
    DEFAULT_NAME,
    HookInventory,
    HookKind,
    InventoryEntry,
    faults_of,
)

ENDINGS = (".yaml", ".yml", ".json", ".csv")
HookSets = Mapping[str, Mapping[HookKind, str]]
"""The bundled hook sets: by name, the path of each hook."""

_KEYS = ("name", "clusters", "hook_set", "hooks", "pass_env", "resume", "machines")
_MAP_COLUMNS = ("resources", "allocatable", "labels", "vars")
_NUMBER_COLUMNS = ("price_per_hour", "interruption_probability")


@dataclass(slots=True)
class _Draft:
    """The values read so far, and the file of each."""

    values: dict[str, Any] = field(default_factory=dict)
    given_in: dict[str, str] = field(default_factory=dict)
    entries: dict[str, InventoryEntry] = field(default_factory=dict)
    shapes: dict[Shape, Shape] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def read_inventory(files: Iterable[tuple[str, bytes]], sets: HookSets) -> HookInventory:
    """Read all files, given as path and content, into one inventory; raise `InventoryError` with every fault."""
    draft = _Draft()
    for path, content in files:
        faults = FaultList(path)
        document = _parsed(path, content, faults)
        if document is not None:
            _take(draft, document, path, faults, sets)
        draft.faults += faults.texts
    values = draft.values
    inventory = HookInventory(
        name=values.get("name", DEFAULT_NAME),
        clusters=values.get("clusters", {}),
        hooks={**values.get("hook_set", {}), **values.get("hooks", {})},
        pass_env=values.get("pass_env", ()),
        resume=values.get("resume", True),
        entries=draft.entries,
    )
    faults_found = [*draft.faults, *(faults_of(inventory) if not draft.faults else ())]
    if faults_found:
        raise InventoryError(faults_found)
    return inventory


def read_discovered(output: bytes, where: str) -> dict[str, InventoryEntry]:
    """Read the output of a discover hook: one JSON object with `machines`."""
    faults, entries = FaultList(where), dict[str, InventoryEntry]()
    document = _parsed(f"{where}.json", output, faults)
    if document is not None:
        faults.unknown(document, "", ("machines",))
        _machines(document.get("machines"), entries, {}, faults)
    if faults.texts:
        raise InventoryError(faults.texts)
    return entries


def _take(draft: _Draft, document: dict[str, Any], path: str, faults: FaultList, sets: HookSets) -> None:
    faults.unknown(document, "", _KEYS)
    base = posixpath.dirname(path)
    readers: dict[str, Callable[[], object]] = {
        "name": lambda: fields.text(document, "name", "", faults) or _no_name(faults),
        "clusters": lambda: _clusters(document["clusters"], base, faults),
        "hook_set": lambda: _hook_set(document["hook_set"], sets, faults),
        "hooks": lambda: _hooks(document["hooks"], base, faults),
        "pass_env": lambda: _pass_env(document["pass_env"], faults),
        "resume": lambda: _boolean(document["resume"], "resume", faults),
    }
    for key, read in readers.items():
        if key not in document:
            continue
        if key in draft.given_in:
            faults.add_text(f"{key}: given here and in {draft.given_in[key]}, allowed is once over all files")
            continue
        draft.given_in[key] = path
        draft.values[key] = read()
    if "machines" in document:
        _machines(document["machines"], draft.entries, draft.shapes, faults)


def _machines(
    value: object, entries: dict[str, InventoryEntry], shapes: dict[Shape, Shape], faults: FaultList
) -> None:
    if not isinstance(value, list):
        faults.add("machines", value, "a list")
        return
    for number, item in enumerate(value):
        path = f"machines[{number}]"
        entry = fields.machine(item, path, faults, shapes)
        if entry is None:
            continue
        if entry.id in entries:
            faults.add(f"{path}.id", entry.id, "an id that no other machine has")
        entries[entry.id] = entry


def _hooks(value: object, base: str, faults: FaultList) -> dict[HookKind, str]:
    if not isinstance(value, dict):
        faults.add("hooks", value, "a mapping from kind to path")
        return {}
    faults.unknown(value, "hooks.", tuple(HookKind))
    found = {}
    for kind in HookKind:
        if kind in value:
            path = value[kind]
            if isinstance(path, str) and path:
                found[kind] = posixpath.normpath(posixpath.join(base, path))
            else:
                faults.add(f"hooks.{kind}", path, "the path of an executable file")
    return found


def _hook_set(value: object, sets: HookSets, faults: FaultList) -> dict[HookKind, str]:
    names: Sequence[object] = value if isinstance(value, list) else [value]
    found: dict[HookKind, str] = {}
    for name in names:
        if isinstance(name, str) and name in sets:
            found |= sets[name]
        else:
            faults.add("hook_set", name, f"one or more of {', '.join(sets)}")
    return found


def _clusters(value: object, base: str, faults: FaultList) -> dict[str, str]:
    if not isinstance(value, dict):
        faults.add("clusters", value, "a mapping from cluster to {kubeconfig: path}")
        return {}
    found = {}
    for name, inner in value.items():
        path = inner.get("kubeconfig") if isinstance(inner, dict) and set(inner) == {"kubeconfig"} else None
        if isinstance(name, str) and isinstance(path, str) and path:
            found[name] = posixpath.normpath(posixpath.join(base, path))
        else:
            faults.add(f"clusters[{name}]", inner, "{kubeconfig: path}")
    return found


def _pass_env(value: object, faults: FaultList) -> tuple[str, ...]:
    if not isinstance(value, list):
        faults.add("pass_env", value, "a list of variable names")
        return ()
    for number, name in enumerate(value):
        if not isinstance(name, str) or not name or "=" in name or name.startswith("BF_"):
            faults.add(f"pass_env[{number}]", name, "the name of a variable that does not begin with BF_")
    return tuple(map(str, value))


def _boolean(value: object, path: str, faults: FaultList) -> bool:
    if isinstance(value, bool):
        return value
    faults.add(path, value, "true or false")
    return False


def _no_name(faults: FaultList) -> str:
    faults.add("name", "", "a text that is not empty")
    return DEFAULT_NAME


# From bytes to a plain document.


def _parsed(path: str, content: bytes, faults: FaultList) -> dict[str, Any] | None:
    try:
        text = content.decode()
        if path.endswith(".csv"):
            return {"machines": _rows(text)}
        document = (
            json.loads(text, object_pairs_hook=_once) if path.endswith(".json") else load_strict_yaml(text)
        )
    except UnicodeDecodeError:
        faults.add_text("not readable, allowed is UTF-8 text")
        return None
    except yaml.YAMLError as error:
        faults.add_text(f"{problem_of(error)}, allowed is YAML, JSON or CSV by the file's ending")
        return None
    except (ValueError, csv.Error, RecursionError) as error:
        problem = " ".join(str(error).split())
        faults.add_text(f"{problem}, allowed is YAML, JSON or CSV by the file's ending")
        return None
    if not isinstance(document, dict):
        faults.add("the file", document, f"a mapping with some of {', '.join(_KEYS)}")
        return None
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"key {clipped(name)} is given twice")
        found[name] = value
    return found


def _rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a table as machines; column `labels.rack` is a key of the map `labels`, empty cells are skipped."""
    machines: list[dict[str, Any]] = []
    for row in csv.DictReader(io.StringIO(text), strict=True):
        machine: dict[str, Any] = {}
        for column, cell in row.items():
            if column is None or cell is None:
                raise ValueError(f"line {len(machines) + 2} has more or fewer cells than the first line")
            name, dot, inner = column.strip().partition(".")
            if not cell.strip():
                continue
            if dot and name in _MAP_COLUMNS:
                machine.setdefault(name, {})[inner] = cell.strip()
            else:
                machine[column.strip()] = _number(cell.strip()) if name in _NUMBER_COLUMNS else cell.strip()
        machines.append(machine)
    return machines


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell  # reported as a fault where numbers are read
