"""What `bigfleet explain` and `bigfleet what-if` print, as scripts: a fleet, demand, a question, and the answer.

    explain NEED, wide NEED     the command on what the script has built up so far; blank lines are left out
    machine? ID                 the same for a machine
    what-if [{edit: …}]         edits on one line

With `--rewrite` the scripts take the present answers: commit a difference only if you can explain each line of it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO, StringIO
from pathlib import Path

import pytest

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.document.snapshot import write_situation
from bigfleet.engine.cycle import decide_situation
from tests.support.engine.world import EngineWorld
from tests.support.golden import replay

SCRIPTS = sorted((Path(__file__).parent / "explain").glob("*.txt"))


class ExplainWorld:
    """The world of engine scripts, with questions."""

    def __init__(self, folder: Path) -> None:
        self._engine, self._folder = EngineWorld(decide_situation), folder

    def command(self, words: Sequence[str]) -> Sequence[str]:
        match words[0]:
            case "explain":
                return self._run("explain", "-", "--need", *words[1:])
            case "machine?":
                return self._run("explain", "-", "--machine", *words[1:])
            case "what-if":
                edits = self._folder / "edits.yaml"
                edits.write_text(f"edits: {' '.join(words[1:])}\n", encoding="utf-8")
                return self._run("what-if", "-", "--edit", str(edits))
            case _:
                return self._engine.command(words)

    def _run(self, *argv: str) -> list[str]:
        out, err = StringIO(), StringIO()
        stdin = BytesIO(write_situation(self._engine.situation()))
        console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC), stdin)
        dispatch(console, argv)
        text = out.getvalue() + err.getvalue().replace(str(self._folder), "")
        return [line for line in text.splitlines() if line]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_is_answered(path: Path, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    expected = path.read_text(encoding="utf-8")
    actual = replay(expected, ExplainWorld(tmp_path).command)
    if pytestconfig.getoption("--rewrite"):
        path.write_text(actual, encoding="utf-8")
    assert actual == expected
