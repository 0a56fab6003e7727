"""The kit over real sockets: an honest provider fails nothing, in plaintext and inside mutual TLS."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigfleet.aio.identity import Identity
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.serve import served
from bigfleet.provider.conformance.reference.values import ReferenceOptions
from bigfleet.provider.conformance.report import BehaviourStatus, ConformanceReport, RunVerdict
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import RunSettings, Timings
from bigfleet.provider.conformance.system import system_settings
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsStore
from tests.support.certificates import Authority

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

# Shorter windows, the same checks: what the windows are for is tried in virtual time.
QUICK = Timings(
    window_s=0.05,
    error_window_s=0.05,
    fuzz_window_s=0.02,
    cursor_window_s=0.1,
    observe_s=0.1,
    transition_timeout_s=0.6,
    soak_s=0.5,
)
BAD = (BehaviourStatus.FAILED, BehaviourStatus.NO_MACHINE)


def store(directory: Path) -> TlsStore:
    authority = Authority(directory / "pki", datetime.now(UTC))
    return TlsStore(authority.issue(Identity.shard("conformance")), pytest.fail)


async def certify(
    settings: RunSettings, tls: TlsStore | None = None, latency_s: float = 0.0
) -> ConformanceReport:
    model = ReferenceProvider(settings.clock, ReferenceOptions(slots=64, latency_s=latency_s))
    async with served(GrpcNet(tls), model) as target:
        return await run(target, settings)


async def test_an_honest_provider_is_certified_in_plaintext() -> None:
    report = await certify(system_settings(timings=QUICK))
    assert report.ids(*BAD) == ()
    assert (report.verdict, report.leftovers) == (RunVerdict.CERTIFIED, ())


async def test_an_honest_provider_fails_nothing_inside_mutual_tls(tmp_path: Path) -> None:
    tls = store(tmp_path)
    chosen = (
        "A0[1-5]",
        "B303",
        "B401",
        "B501",
        "B708",
        "B903",
        "X12",
    )  # the fake passes all of it inside mutual TLS
    report = await certify(system_settings(tls=tls, timings=QUICK, seed=2, only=chosen), tls, 0.01)
    assert report.ids(*BAD) == ()


@pytest.mark.rule("providers#conformance-determinism")
async def test_same_seed_same_calls_over_real_sockets() -> None:
    settings = system_settings(timings=QUICK, only=("A0[1-5]", "A17", "B120[14]"), run_id="same")
    once, twice = await certify(settings), await certify(settings)
    assert [result.sequence for result in once.results] == [result.sequence for result in twice.results]
    assert once.ids(*BAD) == ()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
async def test_an_honest_provider_is_certified_over_twenty_seeds(tmp_path: Path, seed: int) -> None:
    tls = store(tmp_path) if seed % 2 else None
    report = await certify(system_settings(tls=tls, seed=seed), tls, latency_s=0.01 * (seed % 3))
    assert report.verdict is RunVerdict.CERTIFIED


async def test_two_runs_in_a_row_do_not_meet_each_others_marks() -> None:
    first = system_settings(timings=QUICK, only=("A17", "B303", "B1204", "X02"))
    model = ReferenceProvider(first.clock, ReferenceOptions(slots=4))
    async with served(first.net, model) as target:
        for settings in (first, replace(first, run_id="another")):
            assert (await run(target, settings)).ids(*BAD) == ()
