"""The compose file names flags, files, services and volumes that exist, and comes up as processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import validator_for

from bigfleet.app.bigfleet import PROGRAM as BIGFLEET
from bigfleet.app.fake_provider import PROGRAM as FAKE_PROVIDER
from bigfleet.cli.framework.surface import entries
from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.tools import find_compose_schema

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "compose"
FILE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
OURS = {
    name: each
    for name, each in FILE["services"].items()
    if "bigfleet" in each["image"] and "profiles" not in each
}
CERTS: dict[str, Any] = FILE["services"]["certs"]
DEADLINE_S = 120.0


def flags_of(service: dict[str, Any]) -> tuple[set[str], list[str]]:
    """Return the flags that the program of a service has, and the words given to it."""
    words = service["command"]
    if "entrypoint" in service:
        (entry,) = entries(FAKE_PROVIDER)
        return {option.flag for option in entry.options}, words
    (entry,) = (entry for entry in entries(BIGFLEET) if entry.row.words == (words[0],))
    return {option.flag for option in entry.options}, words[1:]


@pytest.mark.rule("packaging#compose", "packaging#kind")
@pytest.mark.parametrize("name", OURS)
def test_every_flag_of_a_service_exists_and_leads_somewhere(name: str) -> None:
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
            assert f"{name}:/var/lib/bigfleet" in service["volumes"]
    for each in service.get("volumes", ()):
        assert each.partition(":")[0] in FILE["volumes"]


@pytest.mark.rule("packaging#compose", "packaging#kind")
def test_files_exist_and_only_loopback_is_published() -> None:
    for about in FILE["configs"].values():
        assert "content" in about or (FOLDER / about["file"]).exists()
    for service in FILE["services"].values():
        assert all(published.startswith("127.0.0.1:") for published in service.get("ports", ()))
        assert service["restart"] == ("no" if service is CERTS else "unless-stopped")
    published = {name for name, service in FILE["services"].items() if service.get("ports")}
    assert published == {"dashboard", "prometheus", "grafana"}


@pytest.mark.rule("packaging#compose", "packaging#kind")
def test_the_topology_is_the_one_that_is_told() -> None:
    counts = Counter(re.sub(r"-.*", "", name) for name in OURS)
    assert counts == {"coordinator": 3, "shard": 2, "provider": 2, "cluster": 3, "dashboard": 1}
    for name, service in OURS.items():
        # A played cluster listens nowhere, so there is nothing to ask.
        asked = "--ready=http://127.0.0.1:" in str(service.get("healthcheck", ""))
        assert asked is not name.startswith("cluster-"), name
    for kind, capacity in (("cloud", {"on-demand", "spot"}), ("metal", {"bare-metal"})):
        pools = yaml.safe_load((FOLDER / f"pools-{kind}.yaml").read_text(encoding="utf-8"))["pools"]
        assert {
            re.sub(r"(?<=[a-z])(?=[A-Z])", "-", pool["capacity_type"]).lower() for pool in pools
        } == capacity
    rules = [each["source"] for each in FILE["services"]["prometheus"]["configs"]]
    assert FILE["configs"][rules[1]]["file"] == "../prometheus/rules.yaml"
    assert FILE["services"]["grafana"]["volumes"] == ["../grafana:/var/lib/grafana/dashboards:ro"]


@pytest.mark.rule("packaging#compose", "packaging#kind")
@pytest.mark.parametrize("name", OURS)
def test_with_the_profile_every_service_has_a_certificate_of_its_own(name: str) -> None:
    service = OURS[name]
    holder = name.removeprefix("cluster-")
    given = [word for word in service["command"] if word.startswith("--tls-")]
    assert given == [
        f"--tls-cert=${{TLS:+/pki/{holder}/tls.crt}}",
        f"--tls-key=${{TLS:+/pki/{holder}/tls.key}}",
        f"--tls-ca=${{TLS:+/pki/{holder}/ca.crt}}",
    ]
    roles = dict(reversed(word.split("/")) for word in CERTS["command"][1:])
    kinds = {"coordinator": "admin", "cluster": "cluster", "dashboard": "readonly"}
    assert roles[holder] == kinds.get(name.partition("-")[0], "shard")
    assert "pki:/pki:ro" in service["volumes"]
    assert service["depends_on"] == {
        "certs": {"condition": "service_completed_successfully", "required": False}
    }


def linted(document: dict[str, Any]) -> list[str]:
    """Return what the schema of compose files has against a file."""
    try:
        file = find_compose_schema(FOLDER.parents[1] / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        if os.environ.get("TESTBED_REQUIRED", "0") != "0":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    schema = json.loads(file.read_bytes())
    return [error.message for error in validator_for(schema).iter_errors(document)]


@pytest.mark.rule("packaging#compose", "packaging#kind")
def test_the_file_is_one_that_the_schema_of_compose_allows() -> None:
    assert linted(FILE) == []
    wrong = json.loads(json.dumps(FILE))
    wrong["services"]["dashboard"]["helthcheck"] = {}
    wrong["services"]["dashboard"]["restart"] = 1
    assert len(linted(wrong)) >= 2


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

    def __init__(self, data: Path, *flags: str) -> None:
        self.log = data / "told"
        command = (sys.executable, str(FOLDER / "fleet.py"), "--data", str(data), *flags)
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


@pytest.mark.rule("packaging#compose", "packaging#certs")
@pytest.mark.long
@pytest.mark.integration
def test_the_fleet_comes_up_and_survives(tmp_path: Path) -> None:
    for name, flags in (
        ("plain", ()),
        ("tls", ("--tls",)),
    ):  # one after the other: the addresses are the same
        (tmp_path / name).mkdir()
        comes_up_and_survives(tmp_path / name, *flags)


def comes_up_and_survives(data: Path, *flags: str) -> None:
    running = Running(data, *flags)
    try:
        running.wait("all ready", lambda: "ready        11 programs" in running.told())
        for number, victim in enumerate(("coordinator-0", "shard-0", "provider-cloud"), 1):
            os.kill(running.child(victim), signal.SIGKILL)
            running.wait(f"{victim} starts again", partial(running.has_told, f"{victim} ended with -9"))
            running.wait(f"healthy after {victim}", partial(running.has_told, "ready again", number))
        if flags:
            assert_only_the_right_role_is_served(running, data / "pki")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
        assert running.told().endswith("stopped\n")
    finally:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(60)


def assert_only_the_right_role_is_served(running: Running, pki: Path) -> None:
    """What `bigfleet certs` made is taken in its role and refused in another, and nobody gets in without (`packaging#certs`)."""
    (line,) = re.findall(r"^coordinator +(bigfleetctl .*) status$", running.told(), re.MULTILINE)
    program, *words = line.split()
    listing = [str(Path(sys.executable).with_name(program)), *words, "list-shards"]
    admin = str(pki / "coordinator-0")

    def code(command: list[str]) -> int:
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode

    assert code(listing) == 0
    assert code([word.replace(admin, str(pki / "dashboard")) for word in listing]) == 0
    assert code([word.replace(admin, str(pki / "web")) for word in listing]) == 6
    assert code(listing[:3] + listing[-1:] + ["--timeout", "3s"]) != 0
