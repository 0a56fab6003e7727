"""`make bench`: run every benchmark, print the figures and the bars, exit 1 when a bar that must be met is missed."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bigfleet.version import __version__
from scaletest.bench.bars import judge
from scaletest.bench.listings import MACHINES, delta, in_other_order, listing


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--machines", type=int, default=MACHINES, help="size of the fleet (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    plain = _measure(options.machines, unique_label=False)
    unique = _measure(options.machines, unique_label=True)
    lines, met = judge(_values(plain, unique))
    report = {
        "version": 1,
        "bigfleet": __version__,
        "profile": f"inventory-{options.machines}",
        "seed": 0,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": _machine(),
        "commit": _commit(),
        "unit_ms": plain["unit_ms"],
        "results": _results(plain, "") + _results(unique, "_unique_label"),
        "memory": plain["memory"],
        "memory_unique_label": unique["memory"],
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    print("\n".join(lines))
    return 0 if met else 1


def _measure(machines: int, unique_label: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        full, changes, other = (Path(directory, name) for name in ("full", "delta", "other"))
        everything = listing(machines, unique_label)
        full.write_bytes(everything.SerializeToString())
        other.write_bytes(in_other_order(everything, seed=1))
        changes.write_bytes(delta(min(1000, machines // 200), 500, unique_label).SerializeToString())
        command = [sys.executable, "-m", "scaletest.bench.inventory", str(full), str(changes), str(other)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _values(plain: dict[str, Any], unique: dict[str, Any]) -> dict[str, float]:
    parse = plain["timings"]["plain_parse"]["cpu_ms"]["median"]

    def ratio(name: str) -> float:
        return float(plain["timings"][name]["cpu_ms"]["median"] / parse)

    return {
        "memory per machine": plain["memory"]["bytes_per_machine"],
        "memory per machine, unique label": unique["memory"]["bytes_per_machine"],
        "ingest of an unchanged listing": ratio("ingest_unchanged"),
        "ingest of a first listing": ratio("ingest_first"),
        "ingest of a delta of 1,000": ratio("ingest_delta"),
    }


def _results(measured: dict[str, Any], suffix: str) -> list[dict[str, Any]]:
    parse = measured["timings"]["plain_parse"]["cpu_ms"]["median"]
    return [
        {
            "name": f"{name}{suffix}",
            **timing,
            "units": round(timing["cpu_ms"]["median"] / measured["unit_ms"], 3),
            "plain_parses": round(timing["cpu_ms"]["median"] / parse, 4),
        }
        for name, timing in measured["timings"].items()
    ]


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        "unknown processor",
    )
    return f"{os.cpu_count()} cores of {model}, {platform.machine()}, {platform.system()}"


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    asked = subprocess.run([git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
