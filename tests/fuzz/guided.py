"""Fuzzing that follows coverage: starts one target under atheris and reads what libFuzzer says of it.

Why: what changes of seeds alone do not reach is reached in steps, each input that saw new code being a seed for the next.
Must never: keep what was found in the tree by itself. New inputs go to a scratch folder, where the next sitting goes on from them.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.fuzz.mutations import WORDS
from tests.fuzz.targets import CORPUS

MOST_BYTES: Final = 1 << 16
MOST_MIB: Final = 2048
KEPT_BYTES: Final = 600
"""Of one input that is taken into the tree."""
_MODULE: Final = "tests.fuzz.targets"
_STATUS: Final = re.compile(r"^#\d+\s+(\w+)\s+cov: (\d+) ft: (\d+) corp: (\d+)/")
_EXECUTED: Final = re.compile(r"^stat::number_of_executed_units:\s+(\d+)")
_TOKEN: Final = re.compile(rb"[\w.$-]{2,40}")
_LAST_LINES: Final = 60
_MERGE_CPU_S: Final = 600


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the inputs of a run got: edges of the code, edges with how often they were taken, inputs kept for them."""

    edges: int = 0
    features: int = 0
    inputs: int = 0


@dataclass(frozen=True, slots=True)
class Guided:
    """What one run gave."""

    cpu_minutes: float
    executions: int
    start: Reached
    end: Reached
    finding: str
    """The last lines of the run where it ended with a finding, else nothing."""
    raised: bool
    """Whether the finding is an error that the target raised; else the process died, or an input took too long."""
    inputs: tuple[Path, ...]
    """Those that show the finding."""


def available() -> bool:
    """Whether atheris is installed; it has wheels for some Pythons on Linux with x86-64."""
    return find_spec("atheris") is not None


def guided(
    name: str, minutes: float, number: int, scratch: Path, *, module: str = _MODULE, corpus: Path = CORPUS
) -> Guided:
    """Run one target for so many CPU minutes, or to its first finding."""
    found, findings, log = (scratch / name / part for part in ("inputs", "findings", "log"))
    for folder in (found, findings):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    words = scratch / name / "words"
    words.write_text(_dictionary(corpus / name))
    command = [
        *_instrumented(module, name, 60 * minutes),
        *(f"-max_len={MOST_BYTES}", f"-rss_limit_mb={MOST_MIB}", f"-seed={number % 2**32 or 1}"),
        # The target watches its own CPU time; the clock of libFuzzer would count the hours in which a run is stopped.
        *("-timeout=1000000", "-report_slow_units=1000000", "-print_final_stats=1"),
        *(f"-dict={words}", f"-artifact_prefix={findings}/", str(found), str(corpus / name)),
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        _, status, used = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
    lines = log.read_text(errors="replace").splitlines()
    last, (executions, start, end) = "\n".join(lines[-_LAST_LINES:]), figures_of(lines)
    return Guided(
        cpu_minutes=(used.ru_utime + used.ru_stime) / 60,
        executions=executions,
        start=start,
        end=end,
        finding=f"{last}\nexit code {code}" if code else "",
        raised=code != 0 and "Uncaught Python exception" in last and "TooSlow" not in last,
        inputs=tuple(sorted(set(findings.iterdir()) - before)),
    )


def keep(name: str, scratch: Path) -> int:
    """Take the fewest small inputs that reach all edges that small ones of earlier runs reach into the tree; say how many."""
    seeds, found, chosen = CORPUS / name, scratch / name / "inputs", scratch / name / "chosen"
    shutil.rmtree(chosen, ignore_errors=True)
    shutil.copytree(seeds, chosen)
    command = [
        *_instrumented(_MODULE, name, _MERGE_CPU_S),
        *(
            "-set_cover_merge=1",
            "-use_counters=0",
            f"-max_len={KEPT_BYTES}",
            "-timeout=1000000",
            str(chosen),
            str(found),
        ),
    ]
    with (scratch / name / "log").open("wb") as output:
        subprocess.run(command, stdout=output, stderr=output, check=True)
    known = {path.read_bytes() for path in seeds.iterdir()}
    new = [path for path in sorted(chosen.iterdir()) if path.read_bytes() not in known]
    for path in new:
        shutil.copyfile(path, seeds / f"reached-{path.name[:8]}")
    return len(new)


def _instrumented(module: str, name: str, seconds: float) -> list[str]:
    return [sys.executable, "-m", "tests.fuzz.instrumented", module, name, str(seconds)]


def figures_of(lines: list[str]) -> tuple[int, Reached, Reached]:
    """Read what libFuzzer printed: inputs executed, what the first ones reached, what all of them did."""
    executions, start, end = 0, Reached(), Reached()
    for line in lines:
        if status := _STATUS.match(line):
            end = Reached(*(int(figure) for figure in status.groups()[1:]))
            if status[1] == "INITED":
                start = end
        elif executed := _EXECUTED.match(line):
            executions = int(executed[1])
    return executions, start, end


def _dictionary(seeds: Path) -> str:
    """Words that libFuzzer puts into an input: odd ones, and those of the seeds."""
    words: Mapping[bytes, None] = dict.fromkeys(
        [word for word in WORDS if 0 < len(word) <= 64]
        + [word for seed in sorted(seeds.iterdir()) for word in _TOKEN.findall(seed.read_bytes())]
    )
    return "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in words)
