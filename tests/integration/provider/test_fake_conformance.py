"""The conformance kit certifies the fake and the fault provider over real sockets.

The ordinary run shortens the kit's waiting windows; `make test-long` keeps the contract's own, and adds the profiles that
start processes.
Rules: `providers#certified`, `providers#self-check`.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import Identity
from bigfleet.provider.conformance.report import BehaviourStatus, ConformanceReport, RunVerdict
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSizes, Timings
from bigfleet.provider.conformance.system import CommandLauncher, system_settings
from bigfleet.provider.fake.inventory import Pool, slots_of
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.fake.specs import parse_latencies
from bigfleet.provider.fault.backend import FaultBackend, FaultOptions
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.store import Volatile
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsStore
from tests.support.certificates import Authority
from tests.support.fake_provider import pool, spot

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
LOOPBACK = "127.0.0.1:0"
SIZE = {"cpu": "2", "memory": "8Gi"}
POOLS = (
    pool("od", 128, resources=SIZE, allocatable={"cpu": "1900m", "memory": "7Gi"}),
    spot("spot", 128, resources=SIZE, allocatable={"cpu": "1900m", "memory": "7Gi"}),
)
PROFILES = (ConformanceProfile.CORE, ConformanceProfile.CLOUD, ConformanceProfile.SPOT)
QUICK = Timings(
    baseline_poll_s=0.01,
    poll_s=0.01,
    window_s=0.05,
    error_window_s=0.05,
    fuzz_window_s=0.02,
    observe_s=0.1,
    cursor_window_s=0.2,
    storm_s=0.5,
)
FAULT_TIMEOUT_S = 0.5


class FakeSubstrate:
    """Lets the kit reach below the fake; see `bigfleet.provider.conformance.settings.Substrate`."""

    def __init__(self, fake: FakeProvider) -> None:
        self._fake = fake

    async def reprice(self, machine_id: str) -> None:
        assert await self._fake.price(Selector(id=machine_id), price=0.77) == 1

    async def remove(self, machine_id: str) -> None:
        assert await self._fake.remove(machine_id)


@asynccontextmanager
async def served(
    options: FakeOptions | None = None, pools: tuple[Pool, ...] = POOLS, tls: TlsStore | None = None
) -> AsyncIterator[tuple[str, FakeProvider]]:
    # Inside TLS the kit has one certificate, acts as many shards, and calls without a token too.
    admitting = replace(options or FakeOptions(), require_shard_san=False, require_fencing=False)
    async with FakeProvider(admitting, lambda: slots_of(pools), net=GrpcNet(tls)) as fake:
        server = await fake.listen(LOOPBACK)
        yield f"127.0.0.1:{server.port}", fake


async def certify(
    target: str, fake: FakeProvider, **chosen: Any
) -> ConformanceReport:  # Any: fields of the kit's settings
    usual = {"profiles": PROFILES, "timings": QUICK, "substrate": FakeSubstrate(fake)}
    return await run(target, system_settings(**{**usual, **chosen}))


def assert_certified(report: ConformanceReport) -> None:
    failures = [f"{result.behaviour.id}: {result.message}" for result in report.results if result.calls]
    assert (report.verdict, failures) == (RunVerdict.CERTIFIED, [])
    assert report.ids(BehaviourStatus.FAILED) == ()


@pytest.mark.rule("providers#certified")
@pytest.mark.asyncio
async def test_the_fake_is_certified_for_core_cloud_and_spot() -> None:
    async with served() as (target, fake):
        report = await certify(target, fake)
    assert_certified(report)
    assert set(report.ids(BehaviourStatus.SKIPPED, BehaviourStatus.NOT_RUN, BehaviourStatus.NO_MACHINE)) <= {
        "X07",
        "X08",
    }  # need a process
    assert [left for left in report.leftovers if "removed" not in left] == []


@pytest.mark.asyncio
async def test_the_synchronous_fake_is_certified_too() -> None:
    async with served(FakeOptions(sync=True)) as (target, fake):
        report = await certify(target, fake, only=("A0*", "B10?", "B2*"))
    assert report.ids(BehaviourStatus.FAILED) == ()
    assert len(report.ids(BehaviourStatus.PASSED)) > 25


@pytest.mark.rule("providers#self-check")
@pytest.mark.asyncio
async def test_the_fake_is_certified_inside_mutual_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", datetime.now(UTC))
    server, caller = (
        TlsStore(authority.issue(Identity.shard(name)), pytest.fail) for name in ("provider", "caller")
    )
    async with served(tls=server) as (target, fake):
        report = await certify(target, fake, tls=caller)
    assert_certified(report)
    assert set(report.ids(BehaviourStatus.SKIPPED, BehaviourStatus.NOT_RUN, BehaviourStatus.NO_MACHINE)) <= {
        "X07",
        "X08",
    }


@pytest.mark.rule("providers#certified")
@pytest.mark.asyncio
async def test_the_fault_provider_is_certified_for_fault() -> None:
    options = FaultOptions(transition_timeout_s=FAULT_TIMEOUT_S)
    kit = ProviderKit(
        FaultBackend(options, SystemClock()), store=Volatile(), name="fault", limits=options.limits()
    )
    await kit.start()
    try:
        server = await kit.listen(LOOPBACK)
        target = f"127.0.0.1:{server.port}"
        timings = Timings(transition_timeout_s=FAULT_TIMEOUT_S, window_s=0.05)
        settings = system_settings(
            profiles=(ConformanceProfile.FAULT,), timings=timings, fault_target=target, only=("B7*",)
        )
        report = await run(target, settings)
    finally:
        await kit.stop(0)
    assert report.ids(BehaviourStatus.PASSED) == tuple(f"B70{number}" for number in range(1, 9))


LIES = {
    "accept-stale": "A18",
    "fence-all": "A17",
    "fp-for-position": "A13",
    "new-id-each-time": "A02",
    "forget-metadata": "A23",
    "alien-state": "A10",
    "nan-price": "A11",
    "bad-probability": "B802",
    "bound-without-cluster": "B106",
    "dup-list": "B901",
    "idle-bump": "B908",
    "implicit-create": "B207",
    "leak-blob": "X03",
}


@pytest.mark.asyncio
@pytest.mark.parametrize(("lie", "behaviour"), LIES.items())
async def test_a_lie_is_noticed(lie: str, behaviour: str) -> None:
    share = 1.0 if lie == "dup-list" else None
    async with served(pools=(pool("od", 32, resources=SIZE),)) as (target, fake):
        fake.lie(lie, share)
        settings = {"settle_s": 1.0, "clean_up_s": 0.3}
        timings = Timings(**{**{name: getattr(QUICK, name) for name in QUICK.__slots__}, **settings})
        report = await certify(target, fake, only=(behaviour,), timings=timings, extra=True, substrate=None)
    assert report.ids(BehaviourStatus.FAILED) == (behaviour,)


def command(program: str, *flags: str) -> str:
    return " ".join(
        [sys.executable, str(ROOT / "cmd" / program), "--addr 127.0.0.1:{port}", "--metrics-addr 0", *flags]
    )


def launcher(directory: Path, program: str, *flags: str) -> CommandLauncher:
    directory.mkdir(exist_ok=True)
    return CommandLauncher(command(program, *flags), GrpcNet(), SystemClock(), directory)


def fake_launcher(directory: Path) -> CommandLauncher:
    seeded = ("--catalog realistic --speculative {seed_count}", "--state {state}")
    return launcher(directory, "bigfleet-fake-provider", *seeded)


def fault_launcher(directory: Path) -> CommandLauncher:
    flags = ("--seed-count {seed_count}", "--state {state}", "--transition-timeout 30s")
    return launcher(directory, "bigfleet-fault-provider", *flags)


@pytest.mark.rule("providers#certified")
@pytest.mark.long
@pytest.mark.asyncio
async def test_the_programs_are_certified_for_durable(tmp_path: Path) -> None:
    settings = system_settings(
        profiles=(ConformanceProfile.DURABLE,),
        only=("B10*", "X07", "X08"),
        extra=True,
        launcher=fake_launcher(tmp_path / "fake"),
        fault_launcher=fault_launcher(tmp_path / "fault"),
    )
    report = await run("", settings)
    assert report.ids(BehaviourStatus.FAILED, BehaviourStatus.NOT_RUN, BehaviourStatus.NO_MACHINE) == ()
    assert len(report.ids(BehaviourStatus.PASSED)) >= 9


@pytest.mark.rule("providers#certified")
@pytest.mark.long
@pytest.mark.asyncio
async def test_the_program_is_certified_for_scale(tmp_path: Path) -> None:
    settings = system_settings(
        profiles=(ConformanceProfile.SCALE,),
        only=("B11*",),
        sizes=RunSizes(scale_seed=20_000),
        launcher=fake_launcher(tmp_path / "fake"),
    )
    report = await run("", settings)
    # B1106 and B1107 are bounds on waiting times: on a machine that does other things too they tell of those.
    assert set(report.ids(BehaviourStatus.FAILED, BehaviourStatus.NOT_RUN, BehaviourStatus.NO_MACHINE)) <= {
        "B1106",
        "B1107",
    }
    for name in ("B1106", "B1107"):
        print(
            f"{name}: {report.result(name).status} {report.result(name).message} {report.result(name).notes}"
        )


@pytest.mark.rule("providers#self-check")
@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.parametrize("secured", [pytest.param(False, id="plaintext"), pytest.param(True, id="mTLS")])
@pytest.mark.parametrize("seed", range(1, 21))
async def test_no_seed_finds_a_fault_in_the_honest_fake(seed: int, secured: bool, tmp_path: Path) -> None:
    """With waits of its own every third seed, and with the contract's own windows every fourth."""
    authority = Authority(tmp_path / "ca", datetime.now(UTC))
    stores = [TlsStore(authority.issue(Identity.shard(name)), pytest.fail) for name in ("provider", "caller")]
    waits = [
        "create=uniform:0-50ms",
        "configure=uniform:0-50ms",
        "ready=uniform:0-50ms",
        "drain=uniform:0-50ms",
    ]
    options = FakeOptions(seed=seed, latencies=parse_latencies(waits) if seed % 3 == 0 else {})
    timings = QUICK if seed % 4 else Timings()
    async with served(options, tls=stores[0] if secured else None) as (target, fake):
        report = await certify(target, fake, seed=seed, timings=timings, tls=stores[1] if secured else None)
    assert_certified(report)
