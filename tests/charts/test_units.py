"""The systemd units and their files: flags that exist, values that are read, programs that the recipe installs."""

import configparser
import re
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
import yaml

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.transport.descriptors import WANTED

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"


@pytest.mark.parametrize(
    ("command", "file"), [("coordinator", "coordinator.yaml"), ("shard", "shard-0.yaml")]
)
def test_every_key_of_a_file_is_a_flag_and_every_value_is_read(command: str, file: str) -> None:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    assert dispatch(console, [command, "--config", str(FOLDER / file), "--print-config"]) == 0, err.getvalue()
    for key, value in yaml.safe_load((FOLDER / file).read_text(encoding="utf-8")).items():
        assert key in out.getvalue()
        assert str(value).split("@", maxsplit=1)[0] in out.getvalue() or isinstance(value, bool)


@pytest.mark.parametrize("unit", sorted(FOLDER.glob("*.service")), ids=lambda path: path.name)
def test_a_unit_starts_a_program_of_ours_and_confines_it(unit: Path) -> None:
    read = configparser.RawConfigParser(strict=True)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    read.read(unit)
    service = read["Service"]
    program, *words = service["ExecStart"].split()
    assert program == "/opt/bigfleet/bin/bigfleet"
    assert any(row.words == (words[0],) for row in PROGRAM.commands())
    assert service["NoNewPrivileges"] == service["DynamicUser"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["Restart"] == "always"
    assert int(service["LimitNOFILE"]) == WANTED
    assert read["Unit"]["StartLimitIntervalSec"] == "0"
    assert "74" not in service["RestartPreventExitStatus"], "a write may fail for what passes"
    assert re.search(r"\b2\b", service["RestartPreventExitStatus"]), (
        "a flag that cannot work is not mended by trying again"
    )
