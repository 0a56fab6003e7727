"""The examples of the pages on decisions, explain and what-if run as written, in their order, and print what the page shows.

On such a page a ```json block is the file snapshot.json, a ```yaml block whose first line is a comment is the file of that
name, and a ```console block is a command and its output. With `--rewrite` the outputs are written anew.
"""

import re
import shlex
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.document.edits import KINDS, read_edits

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("decisions.md", "explain.md", "what-if.md")
BLOCK = re.compile(r"```(json|yaml|console)\n(.*?)```", re.DOTALL)


def run(line: str) -> str:
    program, *argv = shlex.split(line.removeprefix("$ "))
    assert program == PROGRAM.name
    out, err = StringIO(), StringIO()
    dispatch(Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC)), argv)
    return out.getvalue() + err.getvalue()


@pytest.mark.rule("packaging#pages-run")
@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_its_commands_print(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text(encoding="utf-8")
    commands = 0

    def answered(block: re.Match[str]) -> str:
        nonlocal commands
        kind, content = block.groups()
        first, _, _ = content.partition("\n")
        if kind == "json":
            (tmp_path / "snapshot.json").write_text(content, encoding="utf-8")
        elif kind == "yaml" and first.startswith("# "):
            (tmp_path / first.removeprefix("# ")).write_text(content, encoding="utf-8")
        elif kind == "console":
            commands += 1
            return f"```console\n{first}\n{run(first)}```"
        return block.group()

    actual = BLOCK.sub(answered, text)
    if pytestconfig.getoption("--rewrite"):
        (DOCS / name).write_text(actual, encoding="utf-8")
    assert commands > 0
    assert actual == text


def test_the_page_on_what_if_shows_every_edit_there_is() -> None:
    text = (DOCS / "what-if.md").read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"`{kind}`" in text
    shown = [content for language, content in BLOCK.findall(text) if language == "yaml"]
    assert all(read_edits(content) for content in shown)
    assert {kind for kind in KINDS if any(f"edit: {kind}\n" in content for content in shown)} == set(KINDS)
