"""Kills, pauses and cuts of three real processes under load from separate client processes.

Rules: `coordinator#leader-killed`, `coordinator#replicas-killed`, `coordinator#leader-cut-off`,
`coordinator#link-cut-idle`, `coordinator#link-cut-writing`, `coordinator#leader-paused`,
`coordinator#linearizable-reads`. Here a part of the rounds; all of them run by `make test-long`, with their output kept
under docs/evidence (`coordinator#throughput`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import quantiles

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.coordinator.offline import extract
from tests.support.coordinator.fault_rounds import (
    FaultReport,
    acked,
    calls_of,
    clients,
    inject_fault,
    kill_rounds,
    leader_kills,
    register,
    writers,
)
from tests.support.coordinator.processes import PATIENCE_S, ProcessCluster
from tests.support.domain_checker import check_history

pytestmark = pytest.mark.integration

EVIDENCE = "coordinator-faults.jsonl"
Keep = Callable[[str, Mapping[str, object]], None]


async def stopped(cluster: ProcessCluster) -> None:
    """End everybody once all of them hold the same log."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            # The leader first: its answer follows a barrier of its own, an entry that the others then have too.
            leader = await cluster.formed()
            order = sorted(range(3), key=lambda ordinal: ordinal != leader)
            facts = [await cluster.facts(ordinal) for ordinal in order]
            if len({None if fact is None else (fact.last_term, fact.last_index) for fact in facts}) == 1:
                break
    await cluster.kill(0, 1, 2)


def tables_of(cluster: ProcessCluster) -> list[bytes]:
    """Return what each stopped replica holds, as the state of an archive."""
    return [extract(SystemDisk(), member.data_dir, 0).state for member in cluster.members]


async def durability(directory: Path, rounds: int, seed: int, pace: float = 1.0) -> FaultReport:
    report = FaultReport()
    async with ProcessCluster(directory, proxied=False) as cluster:
        cluster.start_all()
        await cluster.formed()
        await register(cluster)
        async with writers(cluster, count=2, callers=4) as files:
            await kill_rounds(cluster, SeededRng(seed).stream("kills"), rounds, files, report, pace=pace)
        await stopped(cluster)
        states = tables_of(cluster)
        assert states[0] == states[1] == states[2], "the replicas differ"
        assert not [value for value in acked(files) if f'"{value}"'.encode() not in states[0]]
    return report


@pytest.mark.rule("coordinator#replicas-killed")
def test_kills_of_one_two_and_all_lose_nothing(tmp_path: Path) -> None:
    report = asyncio.run(durability(tmp_path, 20, seed=1, pace=0.3))
    assert report.rounds == 20
    assert report.acked > 0


@pytest.mark.rule("coordinator#replicas-killed")
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_two_hundred_rounds_in_ten_clusters(tmp_path: Path, evidence: Keep, seed: int) -> None:
    report = asyncio.run(durability(tmp_path, 20, seed))
    evidence(
        EVIDENCE,
        {
            "seed": seed,
            "test": "kill -9 of one, two or all of three replicas under writes",
            "rounds": report.rounds,
            "kills": report.kills,
            "acknowledged": report.acked,
            "lost": 0,
            "replicas_differ": False,
        },
    )
    assert report.rounds == 20


async def failovers(directory: Path, kills: int) -> FaultReport:
    report = FaultReport()
    async with ProcessCluster(directory, proxied=False) as cluster:
        cluster.start_all()
        await cluster.formed()
        await register(cluster)
        async with writers(cluster, count=1, callers=4) as files:
            await leader_kills(cluster, kills, files, report)
    return report


@pytest.mark.rule("coordinator#leader-killed")
def test_the_next_leader_goes_on_and_nothing_is_lost(tmp_path: Path) -> None:
    assert asyncio.run(failovers(tmp_path, 2)).kills == 2


@pytest.mark.rule("coordinator#leader-killed")
@pytest.mark.long
def test_fifty_leader_kills(tmp_path: Path, evidence: Keep) -> None:
    report = asyncio.run(failovers(tmp_path, 50))
    times = sorted(report.failovers_s)
    evidence(
        EVIDENCE,
        {
            "test": "kill -9 of the leader until the next acknowledged write, in seconds",
            "kills": report.kills,
            "acknowledged": report.acked,
            "p50": round(times[len(times) // 2], 3),
            "p99": round(quantiles(times, n=100)[98], 3),
            "worst": round(times[-1], 3),
        },
    )
    assert report.kills == 50


async def history(directory: Path, calls: int, seed: int) -> tuple[int, Counter[str], list[str]]:
    stream = SeededRng(seed).stream("trouble")
    faults: Counter[str] = Counter()
    async with ProcessCluster(directory) as cluster:
        cluster.start_all()
        await cluster.formed()
        await register(cluster)
        files = [directory / f"history-{number}" for number in range(2)]
        addresses = [member.grpc_address for member in cluster.members]
        arguments = [[str(path), str(seed + n), "20", *addresses] for n, path in enumerate(files)]
        async with clients("history_client", arguments) as all_there:
            while not all(path.exists() for path in files) or len(calls_of(files)) < calls:
                assert all_there(), "a client ended by itself"
                faults[await inject_fault(cluster, stream)] += 1
        recorded = calls_of(files)
    bad = [domain for domain, verdict in check_history(recorded).items() if not verdict.ok]
    return len(recorded), faults, bad


@pytest.mark.rule("coordinator#linearizable-reads", "coordinator#link-cut-writing")
def test_a_history_with_kills_pauses_and_cuts_is_linearizable(tmp_path: Path) -> None:
    count, faults, bad = asyncio.run(history(tmp_path, 1000, seed=11))
    assert count >= 1000
    assert faults
    assert bad == []


@pytest.mark.rule("coordinator#linearizable-reads")
@pytest.mark.long
def test_a_history_of_ten_thousand_calls_is_linearizable(tmp_path: Path, evidence: Keep) -> None:
    count, faults, bad = asyncio.run(history(tmp_path, 10_000, seed=12))
    evidence(
        EVIDENCE,
        {
            "test": "recorded calls of two client processes with four callers each, checked for linearizability",
            "calls": count,
            "faults": dict(sorted(faults.items())),
            "domains_not_linearizable": bad,
        },
    )
    assert count >= 10_000
    assert bad == []
