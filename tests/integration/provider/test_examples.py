"""The examples are what the pages say they are: they run, and they keep the contract.

Rules: `providers#black-box`, `providers#backend`, `providers#hook`.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.provider.conformance.report import BehaviourStatus, ConformanceReport, RunVerdict
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import ConformanceProfile, Timings
from bigfleet.provider.conformance.system import CommandLauncher, system_settings
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import provider_pb2

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "provider_in_memory.py"
GO = ROOT / "docs" / "examples" / "go-provider"
DOCS = ROOT / "docs"
DEADLINE_S = 120.0
QUICK = Timings(
    poll_s=0.01,
    baseline_poll_s=0.02,
    window_s=0.05,
    error_window_s=0.05,
    fuzz_window_s=0.02,
    cursor_window_s=0.1,
    observe_s=0.05,
)


def certify(
    command: str, folder: Path, *, profiles: tuple[ConformanceProfile, ...], only: tuple[str, ...] = ()
) -> ConformanceReport:
    """Let the kit start a provider, test it and end it."""
    launcher = CommandLauncher(command, GrpcNet(), SystemClock(), folder)

    async def scenario() -> ConformanceReport:
        running = await launcher.start("state", 0)
        try:
            settings = system_settings(profiles=profiles, only=only, timings=QUICK)
            return await run(running.target, settings)
        finally:
            assert await running.terminate() == 0

    return asyncio.run(scenario())


def failures(report: ConformanceReport) -> list[str]:
    bad = (BehaviourStatus.FAILED, BehaviourStatus.NO_MACHINE)
    return [f"{result.behaviour.id}: {result.message}" for result in report.results if result.status in bad]


# The worked example of the author guide.


def test_the_worked_example_passes_the_baseline(tmp_path: Path) -> None:
    command = f"{sys.executable} {EXAMPLE} --port {{port}} --state {{state}}"
    report = certify(
        command, tmp_path, profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD), only=("A*",)
    )
    assert failures(report) == []
    assert sum(result.status is BehaviourStatus.PASSED for result in report.results) >= 25


def test_the_worked_example_has_fewer_than_120_lines_and_is_the_one_of_the_guide() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    assert f"```python\n{text}```" in (DOCS / "provider-author-guide.md").read_text(encoding="utf-8")


def test_the_test_that_the_guide_shows_passes() -> None:
    page = (DOCS / "provider-author-guide.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[-1]
    assert "run_virtual(scenario())" in shown
    world: dict[str, object] = {"__name__": "guide"}
    exec(compile(EXAMPLE.read_text(encoding="utf-8"), str(EXAMPLE), "exec"), world)  # noqa: S102  our own example
    exec(compile(shown, "provider-author-guide.md", "exec"), world)  # noqa: S102  our own page


# The provider in Go.


@pytest.fixture(scope="module")
def go_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go on the path to build the example with")
    binary = tmp_path_factory.mktemp("go") / "go-provider"
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
    }
    built = subprocess.run(
        [go, "build", "-trimpath", "-o", str(binary), "."],
        cwd=GO,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return binary


@pytest.mark.rule("providers#black-box")
def test_a_provider_in_go_made_from_the_contract_alone_passes_the_baseline(
    go_binary: Path, tmp_path: Path
) -> None:
    command = f"{go_binary} --addr 127.0.0.1:{{port}}"
    report = certify(
        command,
        tmp_path,
        profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD),
        only=("A*", "B3*", "B9*"),
    )
    assert failures(report) == []
    assert sum(result.status is BehaviourStatus.PASSED for result in report.results) >= 40


@pytest.mark.rule("providers#black-box")
@pytest.mark.long
def test_a_provider_in_go_made_from_the_contract_alone_is_certified(go_binary: Path, tmp_path: Path) -> None:
    command = f"{go_binary} --addr 127.0.0.1:{{port}}"
    report = certify(command, tmp_path, profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD))
    assert failures(report) == []
    assert report.verdict is RunVerdict.CERTIFIED, report.reasons


def test_the_provider_in_go_has_fewer_than_500_lines_by_hand() -> None:
    by_hand = list(GO.glob("*.go"))
    assert len(by_hand) == 2
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in by_hand) < 500


def test_the_generated_go_code_has_every_field_of_the_contract() -> None:
    messages = (GO / "pb" / "provider.pb.go").read_text(encoding="utf-8")
    calls = (GO / "pb" / "provider_grpc.pb.go").read_text(encoding="utf-8")
    for message in provider_pb2.DESCRIPTOR.message_types_by_name.values():
        assert f"type {message.name} struct {{" in messages
        for field in message.fields:
            tag = rf'protobuf:"\w+,{field.number},(opt|rep)(,packed)?,name={field.name}[,"]'
            assert re.search(tag, messages), f"{message.name}.{field.name}: run buf generate in {GO.name}"
    for number in provider_pb2.MachineState.values():
        assert f"MachineState_{provider_pb2.MachineState.Name(number)} " in messages
    for method in provider_pb2.DESCRIPTOR.services_by_name["CapacityProvider"].methods:
        assert f'"{method.name}"' in calls


# The commands of the pages.

BLOCK = re.compile(r"```(sh|console|yaml)\n(.*?)```", re.DOTALL)
PROGRAMS = ("bigfleet", "bigfleet-hook-provider")


@pytest.mark.rule("packaging#pages-run")
@pytest.mark.parametrize("name", ["hook-provider.md", "provider-author-guide.md"])
def test_the_commands_of_a_page_run_as_written_and_print_what_it_shows(name: str, tmp_path: Path) -> None:
    """A block that begins with a comment or an interpreter is a file; `sh` is run, `console` is run and compared."""
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(EXAMPLE, site)
    port = _free_port()
    script = ["set -eu"]
    expected: list[str] = []
    for kind, content in BLOCK.findall((DOCS / name).read_text(encoding="utf-8")):
        lines = content.splitlines()
        if kind == "yaml":
            (site / lines[0].removeprefix("# ")).write_text(content, encoding="utf-8")
        elif lines[0].startswith("#!"):
            (site / lines[1].removeprefix("# ").partition(":")[0]).write_text(content, encoding="utf-8")
        elif kind == "sh":
            script += ["{", *lines, "} >>transcript.txt 2>&1"]
        else:
            commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            shown = [line for line in lines if not line.startswith("$ ")]
            script += [f"{{ {'; '.join(commands)}; }} >answer-{len(expected)}.txt"]
            expected.append("\n".join(shown))
    whole = "\n".join(script)
    for fixed in ("127.0.0.1:9000", "--port 9000"):
        whole = whole.replace(fixed, fixed.replace("9000", str(port)))
    code = _run_in_bash(whole, site)
    reported = "\n".join(
        path.read_text() for path in (site / "transcript.txt", site / "provider.log") if path.exists()
    )
    assert code == 0, reported
    for number, answer in enumerate(expected):
        actual = (site / f"answer-{number}.txt").read_text(encoding="utf-8").replace(str(site), "/site")
        assert _plain(actual) == _plain(answer)


def _plain(text: str) -> list[list[str]]:
    # The columns of a table are as wide as the path of the directory, which is another on each machine.
    return [line.split() for line in text.strip().splitlines()]


def _run_in_bash(script: str, site: Path) -> int:
    tools = site.parent / "bin"
    tools.mkdir()
    shims = {"python": sys.executable, **{name: f"{sys.executable} {ROOT}/cmd/{name}" for name in PROGRAMS}}
    for name, command in shims.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "BIGFLEET_HOOK_PROVIDER_METRICS_ADDR": "0",
    }
    process = subprocess.Popen(
        ["bash", "-c", script], cwd=site, env=environment, start_new_session=True, stdin=subprocess.DEVNULL
    )
    try:
        return process.wait(DEADLINE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a failed page left running


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
