"""`make fuzz MINUTES=60`: every target for so many minutes of CPU time, and a line of JSON for each as evidence.

    python -m tests.fuzz --minutes 60 [--target NAME] [--seed N] [--evidence FILE]
    python -m tests.fuzz --keep [--target NAME]

Where atheris is installed it follows coverage, elsewhere Hypothesis draws the changes. A finding ends its target; the exit
code is then 1. Put the smallest input that is named into the corpus, with the fix.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

from tests.fuzz.guided import available, guided, keep
from tests.fuzz.rounds import SLOWDOWN, fuzz, slowdown
from tests.fuzz.shrinking import smallest
from tests.fuzz.targets import BY_NAME, TARGETS, Target

_EXAMPLES = 2_000
Figures = dict[str, Any]  # what JSON can hold


def main(argv: Sequence[str]) -> int:
    """Fuzz for some minutes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument(
        "--minutes",
        type=float,
        default=1.0,
        help="of CPU time for each target, so that a busy host fuzzes as much",
    )
    parser.add_argument("--target", action="append", choices=sorted(BY_NAME), help="repeatable; default all")
    parser.add_argument("--seed", type=int, default=1, help="another one tries other inputs")
    parser.add_argument(
        "--method", choices=("coverage", "hypothesis"), help="default coverage, where atheris is installed"
    )
    parser.add_argument("--jobs", type=int, default=1, help="targets at once, when following coverage")
    parser.add_argument(
        "--scratch", type=Path, default=Path(".make/fuzz"), help="inputs that later runs go on from"
    )
    parser.add_argument("--evidence", type=Path, help="append the lines of figures to this file too")
    parser.add_argument(
        "--keep", action="store_true", help="fuzz nothing; take small inputs of earlier runs into the corpus"
    )
    asked = parser.parse_args(argv)
    if (asked.method == "coverage" or asked.keep) and not available():
        parser.error("this needs atheris, which is not installed; make fuzz installs it where it can be")
    targets = [BY_NAME[name] for name in asked.target] if asked.target else list(TARGETS)
    if asked.keep:
        for target in targets:
            print(f"{target.name}: {keep(target.name, asked.scratch)} inputs taken into the corpus")
        return 0
    follow = asked.method != "hypothesis" and available()
    if not follow:
        print("fuzz: without atheris, so coverage is not followed", file=sys.stderr)
    run = (
        partial(_with_atheris, minutes=asked.minutes, seed=asked.seed, scratch=asked.scratch)
        if follow
        else partial(_with_hypothesis, minutes=asked.minutes, seed=asked.seed)
    )
    findings, host = 0, _host()
    with ThreadPoolExecutor(asked.jobs if follow else 1) as pool:
        for target, figures in zip(targets, pool.map(run, targets), strict=True):
            line = json.dumps({"target": target.name, **figures, **host})
            print(line, flush=True)
            if asked.evidence:
                with asked.evidence.open("a") as evidence:
                    evidence.write(line + "\n")
            findings += figures["findings"]
    return 1 if findings else 0


def _with_atheris(target: Target, *, minutes: float, seed: int, scratch: Path) -> Figures:
    found = guided(target.name, minutes, seed, scratch)
    if found.finding:
        print(f"{found.finding}\nfuzz: finding in {target.name}", file=sys.stderr)
    for path in found.inputs:
        small = path.with_name(f"small-{path.name}") if found.raised else path
        if found.raised:
            small.write_bytes(smallest(target, path.read_bytes()))
        print(f"fuzz: shown by {small}", file=sys.stderr)
    return {
        "method": f"atheris {version('atheris')}",
        "seed": seed,
        "cpu_minutes": round(found.cpu_minutes, 2),
        "inputs": found.executions,
        "findings": 1 if found.finding else 0,
        "edges": [found.start.edges, found.end.edges],
        "features": [found.start.features, found.end.features],
        "corpus": [found.start.inputs, found.end.inputs],
    }


def _with_hypothesis(target: Target, *, minutes: float, seed: int) -> Figures:
    start, number, findings = process_time(), seed, 0
    answers: Counter[str] = Counter()
    ratio, shape = max(
        ((slowdown(target, grow), shape) for shape, grow in target.shapes.items()), default=(0.0, "")
    )
    if ratio >= SLOWDOWN:
        print(
            f"fuzz: {target.name}, {shape}: four times the input takes {ratio:.1f} times the CPU time",
            file=sys.stderr,
        )
        findings += 1
    while not findings and process_time() < start + 60 * minutes:
        try:
            answers += fuzz(target, _EXAMPLES, number)
        except Exception:  # any error but a refusal is a finding, whatever it is
            traceback.print_exc()
            print(f"fuzz: finding in {target.name}, round {number}", file=sys.stderr)
            findings += 1
        number += 1
    return {
        "method": f"hypothesis {version('hypothesis')}",
        "seed": seed,
        "cpu_minutes": round((process_time() - start) / 60, 2),
        "inputs": answers.total(),
        "findings": findings,
        "rounds": number - seed,
        "answers": dict(sorted(answers.items())),
        "slowdown_at_4_times_the_input": round(ratio, 1),
        "slowest_shape": shape,
    }


def _host() -> Figures:
    """Where and of what these figures are."""
    head = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False
    )
    cpu = Path("/proc/cpuinfo")
    names = (
        [line for line in cpu.read_text().splitlines() if line.startswith("model name")]
        if cpu.exists()
        else []
    )
    name = names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
    return {
        "commit": head.stdout.strip(),
        "machine": f"{os.cpu_count()} cores, {name}",
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
