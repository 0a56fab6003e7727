"""What prose calls by the name of a chart's value or of an alert, and what of it does not exist.

A dotted name in code (`shard.dryRun`), a single name with a capital inside (`clusterID`), what stands behind `--set`, and every key
of a YAML block that begins with `# values of CHART`. Each must be a value, or be of another kind that is known: a name which
nothing here knows is reported, so that a value spelt wrongly in its first word is found too.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from bigfleet.kube.crds.definitions import DEFINITIONS
from tests.docs.shell_blocks import ROOT, pages

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_DOTTED = re.compile(r"(?<![\w./:@$<-])[a-z][\w-]*(?:\.[A-Za-z][\w-]*)+(?![\w/:(.-])")
_CAMEL = re.compile(r"(?<![\w./:$<-])[a-z]+[A-Z]\w*(?![\w./:(-])")
_SET = re.compile(r"--set(?:-string|-file|-json)?[ =]([A-Za-z][\w.]*)=")
_VALUES_OF = re.compile(r"# values of ([a-z-]+)\n")
_ALERT = re.compile(r"\bBigFleet([A-Z]\w+)")
_FILES = {"crt", "html", "json", "key", "lock", "md", "py", "sh", "sock", "tar", "tmpl", "toml", "xml", "yaml", "yml", "jsonl", "txt", "png"}  # fmt: skip
_PACKAGES = {"asyncio", "bigfleet", "charts", "docs", "deploy", "scaletest", "tests"}
OTHERS = {
    # Dotted names of other worlds, by where they come from.
    "Kubernetes and cert-manager": {"cert-manager.io"},
    "hook provider's template": {"labels.topology", "resources.cpu", "vars.bmc"},
    "Python in the guides": {
        "cluster.admin",
        "cluster.api_server",
        "kit.serve",
        "op.deadline",
        "op.grace",
        "op.id",
        "op.resumed",
    },
    "hosts": {"ghcr.io"},
    "bench document": {"memory.bytes_per_machine"},
    "fields of Kubernetes and Helm": {
        *(
            "blockOwnerDeletion",
            "gitVersion",
            "matchFields",
            "namespaceSelector",
            "podSelector",
        ),
        "spec.providerID",
    },
    "Python and Go in the design": {"gc.freeze", "os.urandom"},
    "reasons of actions": {
        *("phase1.idle", "phase1.speculative", "phase2.inversion", "phase3.excess", "phase3.release"),
    },
    "files and packages of the wire, and of the log": {
        *("fleet.v1alpha1", "grpc.health.v1.Health", "journal.meta", "shardread.proto"),
    },
    "keys of the dashboard": {"prometheusWired", "queriedAt", "totalNeeds"},
}
"""Every name that is no value; a row must go when nothing needs it."""


def pages_with_values() -> list[Path]:
    """Return the pages of the site, and those that lie beside charts and files to deploy."""
    beside = [path for folder in ("charts", "deploy") for path in (ROOT / folder).rglob("README.md")]
    prose = [page for page in pages() if page.name != "errors.md"]  # words of the code, read from it
    return [*prose, *sorted(beside)]


@cache
def values_of(chart: str) -> frozenset[str]:
    """Return the dotted path of every value of a chart, and of every group of them."""
    schema = json.loads((ROOT / "charts" / chart / "values.schema.json").read_text(encoding="utf-8"))
    return frozenset(_paths(schema, ""))


@cache
def all_values() -> frozenset[str]:
    """Return the values of all charts."""
    return frozenset().union(
        *(values_of(path.parent.name) for path in (ROOT / "charts").glob("*/Chart.yaml"))
    )


@cache
def alerts() -> frozenset[str]:
    """Return the alerts of the rules, without their common first word."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yaml").read_text(encoding="utf-8"))
    names = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    return frozenset(name.removeprefix("BigFleet") for name in names)


def strangers(text: str) -> list[str]:
    """Return every name of a page that should be a value or an alert and is not."""
    found = {f"alert BigFleet{name}" for name in _ALERT.findall(text) if name not in alerts()}
    for kind, block in _BLOCK.findall(text):
        found |= {f"--set {name}" for name in _SET.findall(block) if not _is_value(name)}
        if kind == "yaml" and (told := _VALUES_OF.match(block)):
            given = yaml.safe_load(block)
            found |= {f"values of {told[1]}: {path}" for path in _unknown(given, values_of(told[1]), "")}
    for code in _CODE.findall(_BLOCK.sub("", text)):
        found |= {name for name in _DOTTED.findall(code) if not _is_known(name)}
        found |= {name for name in _CAMEL.findall(code) if not _is_known_word(name)}
        found |= {f"--set {name}" for name in _SET.findall(code) if not _is_value(name)}
    return sorted(found)


def _paths(schema: dict[str, Any], at: str) -> Iterator[str]:
    # Any: JSON Schema as it stands.
    for name, inner in schema.get("properties", {}).items():
        path = f"{at}{name}"
        yield path
        yield from _paths(inner, f"{path}.")


def _unknown(given: Any, known: frozenset[str], at: str) -> Iterator[str]:
    """Yield the keys that no schema names; below a value of free form everything is allowed."""
    for key, inner in given.items():
        path = f"{at}{key}"
        if path not in known:
            yield path
        elif isinstance(inner, dict) and any(name.startswith(f"{path}.") for name in known):
            yield from _unknown(inner, known, f"{path}.")


def _is_value(name: str) -> bool:
    return name in all_values()


def _is_known(name: str) -> bool:
    if _is_value(name) or name in _others() or name in custom_fields():
        return True
    head, *_, tail = name.split(".")
    is_file = tail in _FILES and head not in {
        value.partition(".")[0] for value in all_values() if "." in value
    }
    return is_file or _is_label(name) or (head in _PACKAGES and find_spec(head) is not None)


def _is_label(name: str) -> bool:
    """Tell whether it is the first half of a label's key, or the group of our resources."""
    return name.partition(".")[2].startswith("kubernetes") or name.endswith("bigfleet.lucy.sh")


def _is_known_word(word: str) -> bool:
    ends = {part for value in all_values() for part in value.split(".")}
    fields = {part for field in custom_fields() for part in field.split(".")}
    return word in ends or word in fields or word in _others()


@cache
def _others() -> frozenset[str]:
    return frozenset().union(*OTHERS.values())


@cache
def custom_fields() -> frozenset[str]:
    """Return every field of our custom resources, as `spec.priority`."""
    return frozenset(
        path
        for definition in DEFINITIONS
        for version in definition.manifest()["spec"]["versions"]
        for path in _fields(version["schema"]["openAPIV3Schema"], "")
    )


def _fields(schema: dict[str, Any], at: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{at}{name}"
        yield from _fields(inner, f"{at}{name}.")
        yield from _fields(inner.get("items", {}), f"{at}{name}.")
