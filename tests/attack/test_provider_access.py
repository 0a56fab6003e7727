"""A provider under attack: other parts' certificates, forged epochs, and the way back after one.

The identities are in `tests/attack/test_identity_matrix.py`; here is what they would do.
Rules: `providers#shard-san`, `providers#epoch-step`, `providers#reset-marks`, `providers#certify-under-tls`.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.aio.net import Code, RpcError
from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.conformance.errors import NotAdmittedError
from bigfleet.provider.conformance.report import BehaviourStatus
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.system import system_settings
from bigfleet.provider.errors import FencedError, ProviderError
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsFiles, TlsStore
from tests.integration.provider.programs import ProviderProgram, running
from tests.support.certificates import Authority
from tests.support.fake_provider import code_of

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

SHARD, FORGED = "shard-0", 2**62
POOLS = (
    "pools: [{name: m, count: 32, instance_type: t, zones: [a], resources: {cpu: 4}, price_per_hour: 1.0}]\n"
)


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    pools = tmp_path / "pools.yaml"
    pools.write_text(POOLS)
    return ("--inventory", str(pools), "--state", str(tmp_path / "state"), "--control-addr", "127.0.0.1:0")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki", datetime.now(UTC))


def tls_flags(files: TlsFiles) -> tuple[str, ...]:
    return ("--tls-cert", str(files.cert), "--tls-key", str(files.key), "--tls-ca", str(files.ca))


def secured(files: TlsFiles) -> GrpcNet:
    return GrpcNet(TlsStore(files, pytest.fail))


@asynccontextmanager
async def caller(provider: ProviderProgram, net: GrpcNet | None = None) -> AsyncIterator[RawProviderClient]:
    channel = (net or GrpcNet()).dial(f"127.0.0.1:{provider.ports['port']}")
    yield RawProviderClient(channel)
    await channel.close()


@asynccontextmanager
async def shard(provider: ProviderProgram, epoch: int) -> AsyncIterator[ProviderClient]:
    """A process of our shard, which announces its epoch."""
    channel = GrpcNet().dial(f"127.0.0.1:{provider.ports['port']}")
    client = ProviderClient(channel, shard_id=SHARD, epoch=epoch)
    yield client
    await client.close()


async def states(provider: ProviderProgram) -> set[str]:
    _, machines = await provider.ask("GET", "/machines")
    return {machine["state"] for machine in machines}


@pytest.mark.rule("providers#shard-san")
@pytest.mark.parametrize(
    "identity",
    [
        pytest.param(Identity.cluster("tenant"), id="a tenant"),
        pytest.param(READONLY, id="a reader"),
        pytest.param(ADMIN, id="an administrator"),
        pytest.param(Identity.shard("shard-1"), id="another shard"),
    ],
)
async def test_no_other_part_binds_or_blocks_a_machine(
    flags: tuple[str, ...], authority: Authority, identity: Identity
) -> None:
    own = tls_flags(authority.issue(Identity.shard("provider")))
    async with running("bigfleet-fake-provider", *flags, *own) as provider:
        forged = FencingToken(SHARD, FORGED, 1)
        async with caller(provider, secured(authority.issue(identity, "attacker"))) as attacker:
            codes = [
                await code_of(attacker.create("m-0", forged)),
                await code_of(attacker.configure("m-0", "tenant", forged, blob=b"join me")),
                await code_of(attacker.drain("m-0", forged)),
                await code_of(attacker.delete("m-0", forged)),
            ]
            assert codes == [Code.PERMISSION_DENIED] * 4
        assert await states(provider) == {"Speculative"}
        refused_total = 'bigfleet_provider_refused_total{reason="identity"}'
        assert await provider.metric(refused_total) == 4
        async with caller(provider, secured(authority.issue(Identity.shard(SHARD)))) as rightful:
            await rightful.create("m-0", FencingToken(SHARD, 1, 1))


@pytest.mark.rule("providers#empty-token")
async def test_each_opt_out_is_logged_with_what_it_permits(
    flags: tuple[str, ...], authority: Authority
) -> None:
    own = tls_flags(authority.issue(Identity.shard("provider")))
    off = ("--require-shard-san=false", "--require-fencing=false")
    async with running("bigfleet-fake-provider", *flags, *own, *off) as provider:
        said = [line["why"].partition(":")[0] for line in provider.lines("requirement_off")]
        assert said == list(off)
        async with caller(provider, secured(authority.issue(READONLY))) as reader:
            await reader.create("m-0")


@pytest.mark.rule("providers#epoch-step")
async def test_a_forged_epoch_does_not_keep_the_shard_from_its_machines(flags: tuple[str, ...]) -> None:
    async with running("bigfleet-fake-provider", *flags) as provider, shard(provider, 3) as right:
        await right.list()
        async with shard(provider, FORGED) as announcing, caller(provider) as silent:
            await announcing.list()
            with pytest.raises(ProviderError, match=r"INVALID_ARGUMENT: .*shard_epoch: found"):
                await announcing.create("m-0")
            with pytest.raises(RpcError, match="shard_epoch: found"):
                await silent.create("m-0", FencingToken(SHARD, FORGED, 1))
        assert await provider.metric('bigfleet_provider_refused_total{reason="epoch"}') == 3
        await right.create("m-0")


@pytest.mark.rule("providers#reset-marks")
async def test_a_person_resets_the_marks_of_a_running_and_of_a_stopped_provider(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    async with running("bigfleet-fake-provider", *flags) as provider:
        # Before the shard announced anything, no epoch is bounded: the contract accepts any number at first contact.
        async with caller(provider) as attacker:
            for machine_id in ("m-0", "m-1"):
                await attacker.create(machine_id, FencingToken(SHARD, FORGED, 1))
        async with shard(provider, 3) as right:
            with pytest.raises(FencedError):
                await right.create("m-0")
            status, answer = await provider.ask("POST", "/reset-marks", {"shard_id": SHARD, "epoch": 3})
            assert (status, answer) == (200, {"lowered": 2})
            await right.create("m-0")
            (asked, done) = provider.lines("audit")
            assert (asked["action"], asked["epoch"], done["outcome"]) == ("reset-marks", 3, "done")
        async with caller(provider) as attacker:
            await attacker.create("m-5", FencingToken("shard-9", FORGED, 1))
        code, _, err = await command("--shard", "shard-9", "--epoch", "1", "--state", str(tmp_path / "state"))
        assert (code, "in use" in err or "lock" in err) == (3, True)
        await provider.end(signal.SIGKILL)
    code, out, err = await command("--shard", "shard-9", "--epoch", "1", "--state", str(tmp_path / "state"))
    assert (code, out, err) == (0, "shard-9: 1 mark was above epoch 1, which now passes\n", "")
    lines = [json.loads(line) for line in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
    assert [(line["shard"], line["outcome"]) for line in lines] == [("shard-9", "asked"), ("shard-9", "done")]
    assert all(line["who"].startswith("uid ") for line in lines)
    async with running("bigfleet-fake-provider", *flags) as provider, caller(provider) as again:
        await again.create("m-5", FencingToken("shard-9", 1, 1))
        with pytest.raises(RpcError, match="not newer"):
            await again.create("m-5", FencingToken("shard-9", 0, 1))


async def command(*argv: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime.now(UTC))
    code = await asyncio.to_thread(dispatch, console, ["provider-admin", "reset-marks", *argv])
    return code, out.getvalue(), err.getvalue()


@pytest.mark.rule("providers#certify-under-tls")
async def test_the_conformance_kit_says_what_it_needs_of_a_provider_with_tls(
    flags: tuple[str, ...], authority: Authority
) -> None:
    own = tls_flags(authority.issue(Identity.shard("provider")))
    reader, kit = (
        TlsStore(authority.issue(identity, name), pytest.fail)
        for identity, name in ((READONLY, "reader"), (Identity.shard("conformance"), "kit"))
    )
    async with running("bigfleet-fake-provider", *flags, *own) as provider:
        target = f"127.0.0.1:{provider.ports['port']}"
        with pytest.raises(NotAdmittedError, match="give --tls-cert a certificate of a shard"):
            await run(target, system_settings(tls=reader))
        with pytest.raises(NotAdmittedError, match="--require-shard-san=false and --require-fencing=false"):
            await run(target, system_settings(tls=kit))
        assert await states(provider) == {"Speculative"}
    async with running("bigfleet-fake-provider", *flags, *own, "--require-shard-san=false") as provider:
        target = f"127.0.0.1:{provider.ports['port']}"
        with pytest.raises(NotAdmittedError, match="allowed here is only a call with a fencing token"):
            await run(target, system_settings(tls=kit))
    off = ("--require-shard-san=false", "--require-fencing=false")
    async with running("bigfleet-fake-provider", *flags, *own, *off) as provider:
        target = f"127.0.0.1:{provider.ports['port']}"
        chosen = ("A01", "A19", "B303", "B308", "B1201")
        report = await run(target, system_settings(tls=kit, only=chosen))
        assert report.ids(BehaviourStatus.PASSED) == chosen
