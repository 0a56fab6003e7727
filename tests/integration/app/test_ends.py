"""How every program ends: with 1 when any part of it ends by itself, with 0 when it is message to, with one line when it cannot start.

Rules: `packaging#exit-codes`, `packaging#component-ends`, `shard#part-ends`. The programs run in this process, so that
a part of each can be ended from outside.
"""

import asyncio
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from bigfleet.app import (
    bigfleet,
    fake_provider,
    fault_provider,
    hook_provider,
    operator,
    parts,
    unschedulable_pod_controller,
)
from bigfleet.app.all_in_one import serve as all_in_one_serve
from bigfleet.app.cluster_sim import serve as cluster_sim_serve
from bigfleet.app.shard import serve as shard_serve

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[3]
NOWHERE = "127.0.0.1:1"
FREE = "127.0.0.1:0"
KUBECONFIG = f"""\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "http://{NOWHERE}"}}}}]
users: [{{name: me, user: {{}}}}]
"""
INVENTORY = """\
name: laptop
hook_set: process
machines:
  - {id: p1, instance_type: proc, zone: here, capacity_type: on-demand, price_per_hour: 0.01,
     resources: {cpu: 4}, vars: {dir: /nowhere}}
"""

Main = Callable[[list[str]], int]
until_stop = parts.run_until_stop


def listening(*flags: str) -> list[str]:
    """Let the system choose the ports."""
    return [word for flag in flags for word in (flag, FREE)]


def chosen(*flags: str) -> list[str]:
    """Choose free ports here, where one part of a program dials what another one was message to listen on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in flags]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [
            f"{flag}=127.0.0.1:{each.getsockname()[1]}" for flag, each in zip(flags, sockets, strict=True)
        ]


def commands(folder: Path) -> dict[str, tuple[Main, list[str]]]:
    """Return every program that serves, with flags with which it starts."""
    config = folder / "kubeconfig"
    config.write_text(KUBECONFIG, encoding="utf-8")
    (folder / "inventory.yaml").write_text(INVENTORY, encoding="utf-8")
    kube = ["--kubeconfig", str(config), *listening("--metrics-addr")]
    return {
        "shard": (
            bigfleet.main,
            ["shard", "--data-dir", str(folder / "shard"), *listening("--listen", "--metrics-addr")],
        ),
        "coordinator": (
            bigfleet.main,
            [
                "coordinator",
                "--bootstrap",
                "--data-dir",
                str(folder / "coordinator"),
                *listening("--listen", "--raft-bind", "--metrics-addr"),
            ],
        ),
        "all-in-one": (
            bigfleet.main,
            [
                "all-in-one",
                *chosen(
                    "--shard-listen",
                    "--coordinator-listen",
                    "--raft-bind",
                    "--shard-metrics-addr",
                    "--coordinator-metrics-addr",
                    "--dashboard-addr",
                ),
            ],
        ),
        "dashboard": (bigfleet.main, ["dashboard", "--shard-addr", NOWHERE, *listening("--listen")]),
        "cluster-sim": (
            bigfleet.main,
            [
                "cluster-sim",
                "--cluster-id",
                "web",
                "--shard-addr",
                NOWHERE,
                "--demand",
                str(ROOT / "deploy/compose/web.yaml"),
            ],
        ),
        "fake provider": (fake_provider.main, listening("--addr", "--metrics-addr")),
        "fault provider": (fault_provider.main, listening("--addr", "--metrics-addr")),
        "hook provider": (
            hook_provider.main,
            [
                "--inventory",
                str(folder / "inventory.yaml"),
                "--state",
                str(folder / "hooks"),
                *listening("--addr", "--metrics-addr"),
            ],
        ),
        "operator": (operator.main, ["--cluster-id", "web", "--shard-addr", NOWHERE, *kube]),
        "pod controller": (unschedulable_pod_controller.main, kube),
    }


PROGRAMS = (
    "shard",
    "coordinator",
    "all-in-one",
    "dashboard",
    "cluster-sim",
    "fake provider",
    "fault provider",
    "hook provider",
    "operator",
    "pod controller",
)


class Meddler:
    """Stands in for `until_stop`, and ends one part of the process or asks it to stop as a supervisor does."""

    def __init__(self, ending: Callable[[], Any] | None) -> None:
        self.names: list[str] = []
        self.victim = 0
        self._ending = ending
        self._is_met = False

    def begin(self) -> None:
        """Meddle once more; what runs inside the all-in-one is left alone."""
        self._is_met = False

    async def __call__(self, given: Mapping[str, Any], proc: Any, log: Any, **more: Any) -> None:
        changed = dict(given)
        if not self._is_met:
            self._is_met = True
            self.names = sorted(given)
            if self._ending is None:
                asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            else:
                name = self.names[self.victim]
                changed[name].close()
                changed[name] = self._ending()
        await until_stop(changed, proc, log, **more)


def meddle(monkeypatch: pytest.MonkeyPatch, ending: Callable[[], Any] | None) -> Meddler:
    meddler = Meddler(ending)
    for module in (parts, shard_serve, cluster_sim_serve, all_in_one_serve):
        monkeypatch.setattr(module, "run_until_stop", meddler)
    return meddler


async def returns() -> None:
    """End as if the work were done."""


async def fails() -> None:
    """End by a defect."""
    raise RuntimeError("planted")


@pytest.mark.rule("packaging#component-ends")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("ending", [returns, fails])
def test_whichever_part_ends_the_process_ends_with_1(
    program: str,
    ending: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    meddler = meddle(monkeypatch, ending)
    while not meddler.names or meddler.victim < len(meddler.names):
        meddler.begin()
        main, argv = commands(tmp_path)[program]
        code = main(argv)
        said = capsys.readouterr().err
        name = meddler.names[meddler.victim]
        assert code == 1, f"{name}: {code}\n{said}"
        assert name in said
        meddler.victim += 1


@pytest.mark.rule("packaging#component-ends")
@pytest.mark.parametrize(
    "program", [name for name in PROGRAMS if name != "all-in-one"]
)  # Ctrl-C: test_all_in_one
def test_a_signal_ends_it_with_0(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    meddle(monkeypatch, None)
    main, argv = commands(tmp_path)[program]
    assert main(argv) == 0, capsys.readouterr().err


# What cannot start: one line and its code


@pytest.fixture
def taken() -> Iterator[str]:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield f"127.0.0.1:{other.getsockname()[1]}"


def message(main: Main, argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the code of a program and the only line that it said."""
    code = main([*argv, "--log-level", "error"])
    # The transport library complains in a line of its own, before ours.
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "add_port.cc" not in line)
    assert re.match(r"bigfleet[a-z-]*: ", line), line
    return code, line


@pytest.mark.rule("packaging#exit-codes")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_taken_port_is_one_line_and_exit_1(
    program: str, tmp_path: Path, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main, argv = commands(tmp_path)[program]
    # A lone coordinator has no peers and leaves its Raft port alone. The all-in-one has a test of its own.
    for at in [at for at, word in enumerate(argv) if word == FREE and argv[at - 1] != "--raft-bind"]:
        code, line = message(main, [*argv[:at], taken, *argv[at + 1 :]], capsys)
        assert (code, taken in line) == (1, True), f"{argv[at - 1]}: {line}"


@pytest.mark.rule("packaging#exit-codes")
@pytest.mark.parametrize(
    ("program", "flag"),
    [
        ("shard", "--data-dir"),
        ("coordinator", "--data-dir"),
        ("fake provider", "--state"),
        ("hook provider", "--state"),
    ],
)
def test_an_unwritable_data_directory_is_one_line_and_exit_1(
    program: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, argv = commands(tmp_path)[program]
    code, line = message(main, [*argv, flag, "/proc/nowhere"], capsys)
    assert (code, "/proc/nowhere" in line) == (1, True), line


@pytest.mark.rule("packaging#exit-codes")
@pytest.mark.parametrize("program", sorted(set(PROGRAMS) - {"all-in-one", "pod controller"}))
def test_half_a_tls_set_is_one_line_and_exit_2(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, argv = commands(tmp_path)[program]
    code, line = message(main, [*argv, "--tls-cert", "x.pem"], capsys)
    assert (code, "without --tls-key, --tls-ca" in line) == (2, True), line


@pytest.mark.rule("packaging#exit-codes")
@pytest.mark.parametrize(
    ("program", "flag"),
    [
        ("operator", "--cluster-id"),
        ("operator", "--shard-addr"),
        ("cluster-sim", "--cluster-id"),
        ("cluster-sim", "--shard-addr"),
        ("cluster-sim", "--demand"),
        ("hook provider", "--inventory"),
    ],
)
def test_a_missing_flag_is_one_line_and_exit_2(
    program: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, argv = commands(tmp_path)[program]
    at = argv.index(flag)
    code, line = message(main, argv[:at] + argv[at + 2 :], capsys)
    assert (code, f"{flag}: missing" in line) == (2, True), line
