"""One hostile tenant before a shard with 50 honest clusters: what each of its attacks costs the others.

    python -m scaletest.bench.siege [NORMAL_S ATTACK_S AFTER_S [ATTACK...]]

prints one JSON object. Shard, provider, honest operators and tenant are processes of their own under mutual TLS, with the defaults of
their flags, new ones for each attack. First the honest operators are alone, which is what is normal; then the tenant attacks; then it
withdraws what it asked for and leaves. Cycles are judged against those of the same shard before the attack, since machines differ.
Everything runs on one machine, so what the tenant's process needs to make and encrypt its frames is missing for the others.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from bigfleet.aio.identity import READONLY, Identity
from bigfleet.aio.net import Channel
from bigfleet.insight.v1 import insight_pb2
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_reading import LIST_CYCLES
from bigfleet.transport.tls import TlsFiles, TlsStore
from scaletest.bench.histograms import histogram_quantiles
from scaletest.bench.siege_attacks import ATTACKS
from scaletest.bench.siege_fleet import HONEST, ROWS, SHARD, TENANT, honest_name, pools
from tests.support.certificates import Authority
from tests.support.real_fleet import MUTATING, RealFleet, ShardProcess

NORMAL_S, ATTACK_S, AFTER_S = 60.0, 120.0, 90.0
SETTLING_S: Final = 10.0
"""After the start: the first listing, the first decisions, and the hints of all clusters."""
NEAR_MB: Final = 50
PLAIN_CYCLE_S: Final = 0.05
"""A shorter cycle holds up none: the next woken one comes 100 ms after its start at the earliest."""
_STEP_S: Final = 5.0
_ASK_S: Final = 30.0

Figures = dict[str, Any]  # Any: what JSON can say


class Helper:
    """A process of the siege: one line in, one line of JSON out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def running(cls, module: str, *arguments: str) -> AsyncIterator[Self]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"scaletest.bench.{module}", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield cls(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def hear(self) -> Figures:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of the siege ended with {await self._process.wait()}")
        answer: Figures = json.loads(line)
        return answer

    async def ask(self, words: str) -> Figures:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n".encode())
        return await self.hear()


class Besieged:
    """The shard and its provider, and ways to measure them."""

    def __init__(self, fleet: RealFleet, shard: ShardProcess, reader: Channel) -> None:
        self.fleet, self.shard, self._reader = fleet, shard, reader

    async def measured(self, doing: "asyncio.Future[Figures] | asyncio.Task[Figures]") -> Figures:
        """What was seen of the shard while something went on."""
        await self._forget_peak()
        before, cycle = await self.fleet.metrics(self.shard.program), await self._last_cycle()
        logged, calls, began_s = self._log_bytes(), await self._calls(), time.monotonic()
        cpu_s, audited = self._cpu_s(), len(self.shard.audited())
        operators = await doing
        seconds = time.monotonic() - began_s
        after = await self.fleet.metrics(self.shard.program)
        cycles = await self._cycles(cycle)
        return {
            "seconds": round(seconds, 1),
            "load": round(os.getloadavg()[0], 1),
            **operators,
            "cycle_s": _cycle_figures([each.seconds for each in cycles]),
            "cycle_phase_p50_s": _phases(cycles),
            "needs": cycles[-1].needs if cycles else 0,
            "stall_below_s": histogram_quantiles(after, "bigfleet_event_loop_lag_seconds", before)["p99"],
            "cpu_share": round((self._cpu_s() - cpu_s) / seconds, 2),
            "memory_mb": self.memory_mb(),
            "memory_peak_mb": self._status_mb("VmHWM"),
            "log_bytes_per_minute": round((self._log_bytes() - logged) * 60 / seconds),
            "provider_calls": dict(await self._calls() - calls),
            "tenant_actions": dict(
                Counter(
                    record["kind"] for record in self.shard.audited()[audited:] if record["cluster"] == TENANT
                )
            ),
        }

    def memory_mb(self) -> int:
        return self._status_mb("VmRSS")

    def _status_mb(self, field: str) -> int:
        status = Path(f"/proc/{self.shard.program.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) // 1024

    async def _forget_peak(self) -> None:
        """Let the kernel count the peak of memory from now."""
        await asyncio.to_thread(Path(f"/proc/{self.shard.program.pid}/clear_refs").write_text, "5")

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self.shard.program.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _log_bytes(self) -> int:
        return self.shard.program.log.stat().st_size

    async def _calls(self) -> Counter[str]:
        """The provider's calls by kind; the shard's audit log says for whom they were."""
        return Counter(call["rpc"] for call in await self.fleet.calls(*MUTATING))

    async def _last_cycle(self) -> int:
        (last,) = await self._cycles(0, limit=1)
        return last.cycle.number

    async def _cycles(self, after: int, limit: int = 0) -> list[insight_pb2.ListCyclesResponse]:
        request = insight_pb2.ListCyclesRequest(after=after, limit=limit)
        found = []
        async with self._reader.server_stream(LIST_CYCLES, request, timeout_s=_ASK_S) as frames:
            while (frame := await frames.receive()) is not None:
                found.append(frame)
        return found


def _cycle_figures(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    found = {
        name: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 4)
        for name, share in shares
        if ordered
    }
    return {"count": len(ordered), **found}


def _phases(cycles: list[insight_pb2.ListCyclesResponse]) -> dict[str, float]:
    names = sorted({name for each in cycles for name in each.phase_seconds})
    return {
        name: round(sorted(each.phase_seconds[name] for each in cycles)[len(cycles) // 2], 4)
        for name in names
    }


@asynccontextmanager
async def besieged() -> AsyncIterator[tuple[Besieged, Path]]:
    """A provider, a shard and certificates for all who dial it."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority = Authority(directory / "pki", datetime.now(UTC))
        reader = GrpcNet(TlsStore(authority.issue(READONLY), lambda _problem: None))
        for name in (*map(honest_name, range(HONEST)), TENANT):
            authority.issue(Identity.cluster(name), name)
        provider = _tls_flags(authority.issue_uris("provider", []))
        fleet = await stack.enter_async_context(RealFleet(directory, pools(), *provider))
        await fleet.start_provider()
        shard = await fleet.start_shard(*_tls_flags(authority.issue(Identity.shard(SHARD))))
        channel = reader.dial(shard.address)
        stack.push_async_callback(channel.close)
        yield Besieged(fleet, shard, channel), directory / "pki"


def _tls_flags(files: TlsFiles) -> tuple[str, ...]:
    return (f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}")


async def one_attack(kind: str, normal_s: float, attack_s: float, after_s: float) -> Figures:
    """What was normal, what the attack changed, and what was left of it."""
    async with AsyncExitStack() as stack:
        siege, pki = await stack.enter_async_context(besieged())
        target = siege.shard.address
        operators = await stack.enter_async_context(Helper.running("siege_operators", target, str(pki)))
        tenant = await stack.enter_async_context(
            Helper.running("siege_tenant", target, str(pki / TENANT), kind)
        )
        await operators.hear()
        await tenant.hear()
        await operators.ask(f"run {SETTLING_S}")
        normal = await siege.measured(asyncio.ensure_future(operators.ask(f"run {normal_s}")))
        attacking = asyncio.ensure_future(tenant.ask(f"attack {attack_s}"))
        attack = await siege.measured(asyncio.ensure_future(operators.ask(f"run {attack_s}")))
        attack["tenant"] = await attacking
        leaving = asyncio.ensure_future(tenant.ask("leave"))
        began_s = time.monotonic()
        after = await siege.measured(asyncio.ensure_future(_back(siege, operators, normal, leaving, after_s)))
        after["seconds_to_memory"] = round(time.monotonic() - began_s, 1)
        return {"normal": normal, "attack": attack, "after": after, **_ratios(normal, attack, after)}


async def _back(
    siege: Besieged, operators: Helper, normal: Figures, leaving: "asyncio.Future[Figures]", after_s: float
) -> Figures:
    """Wait until the tenant is gone and the memory is back, at most for so long."""
    began_s, left_s = time.monotonic(), None
    while True:
        seen = await operators.ask(f"run {_STEP_S}")
        gone_s = time.monotonic() - began_s
        if left_s is None and leaving.done():
            left_s = round(gone_s, 1)
        if gone_s >= after_s or (
            left_s is not None and siege.memory_mb() <= normal["memory_mb"] + NEAR_MB / 2
        ):
            return {**seen, "left_after_s": left_s}


def _ratios(normal: Figures, attack: Figures, after: Figures) -> Figures:
    """What the bars look at."""
    usual, hurt = normal["cycle_s"], attack["cycle_s"]
    return {
        "ack_p99_s": attack["ack_s"]["p99"],
        "cycle_p50_times": round(hurt["p50"] / max(PLAIN_CYCLE_S, usual["p50"]), 2),
        "cycle_p99_times": round(hurt["p99"] / max(PLAIN_CYCLE_S, usual["p99"]), 2),
        "peak_above_normal_mb": attack["memory_peak_mb"] - normal["memory_peak_mb"],
        "left_above_normal_mb": after["memory_mb"] - normal["memory_mb"],
        "log_bytes_per_minute": attack["log_bytes_per_minute"],
        "withdrawn": after["needs"] == HONEST * ROWS,
    }


async def measure(normal_s: float, attack_s: float, after_s: float, kinds: list[str]) -> Figures:
    """All attacks, one after another."""
    found: Figures = {"honest_clusters": HONEST, "normal_s": normal_s, "attack_s": attack_s, "attacks": {}}
    for kind in kinds or ATTACKS:
        seen = found["attacks"][kind] = await one_attack(kind, normal_s, attack_s, after_s)
        print(f"{kind}: {json.dumps(seen)}", file=sys.stderr, flush=True)  # it takes minutes; people look on
    return found


if __name__ == "__main__":
    spans = [*map(float, sys.argv[1:4]), *(NORMAL_S, ATTACK_S, AFTER_S)[len(sys.argv[1:4]) :]]
    print(json.dumps(asyncio.run(measure(spans[0], spans[1], spans[2], sys.argv[4:]))))
