"""Objects held against Kubernetes' own description of its API, offline and strictly: what it does not know is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
_GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
_INT_OR_STRING = "int-or-string"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
    "array": list,
    "object": dict,
}


class KubeSchema:
    """The description of one Kubernetes version, as its sources carry it."""

    def __init__(self, file: Path) -> None:
        self._definitions: dict[str, Schema] = json.loads(file.read_bytes())["definitions"]
        self._kinds = {
            ("/".join(filter(None, (about["group"], about["version"]))), about["kind"]): schema
            for schema in self._definitions.values()
            for about in schema.get(_GROUP_VERSION_KIND, ())
        }

    def knows(self, thing: dict[str, Any]) -> bool:
        """Tell whether the object is of a kind of Kubernetes itself."""
        return (thing["apiVersion"], thing["kind"]) in self._kinds

    def problems(self, thing: dict[str, Any]) -> list[str]:
        """Return everything about an object that the description does not allow."""
        return list(self._problems(thing, self._kinds[thing["apiVersion"], thing["kind"]], thing["kind"]))

    def _problems(self, value: Any, schema: Schema, place: str) -> Iterator[str]:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        kind = schema.get("type")
        if schema.get("format") == _INT_OR_STRING:
            if isinstance(value, bool) or not isinstance(value, int | str):
                yield f"{place}: found {value!r}, allowed is a number or a text"
            return
        if kind is None and "properties" not in schema:
            return  # free form, as the parts of a schema inside a CustomResourceDefinition
        wanted = _TYPES[kind or "object"]
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "boolean"):
            yield f"{place}: found {value!r}, allowed is {kind or 'object'}"
        elif isinstance(value, list):
            for at, item in enumerate(value):
                yield from self._problems(item, schema["items"], f"{place}[{at}]")
        elif isinstance(value, dict):
            yield from self._fields(value, schema, place)

    def _fields(self, value: dict[str, Any], schema: Schema, place: str) -> Iterator[str]:
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{place}.{name}: missing"
        for name, item in value.items():
            if name in properties:
                yield from self._problems(item, properties[name], f"{place}.{name}")
            elif isinstance(others, dict):
                yield from self._problems(item, others, f"{place}.{name}")
            elif properties:
                yield f"{place}.{name}: no such field"
