"""`bigfleet new-provider`: what it writes, and when it refuses to."""

import ast
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
import yaml

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.verbs.new_provider import ENDING, FILES, TEMPLATES, template_values
from tests.charts.rendering import helm_binary


def run(*argv: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    return dispatch(console, ["new-provider", *argv]), out.getvalue(), err.getvalue()


def project(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_project_has_a_backend_tests_a_container_file_and_a_chart(tmp_path: Path) -> None:
    code, out, err = run("acme-provider", "--directory", str(tmp_path / "acme"))
    assert (code, err) == (0, "")
    assert (
        out.splitlines()[0]
        == f"{tmp_path}/acme: {len(FILES)} files; the TODOs of acme_provider/backend.py make it yours"
    )
    assert sorted(project(tmp_path / "acme")) == [
        ".gitignore",
        "Containerfile",
        "README.md",
        "acme_provider/__init__.py",
        "acme_provider/__main__.py",
        "acme_provider/backend.py",
        "chart/Chart.yaml",
        "chart/templates/service.yaml",
        "chart/templates/statefulset.yaml",
        "chart/values.yaml",
        "pyproject.toml",
        "tests/test_backend.py",
        "tests/test_conformance.py",
    ]


def test_without_a_directory_the_name_is_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("acme")[0] == 0
    assert (tmp_path / "acme" / "acme_provider" / "backend.py").exists()


def test_no_mark_of_a_template_is_left_and_every_template_is_used(tmp_path: Path) -> None:
    run("big-blue-cloud", "--directory", str(tmp_path / "x"))
    for path, text in project(tmp_path / "x").items():
        assert not re.search(r"@@\w*@@", text), path
    templates = {
        path.relative_to(TEMPLATES).as_posix() for path in Path(TEMPLATES).rglob("*") if path.is_file()
    }
    assert templates == {f"{template}{ENDING}" for template in FILES}


def test_the_files_are_well_formed_and_agree_on_the_name(tmp_path: Path) -> None:
    run("big-blue-cloud", "--directory", str(tmp_path / "x"))
    files = project(tmp_path / "x")
    settings = tomllib.loads(files["pyproject.toml"])
    assert settings["project"]["name"] == "big-blue-cloud"
    assert settings["project"]["scripts"] == {"big-blue-cloud": "big_blue_cloud_provider.__main__:main"}
    assert yaml.safe_load(files["chart/Chart.yaml"])["name"] == "big-blue-cloud"
    assert yaml.safe_load(files["chart/values.yaml"])["image"]["repository"] == "big-blue-cloud"
    assert "class BigBlueCloudBackend:" in files["big_blue_cloud_provider/backend.py"]
    for path, text in files.items():
        if path.endswith(".py"):
            ast.parse(text)


def test_the_code_is_formatted_and_has_nothing_to_lint(tmp_path: Path) -> None:
    run("acme", "--directory", str(tmp_path / "x"))
    ruff = Path(sys.executable).with_name("ruff")
    common = ["--isolated", "--line-length", "110", "."]
    for command in (["format", "--check"], ["check", "--select", "F,I,B,UP"]):
        checked = subprocess.run(
            [ruff, *command, *common], cwd=tmp_path / "x", capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout


def test_the_chart_renders_where_helm_is_there(tmp_path: Path) -> None:
    helm = helm_binary()
    run("acme", "--directory", str(tmp_path / "x"))
    for more in ([], ["--set", "tls.secretName=t,storage.storageClassName=fast"]):
        rendered = subprocess.run(
            [helm, "template", "demo", str(tmp_path / "x" / "chart"), "--kube-version", "1.31.0", *more],
            capture_output=True,
            text=True,
            check=False,
        )
        assert rendered.returncode == 0, rendered.stderr
        kinds = {document["kind"] for document in yaml.safe_load_all(rendered.stdout)}
        assert kinds == {"Service", "StatefulSet"}


@pytest.mark.parametrize("name", ["Acme", "9lives", "a_b", "a--b", "-a", "a-", "", "a/b", "a b"])
def test_a_name_that_is_none_is_refused_with_2(name: str, tmp_path: Path) -> None:
    code, _, err = run("--directory", str(tmp_path / "x"), "--", name)
    assert code == 2
    assert "NAME: found" in err or "NAME: missing" in err
    assert not (tmp_path / "x").exists()


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    code, _, err = run("acme", "--directory", str(tmp_path))
    assert (code, err) == (5, f"bigfleet: {tmp_path}: exists and is not an empty directory\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    code, _, _ = run("acme", "--directory", str(tmp_path / "mine"))
    assert code == 5


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert run("acme", "--directory", str(tmp_path))[0] == 0


@pytest.mark.parametrize(
    ("name", "package", "class_name"),
    [
        ("acme", "acme_provider", "Acme"),
        ("acme-provider", "acme_provider", "Acme"),
        ("a-b2", "a_b2_provider", "AB2"),
    ],
)
def test_the_package_ends_in_provider_so_that_it_hides_nobody_elses(
    name: str, package: str, class_name: str
) -> None:
    assert (template_values(name)["package"], template_values(name)["class"]) == (package, class_name)
