"""The examples of the developer page run as written."""

import re
import sys
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.tree import CliProgram, CommandRow
from bigfleet.obs.metric import Component
from bigfleet.obs.metrics import Metrics

HOUSE = Path(__file__).resolve().parents[2] / "docs" / "dev" / "house.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", HOUSE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_command_that_the_page_shows_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (block for block in blocks() if "Command(" in block)
    module = ModuleType("house_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block, str(HOUSE), "exec"), vars(module))  # noqa: S102  the page is ours
    program = CliProgram("bigfleet", "", (CommandRow("greet", "greet somebody", "house_example:GREET"),))
    out = StringIO()
    console = Console(program, out, StringIO(), {"BIGFLEET_GREET_WHO": "world"}, lambda: datetime.now(UTC))
    assert dispatch(console, ["greet", "-o", "yaml"]) == 0
    assert out.getvalue() == "greeting: hello, world\n"


def test_the_metric_that_the_page_counts_exists() -> None:
    (block,) = (block for block in blocks() if "metrics.counter" in block)
    registry = CollectorRegistry()
    metrics = Metrics(Component.SHARD, registry, version="1", commit="c")
    exec(compile(block, str(HOUSE), "exec"), {"metrics": metrics})  # noqa: S102  the page is ours
    assert registry.get_sample_value("bigfleet_shard_actions_total", {"kind": "Bootstrap"}) == 1
