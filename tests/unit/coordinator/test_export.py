"""The export loop and its directory (`coordinator#export`)."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from bigfleet.aio.disk import DiskCause, DiskError
from bigfleet.aio.rng import SeededRng
from bigfleet.coordinator.archive import join_archive
from bigfleet.coordinator.export import ExportDirectory, ExportLoop
from bigfleet.coordinator.log import UnavailableError
from bigfleet.testing.disk.image import DiskFault, DiskImage
from bigfleet.testing.disk.virtual_disk import KillAt, MemoryDisk, ProcessKilledError
from bigfleet.testing.loop import run_virtual
from tests.unit.coordinator.harness import World, Worlds
from tests.unit.coordinator.test_archive import archive

ROOT = "/exports"


@dataclass
class Exporter:
    """The loop of a world, on a disk of its own."""

    world: World
    disk: MemoryDisk
    loop: ExportLoop

    def names(self) -> list[str]:
        """Complete exports, oldest first."""
        if not self.disk.exists(ROOT):
            return []
        return [name for name in self.disk.list_names(ROOT) if name != "latest"]


def exporter(world: World, interval_s: float = 300.0, keep: int = 12) -> Exporter:
    disk = MemoryDisk()
    loop = ExportLoop(
        directory=ExportDirectory(disk, ROOT, keep),
        interval_s=interval_s,
        log=world.log,
        leadership=world.replica.leadership,
        clock=world.process.clock,
        metrics=world.metrics,
        logger=world.logged,
    )
    return Exporter(world, disk, loop)


@pytest.mark.rule("coordinator#export")
def test_exports_appear_every_interval_on_the_leader_only_and_a_new_leader_goes_on(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1")
            export = exporter(here, 60)
            task = asyncio.ensure_future(export.loop.run())
            seen = []
            await here.process.clock.sleep(30)
            for minute in range(6):
                if minute == 2:
                    here.log.lose()
                if minute == 4:
                    here.log.gain()
                await here.process.clock.sleep(60)
                seen.append(len(export.names()))
            assert seen == [1, 2, 2, 2, 3, 4]
            task.cancel()
            latest = export.disk.read_link(f"{ROOT}/latest")
            assert latest == export.names()[-1]
            whole = join_archive(
                export.disk.read(f"{ROOT}/{latest}/meta.json"), export.disk.read(f"{ROOT}/{latest}/state")
            )
            assert [row["ID"] for row in json.loads(whole.state)["shards"]] == ["s-1"]
            assert here.sample("snapshot_export_total", outcome="success") == len(export.names())
            assert here.sample("snapshot_export_last_success_timestamp_seconds") is not None

    run_virtual(run())


@pytest.mark.rule("coordinator#export")
def test_an_interval_of_zero_is_five_minutes(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            export = exporter(here, 0)
            task = asyncio.ensure_future(export.loop.run())
            await here.process.clock.sleep(299)
            assert export.names() == []
            await here.process.clock.sleep(2)
            assert len(export.names()) == 1
            task.cancel()

    run_virtual(run())


def test_a_directory_is_named_by_its_time_in_utc_and_its_id(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            export = exporter(here)
            assert await export.loop.export()
            (name,) = export.names()
            stamp, _, snapshot_id = name.partition("-")
            assert len(stamp) == 8
            term, index, _ = snapshot_id.partition("-")[2].split("-")
            assert (int(term), int(index)) == (1, here.log.status().last_index)

    run_virtual(run())


@pytest.mark.rule("coordinator#export")
def test_the_thirteenth_is_pruned_and_the_newest_stays(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            export = exporter(here)
            written = []
            for _ in range(14):
                await export.loop.export()
                written.append(export.names()[-1])
                await here.process.clock.sleep(300)
            assert export.names() == written[2:]
            assert export.disk.read_link(f"{ROOT}/latest") == written[-1]

    run_virtual(run())


@pytest.mark.parametrize("operation", ["mkdir", "write", "fsync", "rename", "symlink", "fsync directory"])
def test_a_failure_warns_counts_and_is_mended_at_the_next_tick(world: Worlds, operation: str) -> None:
    async def run() -> None:
        async with world() as here:
            export = exporter(here)
            assert await export.loop.export()
            await here.process.clock.sleep(300)
            export.disk.image.inject(DiskFault(operation, DiskCause.FULL))
            assert not await export.loop.export()
            assert here.sample("snapshot_export_total", outcome="error") == 1
            assert export.disk.read_link(f"{ROOT}/latest") in export.names()
            await here.process.clock.sleep(300)
            assert await export.loop.export()
            assert export.disk.read_link(f"{ROOT}/latest") == export.names()[-1]
            assert not [name for name in export.names() if name.startswith(".")]

    run_virtual(run())


def test_a_log_that_cannot_answer_is_a_failure_too(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            export = exporter(here)
            here.log.fail_next(UnavailableError("busy"))
            assert not await export.loop.export()
            assert export.names() == []

    run_virtual(run())


@pytest.mark.rule("coordinator#export")
def test_killed_or_cut_off_at_any_operation_latest_names_a_complete_export_or_none() -> None:
    made = archive()
    number = 0
    while True:
        number += 1
        image = DiskImage()
        ExportDirectory(MemoryDisk(image), ROOT, 12).add(made, "20260101-000000-1-1-1")
        image.sync_all()
        disk = MemoryDisk(image, KillAt(number))
        try:
            ExportDirectory(disk, ROOT, 1).add(made, "20260102-000000-1-2-2")
        except ProcessKilledError:
            pass
        else:
            break
        image.power_cut(SeededRng(number).stream("cut"))
        after = MemoryDisk(image)
        latest = after.read_link(f"{ROOT}/latest")
        join_archive(after.read(f"{ROOT}/{latest}/meta.json"), after.read(f"{ROOT}/{latest}/state"))
        ExportDirectory(after, ROOT, 12).add(made, "20260103-000000-1-3-3")
        assert after.read_link(f"{ROOT}/latest") == "20260103-000000-1-3-3"
    assert number > 20


def test_a_directory_that_cannot_be_made_is_told() -> None:
    disk = MemoryDisk()
    disk.image.read_only = True
    with pytest.raises(DiskError):
        ExportDirectory(disk, ROOT, 12).add(archive(), "20260101-000000-x")
