"""Every script of the oracle, answered by every engine; the file's name begins with the row's id.

With `--rewrite` the scripts take the answers of the reference model: commit a difference only if you can explain each
line of it by the rules.
"""

from pathlib import Path
from unittest.mock import patch

import pytest

from bigfleet.engine.cycle import decide_situation
from tests.reference.model import decide
from tests.support.engine.world import Engine, EngineWorld
from tests.support.golden import replay

SCRIPTS = sorted((Path(__file__).parent / "engine").glob("*.txt"))
SPREADS = [path for path in SCRIPTS if path.stem.startswith(("d-", "edge-04", "spread"))]
ENGINES: dict[str, Engine] = {"reference": decide, "production": decide_situation}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_engine_answers_the_script(path: Path, engine: Engine, pytestconfig: pytest.Config) -> None:
    expected = path.read_text(encoding="utf-8")
    actual = replay(expected, EngineWorld(engine).command)
    if pytestconfig.getoption("--rewrite") and engine is decide:
        path.write_text(actual, encoding="utf-8")
    assert actual == expected


@pytest.mark.rule("engine#spread-picker")
@pytest.mark.parametrize("path", SPREADS, ids=lambda path: path.stem)
def test_spread_over_many_values_gives_the_answers_of_spread_over_few(path: Path) -> None:
    expected = path.read_text(encoding="utf-8")
    with patch("bigfleet.engine.phase1.acquire.FEW_VALUES", 0):
        assert replay(expected, EngineWorld(decide_situation).command) == expected
