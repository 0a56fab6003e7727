"""The bash script in a real bash: words typed so far in, offers out."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from bigfleet.app import bigfleet, bigfleetctl
from bigfleet.cli.framework.tree import CliProgram
from bigfleet.cli.verbs.completion import bash_script, fish_script, zsh_script

pytestmark = pytest.mark.integration


def offers(program: CliProgram, *words: str, cwd: Path | None = None) -> list[str]:
    """Return what bash offers with the cursor at the end of the last word."""
    typed = " ".join(shlex.quote(word) for word in (program.name, *words))
    script = (
        f"{bash_script(program)}\nCOMP_WORDS=({typed})\nCOMP_CWORD={len(words)}\n"
        f'_{program.name}\nfor offer in "${{COMPREPLY[@]}}"; do echo "$offer"; done\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-u"],
        input=script, cwd=cwd, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (
            [""],
            ["--help", "--version", "-h", *sorted({row.name.split()[0] for row in bigfleet.PROGRAM.rows})],
        ),
        (["co"], ["completion", "conformance", "coordinator"]),
        (["certs", ""], ["--help", "--version", "-h", "init", "issue", "secrets", "show"]),
        (["certs", "is"], ["issue"]),
        (["certs", "issue", "--r"], ["--role"]),
        (["certs", "issue", "--role", ""], ["admin", "cluster", "readonly", "shard"]),
        (["certs", "issue", "--role", "s"], ["shard"]),
        (["certs", "issue", "--role", "=", "ad"], ["admin"]),
        (["certs", "issue", "--role", "="], ["admin", "cluster", "readonly", "shard"]),
        (["certs", "issue", "dir", "--role", "shard", "--d"], ["--days", "--dns"]),
        (["--log-level", "debug", "certs", "sh"], ["show"]),
        (["--log-level", "=", "debug", "ver"], ["version"]),
        (["completion", "z"], ["zsh"]),
        (["version", "-o", "j"], ["json"]),
        (["version", "certs", "--out"], ["--output"]),
        (["nonsense", "ver"], ["version"]),
    ],
    ids=" ".join,
)
def test_bash_offers_commands_flags_and_values(words: list[str], offered: list[str]) -> None:
    assert offers(bigfleet.PROGRAM, *words) == offered


def test_bash_offers_files_where_a_path_is_meant(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").touch()
    (tmp_path / "pki").mkdir()
    assert offers(bigfleet.PROGRAM, "version", "--config", "s", cwd=tmp_path) == ["settings.yaml"]
    assert offers(bigfleet.PROGRAM, "certs", "init", "p", cwd=tmp_path) == ["pki"]
    assert "--days" in offers(bigfleet.PROGRAM, "certs", "init", "--", cwd=tmp_path)


def test_the_other_program_has_its_own_script() -> None:
    assert offers(bigfleetctl.PROGRAM, "v") == ["version"]


@pytest.mark.parametrize("program", [bigfleet.PROGRAM, bigfleetctl.PROGRAM], ids=lambda program: program.name)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_well_formed(program: CliProgram, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here; on Debian: apt install {shell}")
    script = {"zsh": zsh_script, "fish": fish_script}[shell](program)
    done = subprocess.run(
        [shell, "-n"], input=script, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
