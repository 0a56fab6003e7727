"""The chart and the docs page are as the definitions say; `--check` names a difference, and writing repairs it."""

from pathlib import Path

import pytest
import yaml

from bigfleet.kube.crds import generate
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.crds.render import CHART, PAGE, chart_files, chart_version
from bigfleet.model.errors import InvalidFieldError

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("name", sorted(chart_files()))
def test_a_file_of_the_chart_has_not_drifted_from_the_definitions(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").splitlines() == chart_files()[name].splitlines()


@pytest.mark.rule("packaging#generated-pages")
def test_generated_files_are_current_and_no_other_file_is_in_the_chart() -> None:
    assert generate.drifted() == []


def test_every_definition_is_kept_when_the_release_goes() -> None:
    for definition in DEFINITIONS:
        # Helm's braces are inside quotes, so a template is also YAML.
        manifest = yaml.safe_load(chart_files()[f"{CHART}/templates/{definition.plural}.yaml"])
        assert manifest["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert set(manifest["metadata"]["labels"]) == {
            "app.kubernetes.io/name",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/managed-by",
            "app.kubernetes.io/version",
            "helm.sh/chart",
        }
        assert manifest["spec"] == definition.manifest()["spec"]


def test_a_schema_holds_nothing_that_helm_would_take_for_its_own() -> None:
    for definition in DEFINITIONS:
        assert "{{" not in yaml.safe_dump(definition.manifest())


def test_the_chart_refuses_clusters_that_are_too_old() -> None:
    chart = yaml.safe_load(chart_files()[f"{CHART}/Chart.yaml"])
    assert chart["kubeVersion"] == ">= 1.31.0-0"
    assert chart["version"] == chart["appVersion"] == chart_version()


def test_versions_in_the_form_of_charts() -> None:
    assert chart_version("0.1.0.dev0") == "0.1.0-dev.0"
    assert chart_version("1.2.3") == "1.2.3"
    with pytest.raises(InvalidFieldError, match=r"found '1\.2'"):
        chart_version("1.2")


def a_copy(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / PAGE).write_text((ROOT / PAGE).read_text(encoding="utf-8"), encoding="utf-8")
    generate.write(tmp_path)
    return tmp_path


def test_writing_makes_everything_and_then_nothing_more(tmp_path: Path) -> None:
    root = a_copy(tmp_path)
    assert generate.drifted(root) == []
    assert generate.write(root) == []


def test_what_was_edited_by_hand_is_named_and_mended(tmp_path: Path) -> None:
    root = a_copy(tmp_path)
    edited, stray = root / f"{CHART}/Chart.yaml", root / f"{CHART}/templates/old.yaml"
    edited.write_text("name: other\n", encoding="utf-8")
    stray.write_text("{}\n", encoding="utf-8")
    page = root / PAGE
    page.write_text(
        page.read_text(encoding="utf-8").replace("| `spec.priority` |", "| `spec.prio` |"), encoding="utf-8"
    )
    assert generate.drifted(root) == sorted([edited, stray, page])
    generate.write(root)
    assert generate.drifted(root) == []
    assert not stray.exists()


def test_a_page_without_its_marks_is_told(tmp_path: Path) -> None:
    root = a_copy(tmp_path)
    (root / PAGE).write_text("nothing\n", encoding="utf-8")
    with pytest.raises(InvalidFieldError, match="fields of CapacityRequest"):
        generate.drifted(root)


def test_the_command_checks_and_refuses_other_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0
    assert generate.main(["--chekc"]) == 2
    assert "allowed is nothing or --check" in capsys.readouterr().err
