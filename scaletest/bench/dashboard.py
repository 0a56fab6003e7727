"""What the dashboard costs at 500,000 machines and 20,000 needs: CPU and bytes of every answer (`dashboard#answer-cost`).

`python -m scaletest.bench.dashboard 500000 20000` prints the figures as JSON; addresses after the two numbers are asked in
place of all. Shard and dashboard run in this one process, so the CPU of an answer includes the shard's part of it; it is more
than the dashboard's own. Every address is asked for after a cycle of its own, so that nothing is prepared for the first time,
and twice more in the same cycle.
"""

import asyncio
import gc
import gzip
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from html import unescape
from urllib.parse import urlencode

import aiohttp
import structlog

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.dashboard import watcher
from bigfleet.dashboard.service import Dashboard, DashboardOptions
from bigfleet.engine.planner import Planner
from bigfleet.model.demand import Demand
from bigfleet.model.machine import CapacityType, Machine
from bigfleet.model.machine import MachineState as State
from bigfleet.model.need import Need
from bigfleet.model.profile import ZONE_KEY, Profile, Requirement, RequirementOperator, Spread
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.shard.read.read_service import ReadService
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.resolve import system_resolve
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import StaticShard

ASKED = (
    "/", "/needs?shard=s", "/needs?shard=s&status=short&q=prio", "/needs?shard=s&page=100", "/machines?shard=s",
    "/machines?shard=s&state=Idle&sort=-price", "/shards/s", "/clusters", "/cost", "/decisions",
    "/api/v1/needs?shard=s", "/api/v1/needs?shard=s&cluster=c-007", "/api/v1/x/status", "/api/v1/x/machines?shard=s",
    "/api/v1/x/machines?shard=s&q=77&sort=-price", "/api/v1/x/machines/s/m-000007",
    "/api/v1/x/decisions", "/api/v1/x/events",
    "/api/v1/x/explain/machine?shard=s&id=m-000007", "/explain?shard=s&machine=m-000008",
)  # fmt: skip
HARDER = {
    "a gang": Need(
        "gang",
        Profile((Requirement("rack", RequirementOperator.SAME),), priority=30_000),
        amounts(cpu=4_000),
        amounts(cpu=4),
        group="g",
    ),
    "a gang that is short": Need(
        "gang-short",
        Profile((Requirement("rack", RequirementOperator.SAME),), priority=30_000),
        amounts(cpu=400_000),
        amounts(cpu=4),
        group="g",
    ),
    "requirements on several keys, short": Need(
        "picky",
        Profile(
            (
                Requirement("arch", RequirementOperator.IN, ("arm",)),
                Requirement("rack", RequirementOperator.NOT_IN, ("z1-1", "z2-2")),
                Requirement(ZONE_KEY, RequirementOperator.IN, ("z1", "z2")),
            ),
            priority=15_000,
        ),
        amounts(cpu=400_000),
        amounts(cpu=4),
    ),
    "a spread": Need("spread", Profile((), (Spread("rack", 1),), priority=10_000), amounts(cpu=4_000)),
}
"""Needs that look at more than a machine's size; those that are short preempt, or would."""
ROUNDS = 3
BAR_MS, BAR_BYTES = 300.0, 1_000_000
FILTER_BAR_MS = 200.0
"""For an answer that leaves rows out."""
FILTERS = ("status=", "q=", "state=", "cluster=", "sort=")
NEVER = 1_000_000


def fleet(count: int) -> list[Machine]:
    """Machines of 40 types in 6 zones with 10 racks each, half of them at work for 200 clusters."""
    shapes = [
        shape(
            f"t{kind:02}",
            zone=f"z{zone}",
            price=0.1 + kind / 10,
            capacity_type=list(CapacityType)[kind % 4],
            labels={"rack": f"z{zone}-{kind % 10}", "arch": "arm" if kind % 3 else "x86"},
        )
        for kind in range(40)
        for zone in range(6)
    ]
    return [
        machine(
            f"m-{n:06}",
            State.CONFIGURED,
            cluster=f"c-{n % 200:03}",
            assigned=assigned(n % 20_000),
            shape=shapes[n % 240],
        )
        if n % 2
        else machine(f"m-{n:06}", State.IDLE if n % 10 == 0 else State.SPECULATIVE, shape=shapes[n % 240])
        for n in range(count)
    ]


def demand(count: int) -> tuple[Need, ...]:
    """Needs of all clusters that take what there is, and among them some that make it hard to say why."""
    plain = (Need(f"c-{n % 200:03}", Profile(priority=20_000 - n), amounts(cpu=40)) for n in range(count))
    return (*HARDER.values(), *plain)


@asynccontextmanager
async def standing(machines: int, needs: int) -> AsyncIterator[tuple[str, StaticShard, Dashboard]]:
    """A dashboard in front of one shard that has completed a cycle."""
    clock, net = SystemClock(), GrpcNet()
    shard = StaticShard("s")
    shard.complete(
        Situation(time.time(), tuple(fleet(machines)), demand(needs)), computed_at_ns=time.time_ns()
    )
    async with AsyncExitStack() as stack:
        watching = CycleFollower(shard, DecisionLog(), log=structlog.get_logger())
        services = [ReadService(shard).bound(), InsightService(shard, watching, StatusSources()).bound()]
        server = await net.serve("127.0.0.1:0", services)
        stack.push_async_callback(server.stop, 0)
        options = DashboardOptions(port=0, shards={"s": f"127.0.0.1:{server.port}"})
        dashboard = Dashboard(options, clock=clock, net=net, resolve=system_resolve, disk=SystemDisk())
        await dashboard.start()
        stack.push_async_callback(dashboard.stop)
        await dashboard.fleet.watcher.once()
        # A poll of the watcher on its timer would fall into an answer; it is measured separately.
        watcher.EVERY_S = 3_600.0  # type: ignore[misc]
        yield f"http://127.0.0.1:{dashboard.port}", shard, dashboard


async def fetch(session: aiohttp.ClientSession, address: str) -> tuple[int, bytes]:
    """The bytes that crossed the wire, and the answer itself."""
    async with session.get(address) as answer:
        body = await answer.read()
        plain = gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body
        if answer.status != 200:
            raise RuntimeError(f"{address} answered {answer.status}: {plain[:200]!r}")
        return len(body), plain


async def measure(machines: int, needs: int, only: Sequence[str] = ()) -> dict[str, object]:
    """Ask everything a few times, the first time with nothing prepared, and keep the median."""
    answers: dict[str, dict[str, float]] = {}
    async with (
        standing(machines, needs) as (url, shard, dashboard),
        aiohttp.ClientSession(auto_decompress=False, headers={"Accept-Encoding": "gzip"}) as session,
    ):
        before = time.process_time()
        await dashboard.fleet.watcher.once()
        look_ms = round((time.process_time() - before) * 1000, 1)
        # This process also has the machines as Python objects, unlike a shard; the collector must not visit them in an answer.
        gc.collect()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)
        paths = list(only) or [*ASKED, *await explained(session, url)]
        for path in paths:
            next_cycle(shard)
            settle()
            spent, size, plain = [], 0, b""
            for _ in range(ROUNDS):
                await asyncio.sleep(2.1)  # past the time for which answers are shared
                before = time.process_time()
                size, plain = await fetch(session, url + path)
                spent.append((time.process_time() - before) * 1000)
            answers[path.partition("&fingerprint")[0]] = {
                "first_ms": round(spent[0], 1),
                "median_ms": round(sorted(spent)[ROUNDS // 2], 1),
                "bytes": size,
                "plain_bytes": len(plain),
            }
    above = [
        path
        for path, told in answers.items()
        if max(told["first_ms"], told["median_ms"]) > _bar_ms(path) or told["plain_bytes"] > BAR_BYTES
    ]
    return {
        "machines": machines,
        "needs": needs,
        "look_ms": look_ms,
        "above_the_bar": above,
        "answers": answers,
    }


def _bar_ms(path: str) -> float:
    """Explanations name a cluster too, but leave nothing out."""
    filtered = "/explain" not in path and any(name in path for name in FILTERS)
    return FILTER_BAR_MS if filtered else BAR_MS


def settle() -> None:
    """Do what a shard has done before a reader asks about a decision (`bigfleet.app.garbage`).

    What lives is set aside, and the C library has joined the pieces of memory that the decision before gave back: it does that
    at the next request for more than a page or so, takes a tenth of a second for it, and here that would be an answer's.
    """
    gc.collect(1)
    gc.freeze()
    bytearray(1 << 20)


def next_cycle(shard: StaticShard) -> None:
    """Let the shard decide once more on the same machines and needs: a decision for which nobody has prepared anything."""
    view = shard.last_cycle()
    if view is None:
        raise RuntimeError("the shard has completed no cycle")
    fresh = Demand.listed(view.demand.rows)  # as if a cluster had reported, so that no order is kept either
    decision = Planner().decide(
        view.snapshot,
        fresh,
        parked=view.parked,
        reported_clusters=view.reported_clusters,
        holds=view.holds,
        now=view.now,
    )
    number, now_ns = view.number + 1, time.time_ns()
    shard.show(replace(view, number=number, computed_at_ns=now_ns, demand=fresh, decision=decision))


async def explained(session: aiohttp.ClientSession, url: str) -> list[str]:
    """Where needs that are covered, needs that are short and the harder ones are explained."""
    found = [
        "/api/v1/x/explain/need?"
        + urlencode(
            {
                "shard": "s",
                "cluster": need.cluster,
                **({"group": need.group} if need.group else {}),
                "fingerprint": need.profile.fingerprint,
            }
        )
        for need in HARDER.values()
    ]
    for status in ("satisfied", "short"):
        _, body = await fetch(session, f"{url}/needs?shard=s&status={status}")
        rows = re.findall(r'data-open="([^"]+)"', body.decode())
        if rows:
            last = unescape(rows[-1])
            found += [last.replace("/explain", "/api/v1/x/explain/need"), last]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    # Standard output is for the figures; what a defect would say goes to standard error.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))))
