"""The image's container file does what the recipe does, and says nothing that was not read from a registry."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "image"
LINES = [
    line
    for line in re.sub(r"\\\n\s*", "", (FOLDER / "Dockerfile").read_text(encoding="utf-8")).splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.rule("packaging#image-recipe")
def test_the_only_step_is_the_recipe_that_ci_runs() -> None:
    steps = [line for line in LINES if line.startswith("RUN ")]
    assert len(steps) == 1
    assert '"deploy/image/recipe.py", "--target", "/opt/bigfleet"' in steps[0]
    assert "deploy/image/recipe.py --target" in (ROOT / ".ci" / "image").read_text(encoding="utf-8")
    assert ".ci/image" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_it_runs_as_nobody_in_particular_and_starts_bigfleet() -> None:
    assert LINES[-2:] == ["USER 65532:65532", 'ENTRYPOINT ["bigfleet"]']
    (environment,) = (line for line in LINES if line.startswith("ENV "))
    for setting in (
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
        "PYTHONHASHSEED=random",
        "PATH=/opt/bigfleet/bin:",
    ):
        assert setting in environment


def test_no_digest_is_written_that_nobody_read() -> None:
    for path in [*FOLDER.iterdir(), *(ROOT / "deploy" / "examples").rglob("*.yaml")]:
        assert not re.search(r"sha256:[0-9a-f]{64}", path.read_text(encoding="utf-8")), path


def test_the_context_lets_in_what_the_recipe_reads_and_nothing_else() -> None:
    allowed = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert allowed[0] == "*"
    let_in = {line.removeprefix("!") for line in allowed if line.startswith("!")}
    assert let_in >= {
        "bigfleet",
        "pyproject.toml",
        "requirements.lock",
        "requirements-build.lock",
        "LICENSE",
        "deploy/image/recipe.py",
    }
    assert all((ROOT / name).exists() for name in let_in)
