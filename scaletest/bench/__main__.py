"""`make bench`: run every benchmark, print the figures and the bars, exit 1 when a bar that must be met is missed."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bigfleet.bench.plans import SPECIAL_PLANS
from bigfleet.version import __version__
from scaletest.bench.bars import (
    COLLECTOR_BARS,
    COORDINATOR_BARS,
    COORDINATOR_LOAD_BARS,
    DASHBOARD_BARS,
    ENGINE_BARS,
    GROWTH_BARS,
    INVENTORY_BARS,
    KARPENTER_BARS,
    ON_ORDER_BARS,
    OPEN_DEMAND_BARS,
    REACTION_BARS,
    RECOVERY_BARS,
    REFERENCE_BARS,
    SHARD_BARS,
    SIEGE_BARS,
    Judged,
    collector_values,
    engine_values,
    growth_values,
    judge,
    karpenter_values,
    on_order_values,
    open_demand_values,
    reaction_values,
    recovery_values,
    siege_values,
)
from scaletest.bench.listings import MACHINES, written
from scaletest.bench.tables import tables

Figures = dict[str, Any]  # Any: what a child process printed, as JSON has it
Part = tuple[Figures, list[Judged]]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="part to run instead of all")
    parser.add_argument(
        "--machines", type=int, default=MACHINES, help="size of the inventory's fleet (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures: Figures = {
        "version": 1,
        "bigfleet": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": _machine(),
        "commit": _commit(),
        "command": " ".join(["python", "-m", "scaletest.bench", *sys.argv[1:]]),
    }
    judged: list[Judged] = []
    for name in options.only or PARTS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        figures[name], verdicts = PARTS[name](options.machines)
        judged += verdicts
    judged.sort(key=lambda one: one.bar.number)
    figures["bars"] = [one.document() for one in judged]
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(
        f"{figures['machine']}, Python {figures['python']}, NumPy {figures['numpy']}, commit {figures['commit']}"
    )
    for name in options.only or PARTS:
        print("\n".join(tables(figures[name], name)))
    print()
    print("\n".join(one.line for one in judged))
    return 0 if all(one.bar.met(one.value) for one in judged) else 1


def _inventory(machines: int) -> Part:
    measured = {}
    for name, unique_label in (("plain", False), ("unique_label", True)):
        with written(machines, unique_label) as paths:
            measured[name] = _child("scaletest.bench.inventory", *map(str, paths))
    plain = {result["name"]: result["cpu_ms"]["median"] for result in measured["plain"]["results"]}
    values = {
        "memory per machine": measured["plain"]["memory"]["bytes_per_machine"],
        "memory per machine, unique label": measured["unique_label"]["memory"]["bytes_per_machine"],
        "ingest of an unchanged listing": plain["ingest_unchanged"] / plain["plain_parse"],
        "ingest of a first listing": plain["ingest_first"] / plain["plain_parse"],
        "ingest of a delta of 1,000": plain["ingest_delta"] / plain["plain_parse"],
    }
    return measured, judge(INVENTORY_BARS, values)


def _engine(_machines: int) -> Part:
    (report,) = _child("scaletest.bench.engine", "50k")
    values = engine_values(_units(report), report["memory"]["bytes_per_machine"])
    return report, judge(ENGINE_BARS, values)


def _growth(_machines: int) -> Part:
    reports = _child("scaletest.bench.engine", "5k,50k,500k", "full_pass,zero_change")
    return {"reports": reports}, judge(GROWTH_BARS, growth_values(*map(_units, reports)))


def _shapes(_machines: int) -> Part:
    """Worlds of a special shape: no bar is on them, and a wrong answer still ends the run."""
    gangs = _child("scaletest.bench.engine", "gang-heavy", "full_pass,zero_change,churn_local,cold_bring_up")
    others = _child("scaletest.bench.engine", ",".join(SPECIAL_PLANS))
    return {"reports": [*gangs, *others]}, []


def _open_demand(_machines: int) -> Part:
    """Tens of thousands of needs that nothing covers yet: the shapes that the original published figures for, and ours."""
    measured: Figures = _child("scaletest.bench.open_demand")
    return measured, judge(OPEN_DEMAND_BARS, open_demand_values(measured["shapes"]))


def _karpenter(_machines: int) -> Part:
    """Pods in the shapes of Karpenter's own benchmark, from the list of pods to the list of actions."""
    measured: Figures = _child("scaletest.bench.karpenter_shapes")
    return measured, judge(KARPENTER_BARS, karpenter_values(measured))


def _reference(_machines: int) -> Part:
    measured = _child("scaletest.bench.reference")
    values = {"speed against the plain model": measured["times_faster"]} if measured["identical"] else {}
    return measured, judge(REFERENCE_BARS, values)


def _shard(_machines: int) -> Part:
    """One shard with 500,000 machines and 5,000 operators; minutes, and most of the machine's memory bandwidth."""
    measured = _child("scaletest.bench.shard")
    phases = {phase["name"]: phase for phase in measured["phases"]}
    burst = phases["burst of bootstraps"]["operators"]
    values = {
        "loop lag p99, nothing changes": phases["steady, nothing changes"]["lag_ms"]["p99"],
        "loop lag p99, five changes a second": phases["steady, five changes a second"]["lag_ms"]["p99"],
        "bootstraps a second, 256 workers": burst["configured"] / burst["seconds"],
    }
    return measured, judge(SHARD_BARS, values)


def _coordinator_snapshot(_machines: int) -> Part:
    measured = _child("scaletest.bench.coordinator_snapshot")
    values = {"pause while a snapshot of 100,000 domains is taken": measured["pause_ms"]["snapshot"]}
    return measured, judge(COORDINATOR_BARS, values)


def _operator(_machines: int) -> Part:
    return {"sizes": _child("scaletest.bench.operator_demand", "50000,100000")}, []


def _operator_live(_machines: int) -> Part:
    measured: Figures = _child("scaletest.bench.operator_live", "50000", "60")
    return measured, []


def _reaction(_machines: int) -> Part:
    """From pod to Create call, which needs the test control plane, and from Idle to Configure call, which does not."""
    measured: Figures = _child("scaletest.bench.reaction")
    judged = judge(ON_ORDER_BARS, on_order_values(measured["on_order"]))
    if values := reaction_values(measured):
        judged += judge(REACTION_BARS, values)
    return measured, judged


def _collector(_machines: int) -> Part:
    measured: Figures = _child("scaletest.bench.collector")
    return measured, judge(COLLECTOR_BARS, collector_values(measured))


def _recovery(_machines: int) -> Part:
    """Ten times each; about half an hour, most of which the fleets wait."""
    measured: Figures = _child("scaletest.bench.recovery", "10")
    return measured, judge(RECOVERY_BARS, recovery_values(measured))


def _siege(_machines: int) -> Part:
    """Every attack for two minutes, a minute before and up to a minute and a half after it; about an hour."""
    measured: Figures = _child("scaletest.bench.siege")
    return measured, judge(SIEGE_BARS, siege_values(measured))


def _coordinator_load(_machines: int) -> Part:
    measured = _child("scaletest.bench.coordinator_load")
    values = {
        "commands committed with 64 clients": measured["many"]["commands_per_s"],
        "a lone write, median": measured["lone"]["p50_ms"],
    }
    return measured, judge(COORDINATOR_LOAD_BARS, values)


def _dashboard(_machines: int) -> Part:
    """Every answer of the dashboard, the first after a decision, but the streams, which have no bound."""
    measured = _child("scaletest.bench.dashboard", "500000", "20000")
    answers, explained = measured["answers"], [path for path in measured["answers"] if "explain" in path]
    values = {
        DASHBOARD_BARS[0].name: max(
            times["first_ms"] for path, times in answers.items() if path not in explained
        ),
        DASHBOARD_BARS[1].name: max(times["plain_bytes"] for times in answers.values()),
        DASHBOARD_BARS[2].name: max(answers[path]["first_ms"] for path in explained),
    }
    return measured, judge(DASHBOARD_BARS, values)


PARTS: Mapping[str, Callable[[int], Part]] = {
    "inventory": _inventory,
    "engine": _engine,
    "growth": _growth,
    "shapes": _shapes,
    "open-demand": _open_demand,
    "karpenter": _karpenter,
    "reference": _reference,
    "collector": _collector,
    "shard": _shard,
    "coordinator-snapshot": _coordinator_snapshot,
    "operator": _operator,
    "operator-live": _operator_live,
    "reaction": _reaction,
    "recovery": _recovery,
    "siege": _siege,
    "coordinator-load": _coordinator_load,
    "dashboard": _dashboard,
}


def _units(report: Figures) -> dict[str, float]:
    return {result["name"]: result["units"] for result in report["results"]}


def _child(module: str, *arguments: str) -> Any:  # Any: see Figures
    command: Sequence[str] = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


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
