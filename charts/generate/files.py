"""Every generated file of the charts with its content, and the comparison with what is on the disk.

Must never: touch a file that it does not make, but for strays in folders that hold made files only.
Rules: `packaging#chart-values`, `packaging#crds`, `packaging#deploy`; ADR-0170.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from bigfleet.kube.crds.render import CHART as CRDS
from bigfleet.kube.crds.render import KUBE_VERSION, chart_files, chart_version
from bigfleet.kube.roles import OPERATOR, POD_CONTROLLER, RbacRole
from charts.generate import control_plane, operator, pod_controller
from charts.generate.boards import BOARDS, board_json
from charts.generate.rbac import rules_template
from charts.generate.value import Value, checks, table, values_schema, values_yaml

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).parent
_HEAD: Final = "Made by `make charts` from charts/generate; do not edit."
_YAML_HEAD: Final = f"# {_HEAD}\n"
_TEMPLATE_HEAD: Final = f"{{{{- /* {_HEAD} */ -}}}}\n"
_BEGIN: Final = "<!-- values: made by `make charts`, do not edit -->\n"
_END: Final = "<!-- end of the values -->\n"


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart that is partly made."""

    name: str
    description: str
    rows: tuple[Value, ...]
    role: RbacRole | None = None
    crds: bool = False


CHARTS: Final = (
    Chart("bigfleet", "BigFleet control plane: coordinator, shards, dashboard", control_plane.ROWS),
    Chart("bigfleet-operator", "BigFleet operator for one cluster", operator.ROWS, OPERATOR, crds=True),
    Chart(
        "bigfleet-unschedulable-pod-controller",
        "Keeps one CapacityRequest for every pod of a cluster",
        pod_controller.ROWS,
        POD_CONTROLLER,
    ),
)


def expected(root: Path = ROOT) -> dict[Path, str]:
    """Return what every generated file must hold."""
    made = {root / name: content for chart in CHARTS for name, content in _files_of(chart, root)}
    return made | {root / "deploy" / "grafana" / f"{board.name}.json": board_json(board) for board in BOARDS}


def drifted(root: Path = ROOT) -> list[Path]:
    """Return the files that differ from what they must hold, and strays among the vendored definitions."""
    wanted = expected(root)
    stale = {
        path
        for path, content in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    }
    made_whole = [root / "charts" / chart.name / folder for chart in CHARTS for folder in ("charts", "files")]
    made_whole.append(root / "deploy" / "grafana")
    strays = {path for folder in made_whole for path in folder.rglob("*") if path.is_file()} - wanted.keys()
    return sorted(stale | strays)


def write(root: Path = ROOT) -> list[Path]:
    """Write what differs, remove strays, and return both."""
    wanted, stale = expected(root), drifted(root)
    for path in stale:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return stale


def _files_of(chart: Chart, root: Path) -> Iterator[tuple[str, str]]:
    folder = f"charts/{chart.name}"
    more: dict[str, Any] = {
        "bigfleet-crds": {"type": "object", "description": "Values of the sub-chart; it has none."}
    }
    yield f"{folder}/Chart.yaml", _chart_yaml(chart)
    yield f"{folder}/values.yaml", values_yaml(chart.rows, _YAML_HEAD + "\n").rstrip("\n") + "\n"
    yield f"{folder}/values.schema.json", values_schema(chart.rows, more if chart.crds else {})
    yield f"{folder}/templates/_checks.tpl", checks(chart.rows, "bigfleet.values.checks", _TEMPLATE_HEAD)
    yield f"{folder}/templates/_shared.tpl", (HERE / "shared.tpl").read_text(encoding="utf-8")
    yield f"{folder}/README.md", _readme(root / folder / "README.md", chart)
    if chart.role is not None:
        yield f"{folder}/templates/_agent.tpl", (HERE / "agent.tpl").read_text(encoding="utf-8")
        yield f"{folder}/templates/_rules.tpl", rules_template(chart.role, _TEMPLATE_HEAD)
    if chart.crds:
        for name, content in chart_files().items():
            yield f"{folder}/charts/bigfleet-crds/{name.removeprefix(CRDS + '/')}", content
    # Helm can only read what lies inside a chart.
    yield f"{folder}/files/rules.yaml", (root / "deploy/prometheus/rules.yaml").read_text(encoding="utf-8")
    if chart.role is None:
        for board in BOARDS:
            yield f"{folder}/files/boards/{board.name}.json", board_json(board)


def _chart_yaml(chart: Chart) -> str:
    version = chart_version()
    about: dict[str, Any] = {
        "apiVersion": "v2",
        "name": chart.name,
        "description": chart.description,
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": KUBE_VERSION,
    }
    if chart.crds:
        dependency = {"name": "bigfleet-crds", "version": version, "condition": "crds.install"}
        about["dependencies"] = [{**dependency, "repository": "file://../bigfleet-crds"}]
    return _YAML_HEAD + yaml.safe_dump(about, sort_keys=False)


def _readme(path: Path, chart: Chart) -> str:
    written = path.read_text(encoding="utf-8")
    found = re.fullmatch(rf"(.*?{re.escape(_BEGIN)}).*?({re.escape(_END)}.*)", written, re.DOTALL)
    if found is None:
        raise ValueError(
            f"{path}: no place for the table, allowed is a page with the lines {json.dumps([_BEGIN, _END])}"
        )
    return found[1] + table(chart.rows) + found[2]
