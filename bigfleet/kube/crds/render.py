"""Renders the files made from the definitions: the chart `bigfleet-crds` and the field tables in the docs.

Must never: put a definition where `helm uninstall` would delete it, and with it every object of its kind.
Rules: `packaging#chart-values`, `packaging#crds`; ADR-0084, ADR-0010.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

import yaml

from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.crds.schema import Schema
from bigfleet.model.errors import InvalidFieldError
from bigfleet.version import __version__

CHART: Final = "charts/bigfleet-crds"
PAGE: Final = "docs/crds.md"
KUBE_VERSION: Final = ">= 1.31.0-0"
KEEP: Final = {"helm.sh/resource-policy": "keep"}
_HEAD: Final = "# Made by `make crds` from bigfleet/kube/crds; do not edit.\n"
_BEGIN: Final = "<!-- fields of {kind}: made by `make crds`, do not edit -->"
_END: Final = "<!-- end of the fields of {kind} -->"
_LABELS: Final = {
    "app.kubernetes.io/name": "{{ .Chart.Name }}",
    "app.kubernetes.io/instance": "{{ .Release.Name }}",
    "app.kubernetes.io/managed-by": "{{ .Release.Service }}",
    "app.kubernetes.io/version": "{{ .Chart.AppVersion }}",
    "helm.sh/chart": "{{ .Chart.Name }}-{{ .Chart.Version }}",
}
_PYTHON_VERSION: Final = re.compile(r"(\d+\.\d+\.\d+)(?:\.dev(\d+))?")
_README: Final = """# bigfleet-crds

The custom resource definitions of BigFleet: {kinds}. Needs Kubernetes 1.31 or newer.

The chart `bigfleet-operator` brings it along (`crds.install`, default true). It stands alone for clusters in which
something other than our pod controller writes CapacityRequests.

`helm upgrade` updates the definitions. `helm uninstall` leaves them, since deleting a definition deletes every object
of its kind. Definitions that were applied by hand are taken over with `helm upgrade --install --take-ownership`
(Helm 3.17 or newer). To remove BigFleet for good, with all its objects:

    kubectl delete crd {names}

The chart has no values of its own. Its templates are made by `make crds`.
"""


def chart_version(version: str = __version__) -> str:
    """Return the package version in the form of charts: 0.1.0.dev0 is 0.1.0-dev.0."""
    match = _PYTHON_VERSION.fullmatch(version)
    if match is None:
        raise InvalidFieldError("version", version, "1.2.3 or 1.2.3.dev4")
    return match[1] if match[2] is None else f"{match[1]}-dev.{match[2]}"


def chart_files() -> dict[str, str]:
    """Return every file of the chart by its path in the repository."""
    version = chart_version()
    chart = {
        "apiVersion": "v2",
        "name": "bigfleet-crds",
        "description": "Custom resource definitions of BigFleet",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": KUBE_VERSION,
    }
    files = {f"{CHART}/templates/{item.plural}.yaml": _HEAD + _template(item) for item in DEFINITIONS}
    kinds = ", ".join(item.kind for item in DEFINITIONS)
    names = " ".join(item.name for item in DEFINITIONS)
    return files | {
        f"{CHART}/Chart.yaml": _HEAD + _dump(chart),
        f"{CHART}/README.md": _README.format(kinds=kinds, names=names),
        f"{CHART}/values.yaml": _HEAD + "{}\n",
        f"{CHART}/values.schema.json": json.dumps(_values_schema(), indent=2) + "\n",
    }


def page_with_fields(page: str) -> str:
    """Return the docs page with fresh field tables and the rest unchanged."""
    for definition in DEFINITIONS:
        begin, end = _BEGIN.format(kind=definition.kind), _END.format(kind=definition.kind)
        before, found_begin, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not found_begin or not found_end:
            raise InvalidFieldError(PAGE, "no place for a table", f"a page with the lines {begin} and {end}")
        page = f"{before}{begin}\n{_tables(definition)}{end}{after}"
    return page


def _values_schema() -> Schema:
    # Helm passes `global` and `install` to a sub-chart on behalf of its parent.
    return {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "global": {"type": "object", "description": "Values that a parent chart shares; unused here."},
            "install": {"type": "boolean", "description": "The parent's condition; unused here."},
        },
    }


def _template(definition: Definition) -> str:
    manifest = definition.manifest()
    metadata = {**manifest["metadata"], "annotations": KEEP, "labels": _LABELS}
    return _dump({**manifest, "metadata": metadata})


def _dump(document: Schema) -> str:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, _data: object) -> bool:
            return True  # a schema used twice is written twice, without anchors

    return yaml.dump(document, Dumper=Plain, sort_keys=False, width=110, allow_unicode=True)


def _tables(definition: Definition) -> str:
    parts = [("spec", definition.spec), ("status", definition.status)]
    rows = [row for name, schema in parts for row in _rows(name, schema, required=name == "spec")]
    head = "| field | type | | meaning |\n|---|---|---|---|\n"
    return head + "".join(
        f"| `{path}` | {kind} | {'required' if must else ''} | {meaning} |\n"
        for path, kind, must, meaning in rows
    )


def _rows(path: str, schema: Schema, *, required: bool) -> Iterator[tuple[str, str, bool, str]]:
    notes = [schema.get("description", "").rstrip(".")]
    notes += [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    extra: Schema = schema.get("additionalProperties") or schema.get("items") or {}
    notes += [rule["message"] for rule in extra.get("x-kubernetes-validations", ())]
    yield path, _type_name(schema), required, "; ".join(note for note in notes if note)
    item = schema.get("items", schema)
    below = f"{path}[]" if "items" in schema else path
    for name, inner in item.get("properties", {}).items():
        yield from _rows(f"{below}.{name}", inner, required=name in item.get("required", ()))


def _type_name(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    match schema:
        case {"enum": words}:
            return "one of " + ", ".join(f"`{word}`" for word in words)
        case {"format": "date-time"}:
            return "time"
        case {"type": "array", "items": items}:
            most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
            return f"list of {_type_name(items)}{most}"
        case {"type": "object", "additionalProperties": values}:
            most = f", at most {schema['maxProperties']}" if "maxProperties" in schema else ""
            return f"map of text to {_type_name(values)}{most}"
        case {"type": "string"}:
            return "text" + (f", at most {schema['maxLength']} characters" if "maxLength" in schema else "")
        case {"type": "integer"}:
            return str(schema.get("format", "integer"))
    return "object"
