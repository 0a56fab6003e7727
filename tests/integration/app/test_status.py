"""`bigfleet status` and `watch` against a real fleet (packaging 1.10)."""

import json
import re
import signal
from pathlib import Path

import pytest

from bigfleet.testing.program import RunningProgram
from tests.integration.app.test_all_in_one import all_in_one

pytestmark = pytest.mark.integration


def run(log: Path, *flags: str) -> tuple[int, str]:
    with RunningProgram("bigfleet", *flags, log=log, environ={}) as program:
        code = program.ended()
        return code, log.read_text()


def test_a_shard_is_looked_at_once_and_cycle_after_cycle(tmp_path: Path) -> None:
    with all_in_one(tmp_path / "fleet") as fleet:
        (address,) = fleet.wait("it tells", lambda: re.findall(r"(?m)^shard +(127.0.0.1:\d+)", fleet.text()))
        fleet.wait("machines join", lambda: "joined web" in fleet.text())
        code, text = run(tmp_path / "status", "status", "--shard", address)
        assert code == 0
        assert "ready" in text
        assert re.search(r"(?m)^web +connected", text)
        assert "Speculative" in text
        code, text = run(tmp_path / "watch", "watch", "--shard", address, "--cycles", "2", "-o", "json")
        assert code == 0
        numbers = [int(json.loads(line)["cycle"]["number"]) for line in text.splitlines()]
        assert numbers[1] > numbers[0] > 0
        assert fleet.end(signal.SIGINT) == 0
        code, text = run(tmp_path / "gone", "status", "--shard", address)
        assert (code, "cannot be reached" in text, text.count("\n")) == (7, True, 1)
