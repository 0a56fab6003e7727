"""The conformance kit certifies the hook provider, with hooks as real processes over a real socket (`providers#certified`).

Of the power-managed mode the ordinary run has a part, as each of some thousand hooks is a process; the verdicts are long.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import Identity
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.obs.logs import build_logger
from bigfleet.provider.conformance.report import BehaviourStatus, RunVerdict
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import ConformanceProfile, Timings
from bigfleet.provider.conformance.system import system_settings
from bigfleet.provider.hook.processes import SystemProcesses
from bigfleet.provider.hook.provider import HookProvider
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.limits import Limits
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsStore
from tests.support.certificates import Authority

pytestmark = pytest.mark.integration

# Windows in which nothing may happen are shorter than the contract's; what is looked for in them is the same.
QUICK = Timings(
    poll_s=0.01,
    baseline_poll_s=0.02,
    window_s=0.05,
    error_window_s=0.05,
    fuzz_window_s=0.02,
    cursor_window_s=0.1,
    observe_s=0.05,
)
HOOK = '#!/bin/sh\ncase $1 in configure) test -r "$BF_BLOB_FILE" || exit 78 ;; esac\n'
MACHINES = 96
POWER_MANAGED = ("create", "configure", "drain", "delete")


def write_inventory(folder: Path, kinds: tuple[str, ...], capacity_type: str) -> Path:
    hook = folder / "hook"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    hooks = ", ".join(f"{kind}: ./hook" for kind in kinds)
    lines = [
        f"  - {{id: r{number:03}, ref: 10.0.0.{number}, instance_type: gen11, zone: hall-7, capacity_type: {capacity_type}, "
        'resources: {cpu: "96", memory: 384Gi}, allocatable: {cpu: "94", memory: 370Gi}}\n'
        for number in range(MACHINES)
    ]
    path = folder / "inventory.yaml"
    path.write_text(f"name: hall-7\nhooks: {{{hooks}}}\nmachines:\n{''.join(lines)}")
    return path


@asynccontextmanager
async def served(folder: Path, inventory: Path, tls: TlsStore | None) -> AsyncIterator[str]:
    clock = SystemClock()
    source = InventorySource(SystemDisk(), [inventory], {})
    source.load()
    provider = HookProvider(
        source,
        SystemProcesses(clock, kill_after_s=1),
        environ={"PATH": "/usr/bin:/bin"},
        disk=SystemDisk(),
        clock=clock,
        log=build_logger(level="warning", form="json", stream=StringIO(), now=lambda: datetime.now(UTC)),
        blob_directory=str(folder / "blobs"),
        state_directory=str(folder / "state"),
        store=Journal(str(folder / "state")),
        limits=Limits(workers=16, refresh=0),
        # The kit has one certificate and acts as many shards, sometimes without a token.
        require_shard_san=False,
        require_fencing=False,
    )
    await provider.start()
    try:
        server = await provider.kit.listen("127.0.0.1:0", net=GrpcNet(tls))
        yield f"127.0.0.1:{server.port}"
    finally:
        await provider.stop(0)


def certify(
    folder: Path,
    inventory: Path,
    profiles: tuple[ConformanceProfile, ...],
    *,
    secured: bool,
    only: tuple[str, ...] = (),
) -> None:
    (folder / "state").mkdir()
    server_tls = client_tls = None
    if secured:
        authority = Authority(folder / "pki", datetime.now(UTC))
        server_tls = TlsStore(authority.issue(Identity.shard("provider")), pytest.fail)
        client_tls = TlsStore(authority.issue(Identity.shard("shard-0")), pytest.fail)

    async def scenario() -> None:
        async with served(folder, inventory, server_tls) as target:
            settings = system_settings(tls=client_tls, profiles=profiles, only=only, timings=QUICK)
            report = await run(target, settings)
        failed = [
            f"{result.behaviour.id} {result.status}: {result.message}\n" + "\n".join(map(str, result.calls))
            for result in report.results
            if result.status in (BehaviourStatus.FAILED, BehaviourStatus.NO_MACHINE)
        ]
        assert failed == []
        # A run that leaves something out is never complete.
        assert report.verdict is (RunVerdict.INCOMPLETE if only else RunVerdict.CERTIFIED), report.reasons
        assert not report.leftovers
        assert not list((folder / "blobs").iterdir())

    asyncio.run(scenario())


@pytest.mark.rule("providers#certified")
@pytest.mark.parametrize(
    "secured", [pytest.param(False, marks=pytest.mark.long, id="plaintext"), pytest.param(True, id="mTLS")]
)
def test_the_free_pool_mode_is_certified_as_bare_metal(tmp_path: Path, secured: bool) -> None:
    inventory = write_inventory(tmp_path, ("configure", "drain"), "bare-metal")
    certify(tmp_path, inventory, (ConformanceProfile.BARE_METAL,), secured=secured)


def test_the_power_managed_mode_keeps_life_cycle_fence_and_listings(tmp_path: Path) -> None:
    inventory = write_inventory(tmp_path, POWER_MANAGED, "on-demand")
    part = ("A*", "B10[1-9]", "B3*", "B8*", "B9*")
    certify(
        tmp_path, inventory, (ConformanceProfile.CORE, ConformanceProfile.CLOUD), secured=False, only=part
    )


@pytest.mark.rule("providers#certified")
@pytest.mark.long
@pytest.mark.parametrize("secured", [pytest.param(False, id="plaintext"), pytest.param(True, id="mTLS")])
def test_the_power_managed_mode_is_certified_for_core_and_cloud(tmp_path: Path, secured: bool) -> None:
    inventory = write_inventory(tmp_path, POWER_MANAGED, "on-demand")
    certify(tmp_path, inventory, (ConformanceProfile.CORE, ConformanceProfile.CLOUD), secured=secured)
