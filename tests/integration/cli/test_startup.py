"""Real processes: what they import, how they end, what they leave on their streams."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bigfleet.version import __version__

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
HEAVY = (
    "pydantic",
    "pydantic_settings",
    "grpc",
    "numpy",
    "cryptography",
    "structlog",
    "prometheus_client",
    "yaml",
    "asyncio",
)


def call(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BIGFLEET", "PYTHONUNBUFFERED"))
    }
    return subprocess.run(
        argv, cwd=ROOT, env={**clean, **environ}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.rule("packaging#help")
@pytest.mark.parametrize("program", ["bigfleet", "bigfleetctl", "kubectl_bigfleet"])
@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["-h"], ["nonsense"]], ids=lambda argv: argv[0])
def test_version_and_help_import_nothing_slow(program: str, argv: list[str]) -> None:
    script = (
        "import json, sys\n"
        f"from bigfleet.app.{program} import main\n"
        f"code = main({argv!r})\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)\n"
    )
    done = call(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_help_of_certs_brings_no_cryptography() -> None:
    script = "import sys; from bigfleet.app.bigfleet import main; main(['certs', 'issue', '-h']); sys.exit('cryptography' in sys.modules)"
    assert call(sys.executable, "-c", script).returncode == 0


@pytest.mark.parametrize("program", ["bigfleet", "bigfleetctl"])
def test_the_folder_in_cmd_and_the_module_are_the_program(program: str) -> None:
    done = call(sys.executable, f"cmd/{program}", "--version", PYTHONPATH=str(ROOT))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{program} {__version__}\n", "")


def test_cmd_does_not_hide_the_standard_library() -> None:
    assert not list((ROOT / "cmd").rglob("__init__.py"))
    assert call(sys.executable, "-c", "import pdb, cmd; cmd.Cmd").returncode == 0


def test_a_wrong_call_is_one_line_on_standard_error_and_exit_2() -> None:
    done = call(sys.executable, "cmd/bigfleet", "certs", "issue", "x", "--role", "king", PYTHONPATH=str(ROOT))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bigfleet: --role: found 'king'")
    assert len(done.stderr.splitlines()) == 1


def test_an_unwritable_directory_is_exit_1_without_a_traceback(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    done = call(sys.executable, "cmd/bigfleet", "certs", "init", str(blocked / "pki"), PYTHONPATH=str(ROOT))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_output_to_a_pipe_is_not_coloured() -> None:
    done = call(sys.executable, "cmd/bigfleet", "version", PYTHONPATH=str(ROOT), TERM="xterm-256color")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout


BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@BUFFERED
@pytest.mark.parametrize(
    "argv", [["version"], ["--help"], ["completion", "bash"], ["certs", "issue", "-h"]], ids=" ".join
)
def test_a_closed_pipe_is_not_an_error(argv: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # before anything is written, so that writing must meet the closed end
    try:
        done = subprocess.run(
            [sys.executable, "cmd/bigfleet", *argv],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
            stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@BUFFERED
def test_a_full_disk_is_reported(unbuffered: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    script = f"{sys.executable} cmd/bigfleet version > /dev/full"
    done = call("bash", "-c", script, PYTHONPATH=str(ROOT), PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, "bigfleet: No space left on device\n")
