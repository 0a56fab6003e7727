"""Structural schemas and selectors for the in-memory API server.

Why: a test that writes a field that the real server would prune or refuse must find out here, not in a cluster.
Must never: be taken for the whole of validation: rules in the expression language are the real server's alone, and the
table of good and bad objects in the end-to-end tests goes there.
Rules: `wire#custom-resources`, `operator#schema-limits`, `operator#reported-condition`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from bigfleet.kube.crds.schema import Schema
from bigfleet.kube.transport import Document
from bigfleet.model.errors import InvalidFieldError

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}


def prune(value: Any, schema: Schema) -> Any:
    """Return a value without the fields that its schema does not know."""
    if isinstance(value, dict) and "properties" in schema:
        known: Schema = schema["properties"]
        return {name: prune(inner, known[name]) for name, inner in value.items() if name in known}
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        return {name: prune(inner, schema["additionalProperties"]) for name, inner in value.items()}
    if isinstance(value, dict) and "description" in schema and schema.get("type") == "object":
        return {}
    if isinstance(value, list) and "items" in schema:
        return [prune(inner, schema["items"]) for inner in value]
    return value


def problems(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Yield each error of a value as field and message."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield path, "must be an integer or a string"
        elif isinstance(value, str):
            yield from _text_problems(value, schema, path)
        return
    wanted = schema.get("type")
    if wanted is not None and (
        not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")
    ):
        yield path, f"must be of type {wanted}"
        return
    if isinstance(value, dict):
        yield from _map_problems(value, schema, path)
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            yield path, f"must have at most {schema['maxItems']} items"
        for index, inner in enumerate(value):
            yield from problems(inner, schema.get("items", {}), f"{path}[{index}]")
    elif isinstance(value, str):
        yield from _text_problems(value, schema, path)


def _map_problems(value: dict[str, Any], schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}", "Required value"
    if len(value) > schema.get("maxProperties", len(value)):
        yield path, f"must have at most {schema['maxProperties']} properties"
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, inner in value.items():
        if name in known:
            yield from problems(inner, known[name], f"{path}.{name}")
        elif isinstance(others, dict):
            yield from problems(inner, others, f"{path}.{name}")


def _text_problems(value: str, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    if "enum" in schema and value not in schema["enum"]:
        yield path, f"Unsupported value: {value!r}"
    if len(value) > schema.get("maxLength", len(value)):
        yield path, f"may not be longer than {schema['maxLength']}"
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield path, f"should match '{schema['pattern']}'"


def label_matcher(selector: str) -> list[tuple[str, str, frozenset[str]]]:
    """Read a label selector of the forms a=b, a==b, a!=b, a, !a, a in (b,c), a notin (b,c)."""
    terms: list[tuple[str, str, frozenset[str]]] = []
    for part in re.findall(r"[^,(]+(?:\([^)]*\))?", selector):
        term = part.strip()
        if found := re.fullmatch(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)", term):
            values = frozenset(value.strip() for value in found[3].split(","))
            terms.append((found[1], found[2], values))
        elif found := re.fullmatch(r"([^!=\s]+)\s*(==|=|!=)\s*(\S*)", term):
            terms.append((found[1], "notin" if found[2] == "!=" else "in", frozenset({found[3]})))
        elif found := re.fullmatch(r"(!?)([^!=\s]+)", term):
            terms.append((found[2], "absent" if found[1] else "present", frozenset()))
        else:
            raise InvalidFieldError("labelSelector", selector, "terms such as a=b, a!=b, a, !a, a in (b,c)")
    return terms


def labels_match(document: Document, terms: list[tuple[str, str, frozenset[str]]]) -> bool:
    """Return whether an object's labels satisfy a selector."""
    labels: dict[str, str] = document["metadata"].get("labels") or {}
    for key, operator, values in terms:
        value = labels.get(key)
        held = {
            "in": value is not None and value in values,
            "notin": value is None or value not in values,
            "present": value is not None,
            "absent": value is None,
        }
        if not held[operator]:
            return False
    return True


def fields_match(document: Document, selector: str) -> bool:
    """Return whether an object satisfies a field selector such as spec.nodeName=n1,status.phase!=Failed."""
    for term in filter(None, selector.split(",")):
        path, negated, wanted = re.split(r"(!?)==?", term, maxsplit=1)
        value: Any = document
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if (str(value or "") == wanted) is bool(negated):
            return False
    return True
