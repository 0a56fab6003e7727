"""The file of the history: bounds, roll-ups across restarts, damage, a full disk, kill -9."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from bigfleet.aio.disk import AnyPath, DiskCause, DiskError, Lock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.dashboard.core.history_sample import (
    FAMILIES,
    ClusterFigures,
    HistorySample,
    cluster_text,
    fleet_text,
)
from bigfleet.dashboard.core.history_steps import COARSE, FINE, MIDDLE, STEPS, rolled_up
from bigfleet.dashboard.history_store import FILE, MAX_BYTES, HistoryError, HistoryProblem, HistoryStore

START = 1_800_000_000  # the beginning of an hour


def sample(at: int, number: float = 1.0, clusters: int = 1) -> HistorySample:
    rows = {f"cluster-{n:02}": ClusterFigures(9, 4.5, (9, 0, 0, 0), {}) for n in range(clusters)}
    return HistorySample(at, {"states": {"Idle": number}}, rows)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HistoryStore]:
    found = HistoryStore(SystemDisk(), str(tmp_path / "data"))
    yield found
    found.close()


@pytest.mark.rule("dashboard#history")
def test_samples_survive_a_restart_and_a_minute_is_the_same_with_and_without_one(tmp_path: Path) -> None:
    samples = [sample(START + 10 * n, n) for n in range(40)]
    whole, cut = (HistoryStore(SystemDisk(), str(tmp_path / name)) for name in ("whole", "cut"))
    for row in samples:
        whole.append(row)
    for row in samples:
        cut.append(row)
        cut.close()
    for step in STEPS:
        found, wanted = (store.read(step, START, START + 399, cluster="cluster-00") for store in (cut, whole))
        assert found == wanted
        assert found[0].clusters["cluster-00"].machines == 9
    assert whole.rows() == {"fine": 40, "middle": 6, "coarse": 0}
    minutes = whole.read(MIDDLE, START, START + 399, cluster="cluster-00")
    assert minutes == rolled_up(MIDDLE, samples)  # the last one has only begun
    assert whole.read(COARSE, START, START + 399)[0].fleet["states"] == {"Idle": pytest.approx(19.5)}
    whole.close()


@pytest.mark.rule("dashboard#history-bounds")
def test_every_step_keeps_as_long_as_it_should_and_no_longer(store: HistoryStore) -> None:
    for hour in range(24 * 91):
        store.append(sample(START + 3600 * hour))
    end = START + 3600 * 24 * 91
    for n in range(60 * 49):
        store.append(sample(end + 60 * n))
    end += 60 * 60 * 49
    for n in range(6 * 60 * 7):
        store.append(sample(end + 10 * n))
    for step in STEPS:
        assert step.rows - 2 <= store.rows()[step.name] <= step.rows


@pytest.mark.rule("dashboard#history-bounds")
def test_ninety_days_of_sixty_clusters_stay_far_below_200_megabytes(store: HistoryStore) -> None:
    numbers = Random(7)
    clusters = {
        f"production-cluster-{n:02}": ClusterFigures(
            numbers.randint(1, 9_000),
            numbers.random() * 10_000,
            (numbers.randint(1, 9_000), 3.1667, 12.3333, 1.5),
            {"cpu": numbers.random() * 1e4, "memory": 1.2e13, "nvidia.com/gpu": 8},
        )
        for n in range(60)
    }
    families = {
        family: {f"{family}-name-{n}": numbers.random() * 1e5 for n in range(12)} for family in FAMILIES
    }
    full = HistorySample(START, families, clusters)
    texts = fleet_text(full), cluster_text(full)
    assert texts[1].count("production-cluster") == 60
    store.open()
    with store._changing() as found:
        for step in STEPS:
            rows = ((START + n * step.seconds, 6, *texts) for n in range(step.rows))
            found.executemany(f"INSERT INTO {step.name} VALUES (?, ?, ?, ?)", rows)  # noqa: S608
    assert 20_000_000 < store.size() < 100_000_000
    # The longest texts that there can be, a page more for each row: still below what the file may have.
    longest = -(-20_000 // 4_000) + 1
    assert sum(step.rows for step in STEPS) * longest * 4_096 < MAX_BYTES < 190_000_000


def test_a_clock_that_was_ahead_once_does_not_fill_the_file(store: HistoryStore) -> None:
    for n in range(FINE.rows):
        store.append(sample(START + 10**9 + 10 * n))
    for n in range(FINE.rows * 2):
        store.append(sample(START + 10 * n))
    assert store.rows()["fine"] <= FINE.rows


@pytest.mark.rule("dashboard#history-bounds")
def test_two_processes_do_not_share_a_file(store: HistoryStore, tmp_path: Path) -> None:
    store.append(sample(START))
    with pytest.raises(HistoryError) as refused:
        HistoryStore(SystemDisk(), str(tmp_path / "data")).append(sample(START))
    assert refused.value.problem is HistoryProblem.LOCKED


@pytest.mark.rule("dashboard#history-trouble")
@pytest.mark.parametrize("damage", ["header", "middle", "foreign", "form"])
def test_a_damaged_file_is_told_and_set_aside_not_deleted(tmp_path: Path, damage: str) -> None:
    store = HistoryStore(SystemDisk(), str(tmp_path))
    for n in range(300):
        store.append(sample(START + 10 * n, clusters=40))
    store.close()
    file = tmp_path / FILE
    body = file.read_bytes()
    if damage == "header":
        file.write_bytes(b"not a database at all" + body[21:])
    elif damage == "middle":
        file.write_bytes(body[:4096] + b"\xa5" * (len(body) - 8192) + body[-4096:])
    else:
        with sqlite3.connect(file) as other:
            other.execute("DROP TABLE middle")
            other.execute("CREATE TABLE middle (x)" if damage == "foreign" else "PRAGMA user_version=99")
        other.close()
    with pytest.raises(HistoryError) as found:
        store.append(sample(START + 6000))
    assert found.value.problem is HistoryProblem.DAMAGED
    assert FILE in found.value.text
    aside = store.set_aside()
    assert Path(aside).stat().st_size == file.with_name(Path(aside).name).stat().st_size > 0
    store.append(sample(START + 6000))
    assert store.rows()["fine"] == 1
    store.close()


@pytest.mark.rule("dashboard#history-trouble")
def test_a_full_disk_loses_the_sample_and_nothing_else(tmp_path: Path) -> None:
    store = HistoryStore(SystemDisk(), str(tmp_path), max_bytes=200_000)
    kept, problem = 0, None
    while problem is None and kept < 2_000:
        try:
            store.append(sample(START + 10 * kept, clusters=40))
            kept += 1
        except HistoryError as error:
            problem = error.problem
    assert problem is HistoryProblem.FULL
    assert len(store.read(FINE, START, START + 10**6)) == kept > 20
    store.close()


class NoRight(SystemDisk):
    def lock(self, path: AnyPath) -> Lock:
        raise DiskError("lock", path, DiskCause.READ_ONLY)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="read-only") as found:
        HistoryStore(NoRight(), str(tmp_path / "data")).append(sample(START))
    assert found.value.problem is HistoryProblem.UNUSABLE


WRITER = """
import sys
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.dashboard.core.history_sample import ClusterFigures, HistorySample
from bigfleet.dashboard.history_store import HistoryStore
store = HistoryStore(SystemDisk(), sys.argv[1])
rows = {f"cluster-{n:02}": ClusterFigures(9, 4.5, (9, 0, 0, 0), {}) for n in range(60)}
at = int(sys.argv[2])
while True:
    store.append(HistorySample(at, {"states": {"Idle": 1.0}}, rows))
    print(at, flush=True)
    at += 10
"""


@pytest.mark.rule("dashboard#history")
def test_kill_9_in_the_middle_of_a_write_loses_nothing_that_was_written(tmp_path: Path) -> None:
    at, told = START, list[int]()
    for round_ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(at)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )  # fmt: skip
        assert writer.stdout is not None
        told.append(int(writer.stdout.readline()))
        deadline = time.monotonic() + 0.3 + 0.1 * round_
        while time.monotonic() < deadline:
            told.append(int(writer.stdout.readline()))
        writer.send_signal(signal.SIGKILL)
        told += [int(line) for line in writer.stdout.read().split() if len(line) == len(str(START))]
        writer.wait()
        writer.stdout.close()
        at = max(told) + 10
    store = HistoryStore(SystemDisk(), str(tmp_path))
    found = {row.at for row in store.read(FINE, START, at)}
    assert found >= set(told)
    assert len(told) > 20
    store.append(sample(at + 10))
    store.close()
