"""The compose file names flags, files, services and volumes that exist, and comes up as processes."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.app.bigfleet import PROGRAM as BIGFLEET
from bigfleet.app.fake_provider import PROGRAM as FAKE_PROVIDER
from bigfleet.cli.surface import entries

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "compose"
FILE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
OURS = {name: each for name, each in FILE["services"].items() if "bigfleet" in each["image"]}
DEADLINE_S = 120.0


def flags_of(service: dict[str, Any]) -> tuple[set[str], list[str]]:
    """Return the flags that the program of a service has, and the words given to it."""
    words = service["command"]
    if "entrypoint" in service:
        (entry,) = entries(FAKE_PROVIDER)
        return {option.flag for option in entry.options}, words
    (entry,) = (entry for entry in entries(BIGFLEET) if entry.row.words == (words[0],))
    return {option.flag for option in entry.options}, words[1:]


@pytest.mark.parametrize("name", OURS)
def test_every_flag_of_a_service_exists_and_leads_somewhere_39(name: str) -> None:
    service = OURS[name]
    known, words = flags_of(service)
    assert {word.removeprefix("--").partition("=")[0] for word in words} <= known
    mounted = {each["target"] for each in service.get("configs", ())}
    for word in words:
        for host, _ in re.findall(r"(?<![\w.-])([a-z]+-[a-z0-9]+):(\d+)", word):
            assert host in OURS, word
        if "/etc/bigfleet/" in word:
            assert word.partition("=")[2] in mounted
        if "/var/lib/bigfleet" in word:
            assert service["volumes"] == [f"{name}:/var/lib/bigfleet"]
    for each in service.get("volumes", ()):
        assert each.partition(":")[0] in FILE["volumes"]


def test_files_exist_and_only_loopback_is_published_39() -> None:
    for about in FILE["configs"].values():
        assert "content" in about or (FOLDER / about["file"]).exists()
    for service in FILE["services"].values():
        assert all(published.startswith("127.0.0.1:") for published in service.get("ports", ()))
        assert service["restart"] == "unless-stopped"
    assert sum("coordinator" in name for name in OURS) == 3


def test_prometheus_scrapes_every_coordinator_and_shard() -> None:
    scraped = yaml.safe_load((FOLDER / "prometheus.yaml").read_text(encoding="utf-8"))["scrape_configs"]
    targets = {
        target.partition(":")[0]
        for job in scraped
        for each in job["static_configs"]
        for target in each["targets"]
    }
    assert targets == {name for name in OURS if name.startswith(("coordinator", "shard"))}


class Running:
    """The fleet as `make fleet` starts it."""

    def __init__(self, data: Path) -> None:
        self.log = data / "told"
        command = (sys.executable, str(FOLDER / "fleet.py"), "--data", str(data))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def told(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def has_told(self, words: str, times: int = 1) -> bool:
        return self.told().count(words) >= times

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.process.poll() is None, self.told()
            assert time.monotonic() < end, f"{what}\n{self.told()}"
            time.sleep(0.1)

    def child(self, name: str) -> int:
        """Return the process id of a service, by its own arguments."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().decode().split("\0")
                    parent = re.search(r"PPid:\t(\d+)", (entry / "status").read_text())
                except OSError:
                    continue
                if (
                    parent
                    and int(parent[1]) == self.process.pid
                    and any(f"/{name}" in word or word == f"--id={name}" for word in words)
                ):
                    return int(entry.name)
        raise AssertionError(f"no process of {name}")


@pytest.mark.long
@pytest.mark.integration
def test_the_fleet_comes_up_and_survives_38(tmp_path: Path) -> None:
    running = Running(tmp_path)
    try:
        running.wait("all ready", lambda: "ready        11 programs" in running.told())
        for number, victim in enumerate(("coordinator-0", "shard-0", "provider-cloud"), 1):
            os.kill(running.child(victim), signal.SIGKILL)
            running.wait(f"{victim} starts again", partial(running.has_told, f"{victim} ended with -9"))
            running.wait(f"healthy after {victim}", partial(running.has_told, "ready again", number))
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
        assert running.told().endswith("stopped\n")
    finally:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(60)
