"""What a start costs, counted: it must not grow by a disk sync, a process or a parse per machine."""

import subprocess
import sys
from collections import Counter

import pytest

from bigfleet.document.strict_yaml import load_strict_yaml
from bigfleet.provider.hook.core import documents
from bigfleet.provider.kit.journal import Journal
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import MemoryDisk, Operation
from bigfleet.testing.loop import run_virtual
from tests.unit.provider.hook.harness import POWER_MANAGED, World, inventory

pytestmark = pytest.mark.rule("providers#hook-start")


def cost(machines: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Start with so many machines, then again on the state; return how often each costly thing was done."""
    done: Counter[str] = Counter()

    def count(operation: Operation) -> None:
        done[operation.kind] += 1

    def parse(text: str | bytes) -> object:
        done["parse"] += 1
        return load(text)

    load = load_strict_yaml
    monkeypatch.setattr(documents, "load_strict_yaml", parse)

    async def run() -> None:
        world = World(inventory([f"m-{number}" for number in range(machines)], POWER_MANAGED))
        disk = MemoryDisk(DiskImage(), count)
        process = world.process
        world.store = Journal("/journal", disk=disk, clock=process.clock, rng=process.rng)  # type: ignore[assignment]
        await world.restart()
        assert len(world.provider.kit.state.table) == machines
        await world.restart()
        await world.provider.stop(0)
        done["process"] = len(world.hooks.calls)

    run_virtual(run())
    monkeypatch.undo()
    return done


def test_a_start_with_fifty_times_the_machines_syncs_parses_and_spawns_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = cost(20, monkeypatch), cost(1000, monkeypatch)
    assert small == large
    assert (large["parse"], large["process"]) == (3, 0)


def test_the_program_loads_no_kubernetes_client_before_it_needs_one() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, bigfleet.app.hook_provider.serve; print('kubernetes' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "False\n"
