"""The first commands of every alert's page are given to a running fleet, and answer.

Each page names three. What asks Kubernetes or Helm needs a cluster; every other one is played here, with the words in
capitals replaced by what the fleet has. `packaging#docs-names` and `packaging#runbooks`.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from threading import Timer

import pytest

from bigfleet.app import bigfleet, bigfleetctl
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.exit_codes import ExitCode
from tests.docs.shell_blocks import DOCS
from tests.support.coordinator.processes import settled_port

pytestmark = pytest.mark.integration

PROGRAMS = {"bigfleet": bigfleet.PROGRAM, "bigfleetctl": bigfleetctl.PROGRAM}
LOOK = re.compile(r"^\| `((?:bigfleet|bigfleetctl) [^`]+)`", re.MULTILINE)
PAGES = sorted((DOCS / "runbooks").glob("[A-Z]*.md"))
COMMANDS = sorted({command for page in PAGES for command in LOOK.findall(page.read_text("utf-8"))})
ELSEWHERE = {
    "bigfleet provider-admin repair MACHINE --to idle": "needs a Failed machine behind an admin socket: tests/integration/provider",
}
PATIENCE_S = 120
EDITS = "edits:\n  - {edit: add_machines, like: dev-cpu-0, count: 2}\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A whole fleet in one process; returns the values of the words in capitals."""
    folder = tmp_path_factory.mktemp("fleet")
    shard, coordinator = settled_port(), settled_port()
    addresses = {
        "SHARD_LISTEN": f"127.0.0.1:{shard}",
        "COORDINATOR_LISTEN": f"127.0.0.1:{coordinator}",
        "RAFT_BIND": f"127.0.0.1:{settled_port()}",
        **dict.fromkeys(("SHARD_METRICS_ADDR", "COORDINATOR_METRICS_ADDR", "DASHBOARD_ADDR"), "0"),
    }
    environ = {f"BIGFLEET_ALL_IN_ONE_{name}": value for name, value in addresses.items()}
    process = subprocess.Popen(
        [Path(sys.executable).with_name("bigfleet"), "all-in-one", "--cycle-interval", "1s"],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environ},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    patience = Timer(PATIENCE_S, process.kill)  # then its output ends, and so does the wait
    patience.start()
    try:
        told = []
        for line in process.stdout:
            told.append(line)
            if "joined train" in line:
                break
        else:
            pytest.fail("".join(told))
        yield {
            "SHARD:7780": f"127.0.0.1:{shard}",
            "COORDINATOR:7790": f"127.0.0.1:{coordinator}",
            "POD:7790": f"127.0.0.1:{coordinator}",
            "PROVIDER:9000": "127.0.0.1:1",  # the kit's lists connect to no provider
            "SHARD": "shard-0",
            "CLUSTER": "web",
            "NEED": "train",
            "PATH": str(folder / "pki" / "shard-0"),
        }
    finally:
        patience.cancel()
        process.terminate()
        process.communicate()


def ask(command: str) -> str:
    """Give a command to its program, in this process, as its own would be most of the time."""
    name, *words = shlex.split(command)
    out, err = StringIO(), StringIO()
    console = Console(PROGRAMS[name], out, err, {}, lambda: datetime.now(UTC))
    allowed = (ExitCode.DONE, ExitCode.FAILURE) if words[0] == "status" else (ExitCode.DONE,)  # 1: trouble
    assert dispatch(console, words) in allowed, f"{command}: {err.getvalue()}"
    return out.getvalue()


def test_the_pages_have_commands_and_only_one_is_left_to_another_test() -> None:
    assert len(PAGES) == 56
    assert len(COMMANDS) > 20
    assert ELSEWHERE.keys() <= set(COMMANDS)


@pytest.mark.rule("packaging#runbooks")
def test_every_first_command_of_an_alerts_page_is_answered_by_a_running_fleet(
    fleet: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pki = Path(fleet["PATH"]).parent
    ask(f"bigfleet certs init {pki}")
    ask(f"bigfleet certs issue {pki} --role shard --name shard-0")
    (tmp_path / "more-machines.yaml").write_text(EDITS)
    (tmp_path / "snapshot.json").write_text(ask(f"bigfleet snapshot --shard {fleet['SHARD:7780']}"))
    shown = ask(f"bigfleet machines --shard {fleet['SHARD:7780']} --state Configured")
    words = {**fleet, "MACHINE": re.search(r"^(\S+) +Configured", shown, re.MULTILINE)[1]}  # type: ignore[index]  # there is one
    for command in COMMANDS:
        if command not in ELSEWHERE:
            typed = " ".join(words.get(word, word) for word in command.split())
            assert not re.search(r"\b[A-Z]{3,}\b", typed.replace("B106", "")), (
                f"{command}: a word nobody explains"
            )
            assert ask(typed).strip(), command
    assert (tmp_path / "now.tar").is_file()
