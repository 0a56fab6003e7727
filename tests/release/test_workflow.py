"""The release workflow calls what exists, from a full clone, with no more rights than it needs."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = WORKFLOW["jobs"]["release"]["steps"]
    return found


def test_it_runs_on_tags_of_versions_only() -> None:
    assert WORKFLOW[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}  # YAML reads `on` as true


def test_every_target_and_script_that_it_calls_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = "\n".join(step.get("run", "") for step in steps())
    called = re.findall(r"\bmake ([a-z-]+)", text)
    assert "release" in called
    assert set(called) <= targets
    assert all((ROOT / script).is_file() for script in re.findall(r"(\.ci/\w+)", text))


def test_it_has_the_whole_history_and_keeps_no_credentials() -> None:
    (checkout,) = (step for step in steps() if step.get("uses", "").startswith("actions/checkout@"))
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["jobs"]["release"]["permissions"] == {"contents": "write"}
