"""What is made of the charts is what their sources say, and the sources say everything once."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.generate.files import CHARTS, ROOT, drifted, expected
from charts.generate.value import Value, text, values_schema

TEMPLATES = {chart.name: ROOT / "charts" / chart.name / "templates" for chart in CHARTS}


def templates(name: str) -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(TEMPLATES[name].rglob("*")) if path.is_file()
    )


@pytest.mark.rule("packaging#copies-equal")
def test_every_generated_file_is_what_its_source_says() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in drifted()] == []


def test_drift_and_strays_are_found(tmp_path: Path) -> None:
    for path, content in expected().items():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(content, encoding="utf-8")
    rules = ROOT / "deploy/prometheus/rules.yaml"
    (tmp_path / "deploy/prometheus").mkdir(parents=True)
    (tmp_path / "deploy/prometheus/rules.yaml").write_bytes(rules.read_bytes())
    assert drifted(tmp_path) == []
    values = tmp_path / "charts/bigfleet/values.yaml"
    values.write_text(values.read_text().replace("replicas: 3", "replicas: 5"))
    stray = tmp_path / "charts/bigfleet-operator/charts/bigfleet-crds/templates/old.yaml"
    stray.write_text("")
    copy = tmp_path / "charts/bigfleet/files/rules.yaml"
    copy.write_text(copy.read_text() + "# by hand\n")
    assert set(drifted(tmp_path)) == {values, stray, copy}


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_the_defaults_of_the_file_are_those_of_the_rows(chart: Any) -> None:
    written = yaml.safe_load((ROOT / "charts" / chart.name / "values.yaml").read_text(encoding="utf-8"))
    for row in chart.rows:
        found = written
        for key in row.path.split("."):
            found = found[key]
        assert found == row.default, row.path


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_no_two_rows_have_one_path_and_every_row_has_a_meaning(chart: Any) -> None:
    paths = [row.path for row in chart.rows]
    assert len(paths) == len(set(paths))
    for row in chart.rows:
        assert len(row.meaning) > 5, row.path
        assert not row.meaning.endswith("."), row.path


def test_a_schema_refuses_what_it_does_not_know_on_every_level() -> None:
    schema = json.loads(values_schema([text("a.b.c", "", "A text"), text("a.d", "", "A text")], {}))
    assert schema["additionalProperties"] is False
    assert schema["properties"]["a"]["additionalProperties"] is False
    assert schema["properties"]["a"]["properties"]["b"]["additionalProperties"] is False


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_value_is_read_by_a_template_but_those_kept_for_old_files(chart: Any) -> None:
    """The cheap half of what `test_values` shows by rendering (`packaging#chart-values`, `packaging#chart-flags`)."""
    words = set(re.findall(r"[A-Za-z]+", templates(chart.name)))
    kept: list[Value] = [row for row in chart.rows if row.kept]
    unread = [row.path for row in chart.rows if not row.kept and row.path.rpartition(".")[2] not in words]
    assert unread == []
    expected_kept = {"bigfleet": ["coordinator.rebalanceInterval"]}
    assert [row.path for row in kept] == expected_kept.get(chart.name, [])
