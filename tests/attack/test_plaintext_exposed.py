"""A port that is open to others without TLS is told by the process itself: metric, probe and status (A21).

Rules: `packaging#plaintext-exposed`.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.transport.address import PLAINTEXT
from tests.support.certificates import Authority
from tests.support.program import AwaitedProgram, outcome, running

pytestmark = [pytest.mark.integration, pytest.mark.rule("packaging#plaintext-exposed")]
SERIES = "bigfleet_plaintext_exposed"
FREE = ("--metrics-addr=127.0.0.1:0", "--log-format=json")
POOLS = "pools: [{name: m, count: 1, instance_type: t, zones: [a], resources: {cpu: 4}}]\n"
INVENTORY = (
    "hooks: {configure: ./hook, drain: ./hook}\n"
    "machines: [{id: m, ref: h, instance_type: g, zone: z, capacity_type: bare-metal, resources: {cpu: 4}}]\n"
)
EVERYWHERE, LOOPBACK = "--listen=:0", "--listen=127.0.0.1:0"


async def exposed(program: AwaitedProgram) -> float:
    _, page = await program.get("/metrics")
    (line,) = (line for line in page.splitlines() if line.startswith(f"{SERIES} "))
    return float(line.removeprefix(f"{SERIES} "))


def tls(tmp_path: Path, identity: Identity) -> tuple[str, ...]:
    files = Authority(tmp_path / "pki", datetime.now(UTC)).issue(identity, "it")
    return (f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}")


def test_a_shard_in_plaintext_beyond_loopback_says_so_in_metric_probe_and_status(tmp_path: Path) -> None:
    async def story() -> None:
        data = f"--data-dir={tmp_path / 'data'}"
        async with running("bigfleet", "shard", EVERYWHERE, data, *FREE) as shard:
            assert await exposed(shard) == 1
            assert PLAINTEXT in (await shard.get("/readyz"))[1]
            _, said = await outcome("bigfleet", "status", f"--shard=127.0.0.1:{shard.ports['port']}")
            assert f"note: {PLAINTEXT}" in said

    asyncio.run(story())


def test_a_shard_on_loopback_or_with_tls_has_nothing_to_say(tmp_path: Path) -> None:
    async def story() -> None:
        secured = (EVERYWHERE, *tls(tmp_path, Identity.shard("shard-0")))
        for number, flags in enumerate(((LOOPBACK,), secured)):
            data = f"--data-dir={tmp_path / str(number)}"
            async with running("bigfleet", "shard", *flags, data, *FREE) as shard:
                assert await exposed(shard) == 0
                assert PLAINTEXT not in (await shard.get("/readyz"))[1]

    asyncio.run(story())


@pytest.mark.parametrize("program", ["bigfleet-fake-provider", "bigfleet-hook-provider"])
def test_a_provider_says_so_too(program: str, tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("#!/bin/sh\n")
    (tmp_path / "hook").chmod(0o700)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(INVENTORY if "hook" in program else POOLS)
    secured = tls(tmp_path, Identity.shard("provider"))

    async def story() -> None:
        for number, (flags, wanted) in enumerate(
            ((("--addr=:0",), 1), (("--addr=127.0.0.1:0",), 0), (("--addr=:0", *secured), 0))
        ):
            own = (f"--inventory={inventory}", f"--state={tmp_path / str(number)}")
            async with running(program, *flags, *own, *FREE) as provider:
                assert await exposed(provider) == wanted

    asyncio.run(story())


def test_a_coordinator_says_so_too(tmp_path: Path) -> None:
    async def story() -> None:
        for number, (flags, wanted) in enumerate(
            (
                ((EVERYWHERE,), 1),
                ((LOOPBACK,), 0),
                ((EVERYWHERE, *tls(tmp_path, ADMIN)), 0),
            )
        ):
            own = (f"--data-dir={tmp_path / str(number)}", "--bootstrap", "--raft-bind=127.0.0.1:0")
            async with running("bigfleet", "coordinator", "--id=c-0", *flags, *own, *FREE) as coordinator:
                assert await exposed(coordinator) == wanted

    asyncio.run(story())
