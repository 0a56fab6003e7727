"""Cycles with much open demand: every shape of `open_worlds`, a full pass and a cycle after one cluster changed.

Why: when a region is lost everybody asks at once, and that is when speed matters to users.
`python -m scaletest.bench.open_demand` prints one JSON object; names of shapes measure those only. Every changed cycle is
compared with a full pass.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import numpy as np

from bigfleet.aio.rng import SeededRng
from bigfleet.bench.measured_world import MeasuredWorld, WorldChange, WrongAnswerError
from bigfleet.bench.meter import BenchCase, BenchMeter
from bigfleet.bench.report import result_of, rounded
from bigfleet.engine.planner import Planner
from bigfleet.model.decision import Decision
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.situation import IdleHolds
from bigfleet.workload.profiles import profile_named
from bigfleet.workload.worlds import START, settled_world
from scaletest.bench.engine import SEED
from scaletest.bench.open_worlds import OPEN_WORLDS, hostile_rows, odd_rows

Figures = dict[str, object]
_HOSTILE = {"nothing_fits_50K": hostile_rows, "every_row_its_own_50K": odd_rows}
ZONE_LOSS, LOST_ZONE = "ZoneLoss_225K", "zone-a"


class OpenDemand:
    """One shape under measurement."""

    def __init__(self, name: str, meter: BenchMeter) -> None:
        self._name, self._meter = name, meter
        self._measured = MeasuredWorld(OPEN_WORLDS[name].make(Random(SEED)))
        self._changes = 0

    def figures(self) -> Figures:
        """A full pass, one with everything read, and a cycle after one cluster changed."""
        with _frozen():
            full = self._meter.measure(BenchCase(self.full_pass))
            read = self._meter.measure(BenchCase(self.read_pass))
            changed = self._meter.measure(BenchCase(self._measured.cycle, self._prepare, self._check))
        decision = self.full_pass()
        return {
            "shape": self._name,
            "published": OPEN_WORLDS[self._name].published,
            "machines": len(self._measured.world.inventory),
            "needs": len(self._measured.world.needs),
            "actions": len(decision.actions),
            "unit_ms": rounded(_middle([*full.unit_ms, *changed.unit_ms])),
            "results": [
                result_of(name, timing).document()
                for name, timing in (("full_pass", full), ("read_pass", read), ("one_changed", changed))
            ],
        }

    def full_pass(self) -> Decision:
        """Decide with a planner without memory; what nobody reads is not made."""
        world = self._measured.world
        return Planner().decide(
            world.inventory.snapshot(),
            replace(world.needs.demand()),
            parked=frozenset(),
            reported_clusters=None,
            holds=IdleHolds(),
            now=START,
        )

    def read_pass(self) -> Decision:
        """The same, and every action and every verdict is read."""
        decision = self.full_pass()
        for _ in decision.actions:
            pass
        for verdict in decision.verdicts:
            len(verdict.claimed)
        for _ in decision.unresolved:
            pass
        return decision

    def _prepare(self) -> None:
        self._measured.restore()
        self._measured.cycle()
        self._measured.change(self._next_change())

    def _next_change(self) -> WorldChange:
        """One cluster asks for something else: by turns one that was served first, in the middle and last."""
        self._changes += 1
        world = self._measured.world
        make = _HOSTILE.get(self._name)
        if make is not None:
            return WorldChange({"hostile": tuple(make(self._changes))})
        names = world.needs.clusters
        name = names[self._changes * (len(names) - 1) // self._meter.repetitions % len(names)]
        return WorldChange({name: _asked_anew(world.needs.of_cluster(name))})

    def _check(self, decision: Decision) -> None:
        if decision != self.full_pass():
            raise WrongAnswerError(self._name)


def _asked_anew(rows: Sequence[Need]) -> tuple[Need, ...]:
    """The next roll-up of a cluster: its first row is gone, or has grown where it is the only one, and all arrive anew."""
    left = rows[1:] or [replace(rows[0], total=rows[0].total + rows[0].unit)]
    return tuple(replace(need, arrival_ns=need.arrival_ns + 1_000_000) for need in left)


def zone_loss(meter: BenchMeter, profile: str = "50k") -> Figures:
    """A fleet at rest, and the cycle in which a third of it has failed."""
    measured = MeasuredWorld(settled_world(profile_named(profile), SeededRng(SEED)))
    lost = list(_failed(measured))

    def prepare() -> None:
        measured.restore()
        measured.cycle()
        measured.change(WorldChange(machines=lost))

    def check(decision: Decision) -> None:
        if decision != measured.full_pass():
            raise WrongAnswerError(ZONE_LOSS)

    with _frozen():
        timing = meter.measure(BenchCase(measured.cycle, prepare, check))
    return {
        "shape": ZONE_LOSS,
        "published": "",
        "machines": len(measured.world.inventory),
        "lost": len(lost),
        "needs": len(measured.world.needs),
        "actions": len(measured.cycle().actions),
        "unit_ms": rounded(_middle(timing.unit_ms)),
        "results": [result_of("one_changed", timing).document()],
    }


def _failed(measured: MeasuredWorld) -> Iterator[Machine]:
    snapshot = measured.world.inventory.snapshot()
    for machine in snapshot.machines():
        if machine.shape.zone == LOST_ZONE and machine.state is not MachineState.SPECULATIVE:
            yield replace(
                machine, state=MachineState.FAILED, cluster="", last_error="the zone is lost", idle_since=None
            )
        elif machine.shape.zone == LOST_ZONE:
            yield replace(machine, state=MachineState.FAILED, last_error="the zone is lost")


def _middle(values: list[float]) -> float:
    return float(np.median(values))


@contextmanager
def _frozen() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def main(*names: str) -> None:
    """Measure and print."""
    meter = BenchMeter()
    reports: list[Figures] = []
    for name in names or (*OPEN_WORLDS, ZONE_LOSS):
        make: Callable[[], Figures] = (
            (lambda: zone_loss(meter)) if name == ZONE_LOSS else OpenDemand(name, meter).figures
        )
        reports.append(make())
        print(json.dumps(_line(reports[-1])), file=sys.stderr, flush=True)
        gc.collect()
    print(json.dumps({"shapes": reports}))


def _line(report: Figures) -> Figures:
    results = report["results"]
    assert isinstance(results, list)
    return {
        "shape": report["shape"],
        "actions": report["actions"],
        "unit_ms": report["unit_ms"],
        **{result["name"]: [result["units"], result["cpu_ms"]["median"]] for result in results},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
