"""One row of a chart's values, and the files made from all rows: values.yaml, values.schema.json, the table, the checks.

Why: a value that is typed into four files is described in three ways; here its default, type and meaning stand once.
Must never: know a particular chart.
Rules: `packaging#chart-values`, `packaging#crds`; ADR-0170.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

Schema = dict[str, Any]  # JSON Schema is open-ended

_DRAFT: Final = "https://json-schema.org/draft-07/schema#"
_LONG: Final = 100


@dataclass(frozen=True, slots=True)
class Value:
    """One key that a user may set, by its dotted path.

    `check` names the template that looks at it where JSON Schema could only quote a regular expression. `kept` marks a key
    that no template reads: it is there so that values files of the original stay valid.
    """

    path: str
    schema: Schema
    default: Any  # whatever YAML can hold
    meaning: str
    check: str = ""
    kept: bool = False


def text(path: str, default: str, meaning: str, *, check: str = "", kept: bool = False) -> Value:
    """Return a text."""
    return Value(path, {"type": "string"}, default, meaning, check, kept)


def duration(path: str, default: str, meaning: str, *, kept: bool = False) -> Value:
    """Return a time such as 10s, as the programs take it."""
    return Value(path, {"type": "string"}, default, meaning, "duration", kept)


def address(path: str, meaning: str) -> Value:
    """Return a host:port to dial, empty by default."""
    return Value(path, {"type": "string"}, "", meaning, "address")


def switch(path: str, default: bool, meaning: str, *, kept: bool = False) -> Value:
    """Return a yes or no."""
    return Value(path, {"type": "boolean"}, default, meaning, "", kept)


def whole(path: str, default: int, meaning: str, *, least: int = 0, most: int | None = None) -> Value:
    """Return a whole number within bounds."""
    bounds = {"minimum": least} | ({} if most is None else {"maximum": most})
    return Value(path, {"type": "integer", **bounds}, default, meaning)


def share(path: str, default: float, meaning: str) -> Value:
    """Return a number from 0 to 1."""
    return Value(path, {"type": "number", "minimum": 0, "maximum": 1}, default, meaning)


def port(path: str, default: int, meaning: str) -> Value:
    """Return a port."""
    return whole(path, default, meaning, least=1, most=65535)


def choice(path: str, default: Any, meaning: str, allowed: Sequence[Any]) -> Value:
    """Return one of several words or numbers."""
    return Value(path, {"enum": list(allowed)}, default, meaning)


def texts(path: str, meaning: str) -> Value:
    """Return a list of texts, empty by default."""
    return Value(path, {"type": "array", "items": {"type": "string"}}, [], meaning)


def words(path: str, default: dict[str, str], meaning: str) -> Value:
    """Return a map of text to text, such as labels."""
    return Value(path, {"type": "object", "additionalProperties": {"type": "string"}}, default, meaning)


def objects(path: str, meaning: str, default: Sequence[Schema] = ()) -> Value:
    """Return a list of Kubernetes structures, which the API server judges."""
    return Value(path, {"type": "array", "items": {"type": "object"}}, list(default), meaning)


def structure(path: str, default: Schema, meaning: str) -> Value:
    """Return one Kubernetes structure, which the API server judges."""
    return Value(path, {"type": "object"}, default, meaning)


def values_schema(rows: Sequence[Value], more: Schema) -> str:
    """Return values.schema.json: every key typed and described, none besides."""
    root: Schema = {"$schema": _DRAFT, "type": "object", "additionalProperties": False, "properties": {}}
    for row in rows:
        at = root
        *folders, leaf = row.path.split(".")
        for folder in folders:
            fresh = {"type": "object", "additionalProperties": False, "properties": {}}
            at = at["properties"].setdefault(folder, fresh)
        at["properties"][leaf] = {"description": _sentence(row), **row.schema, "default": row.default}
    root["properties"] |= {"global": {"type": "object", "description": "Shared by Helm; unused."}, **more}
    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"


def values_yaml(rows: Sequence[Value], head: str) -> str:
    """Return values.yaml: every default with its meaning above it."""
    tree: Schema = {}
    for row in rows:
        at = tree
        *folders, leaf = row.path.split(".")
        for folder in folders:
            at = at.setdefault(folder, {})
        at[leaf] = row
    return head + "".join(_lines(tree, 0))


def table(rows: Sequence[Value]) -> str:
    """Return the table of a chart's README."""
    head = "| value | default | meaning |\n|---|---|---|\n"
    return head + "".join(
        f"| `{row.path}` | {_cell(row.default)} | {_sentence(row).replace('|', chr(92) + '|')} |\n"
        for row in rows
    )


def checks(rows: Sequence[Value], name: str, head: str) -> str:
    """Return the template that refuses values a schema can only refuse with a regular expression."""
    lines = [f"{{{{- define {json.dumps(name)} -}}}}"]
    for row in rows:
        if row.check:
            given = f'(dict "name" "{row.path}" "value" .Values.{row.path})'
            lines.append(f'{{{{- include "bigfleet.check.{row.check}" {given} }}}}')
    return head + "\n".join([*lines, "{{- end }}\n"])


def _sentence(row: Value) -> str:
    allowed = [f"one of {', '.join(map(_word, row.schema['enum']))}"] if "enum" in row.schema else []
    low, high = row.schema.get("minimum"), row.schema.get("maximum")
    if high is not None:
        allowed.append(f"from {low} to {high}")
    elif low:
        allowed.append(f"at least {low}")
    kept = " Kept for files of the original; nothing reads it." if row.kept else ""
    return f"{row.meaning}{''.join(f' ({note})' for note in allowed)}.{kept}"


def _word(choice: Any) -> str:
    return choice if isinstance(choice, str) else json.dumps(choice)


def _cell(default: Any) -> str:
    if default in ("", [], {}):
        return "empty"
    written = json.dumps(default, ensure_ascii=False)
    return f"`{written}`" if len(written) <= _LONG else "see values.yaml"


def _lines(tree: Schema, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for key, inner in tree.items():
        if isinstance(inner, Value):
            yield from (f"{pad}# {line}\n" for line in _wrapped(_sentence(inner), 112 - len(pad)))
            yield f"{pad}{key}:{_written(inner.default, depth + 1)}\n"
        else:
            yield f"{pad}{key}:\n"
            yield from _lines(inner, depth + 1)
        if depth == 0:
            yield "\n"


def _written(default: Any, depth: int) -> str:
    if isinstance(default, dict | list) and default:
        block = yaml.safe_dump(default, sort_keys=False, width=110)
        return "\n" + "\n".join("  " * depth + line for line in block.splitlines())
    return " " + json.dumps(default, ensure_ascii=False)


def _wrapped(sentence: str, width: int) -> list[str]:
    return re.findall(rf"\S.{{0,{width}}}(?=\s|$)", sentence)
