"""The release workflow calls what exists, with no more rights than it needs, and publishes under nobody's name but the repository's.

It cannot be run here. What can be known without running it is: names, rights, pins, order.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.kube.crds.render import chart_version
from deploy.release.charts import chart_names

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
WORKFLOW: dict[Any, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
STEPS = [(job, step) for job, row in JOBS.items() for step in row["steps"]]
IDS = [f"{job}: {step.get('name', step.get('uses', '?'))[:50]}" for job, step in STEPS]
RIGHTS = {
    "files": {"contents": "read"},
    "image": {"contents": "read", "packages": "write", "id-token": "write", "attestations": "write"},
    "charts": {"contents": "read", "packages": "write", "id-token": "write"},
    "publish": {"contents": "write", "id-token": "write", "attestations": "write"},
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def runs(job: str) -> str:
    return "\n".join(step.get("run", "") for step in JOBS[job]["steps"])


def test_it_runs_on_tags_of_versions_only() -> None:
    assert WORKFLOW[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}  # YAML reads `on` as true


@pytest.mark.rule("packaging#release")
def test_no_job_has_a_right_that_is_not_listed_here() -> None:
    assert WORKFLOW["permissions"] == {}
    assert {job: row["permissions"] for job, row in JOBS.items()} == RIGHTS


def test_what_cannot_be_taken_back_comes_after_everything_that_can_fail() -> None:
    needs = {
        job: set([row.get("needs", [])] if isinstance(row.get("needs"), str) else row.get("needs", []))
        for job, row in JOBS.items()
    }
    assert needs == {
        "files": set(),
        "image": {"files"},
        "charts": {"files", "image"},
        "publish": {"files", "image", "charts"},
    }
    order = [
        TEXT.index(words)
        for words in (".ci/run", "make release TAG", "conformance-self", "pip-audit", "gh release create")
    ]
    assert order == sorted(order)


@pytest.mark.parametrize(("job", "step"), STEPS, ids=IDS)
def test_every_step_has_a_name_and_runs_what_exists(job: str, step: dict[str, Any]) -> None:
    assert step.get("name"), job
    script = step.get("run", "")
    assert "${{" not in script, (
        "values come through the environment, where nobody can smuggle shell into them"
    )
    assert set(re.findall(r"\bmake ([a-z-]+)", script)) <= TARGETS
    assert all(
        (ROOT / path).is_file() for path in re.findall(r"(?<![\w/])(\.ci/[\w-]+|deploy/[\w/.-]+)", script)
    )
    for verb in re.findall(r"python -m deploy.release (\w+)", script):
        assert f'add_parser("{verb}"' in (ROOT / "deploy" / "release" / "__main__.py").read_text("utf-8")


@pytest.mark.parametrize("line", re.findall(r"^\s*uses: (.+)$", TEXT, re.MULTILINE))
def test_every_action_is_pinned_by_its_commit_and_says_which_version_that_is(line: str) -> None:
    assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)


def test_one_action_has_one_version() -> None:
    pins = set(re.findall(r"uses: (\S+@\S+)", TEXT))
    assert len(pins) == len({pin.partition("@")[0] for pin in pins})


def test_checkouts_keep_no_credentials_and_the_upgrade_test_has_the_whole_history() -> None:
    checkouts = [
        (job, step["with"]) for job, step in STEPS if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert all(given["persist-credentials"] is False for _, given in checkouts)
    assert dict(checkouts)["files"]["fetch-depth"] == 0


def test_it_is_made_twice_and_compared() -> None:
    assert runs("files").count("make release TAG") == 2
    assert "diff " in runs("files")


def test_image_and_charts_bear_the_name_of_the_repository() -> None:
    assert runs("image").count("$REGISTRY/${GITHUB_REPOSITORY,,}") == 1
    assert 'place="$REGISTRY/${GITHUB_REPOSITORY,,}/charts"' in runs("charts")
    hosts = set(re.findall(r"[\w-]+(?:\.[\w-]+)*\.(?:io|com|org|dev)\b", re.sub(r"#.*", "", TEXT)))
    assert hosts == {"ghcr.io"}, "the default of a variable, and no other place"
    assert WORKFLOW["env"] == {"REGISTRY": "${{ vars.REGISTRY || 'ghcr.io' }}"}


def test_the_tag_that_is_pushed_is_the_default_of_the_charts() -> None:
    """Charts pull `v` and their own version; a release pushes the git tag, which is `v` and the version."""
    (push,) = (
        step["with"] for _, step in STEPS if step.get("uses", "").startswith("docker/build-push-action@")
    )
    assert push["tags"].endswith(":${{ github.ref_name }}")
    assert chart_version("1.2.3") == "1.2.3"  # on a release both forms of a version are one
    assert push["platforms"] == "linux/amd64,linux/arm64"
    dockerfile = (ROOT / push["file"]).read_text("utf-8")
    for argument in re.findall(r"^(\w+)=", push["build-args"], re.MULTILINE):
        assert re.search(rf"^ARG {argument}=", dockerfile, re.MULTILINE), argument


@pytest.mark.rule("packaging#release")
def test_the_digest_is_the_registrys_and_is_what_gets_signed_attested_and_written_down() -> None:
    assert runs("image").count("imagetools inspect") == 2
    assert 'test "$digest" = "$BUILT"' in runs("image")
    assert TEXT.count("steps.pushed.outputs.digest") == 3
    assert 'cosign sign --yes "$IMAGE@$DIGEST"' in runs("image")


def test_every_chart_of_the_repository_is_pushed() -> None:
    assert "for file in charts/*/Chart.yaml" in runs("charts")
    assert len(chart_names(ROOT / "charts")) == 4


def test_what_a_job_fetches_another_one_kept_before() -> None:
    kept = {step["with"]["name"]: job for job, step in STEPS if "upload-artifact" in step.get("uses", "")}
    fetched = {
        (step["with"]["name"], job) for job, step in STEPS if "download-artifact" in step.get("uses", "")
    }
    assert {name for name, _ in fetched} == set(kept)
    assert all(kept[name] in JOBS[job]["needs"] for name, job in fetched)
