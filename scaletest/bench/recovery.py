"""How soon a fleet of real processes works again after a part of it died or was cut off.

    python -m scaletest.bench.recovery ROUNDS [CASE...]

prints one JSON object: for each case the seconds of every round, their median and their maximum. All parts have the defaults
of their flags. "Works again" is always the same: demand that was raised meanwhile leads to a call at the provider; after the death
of a shard all sessions are back besides. Each operator is a real process with an API server in memory behind it.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bigfleet.aio.clock import SystemClock
from bigfleet.kube.roles import OPERATOR
from bigfleet.kube.transport import ApiCall
from bigfleet.model.machine import MachineState
from tests.support.builders import need
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.http import HttpFront
from tests.support.real_fleet import RealFleet, ShardProcess, listens_since

OPERATORS: Final = 4
AWAY_S: Final = 10.0
"""How long a provider is away."""
APART_S: Final = 12.0
"""Between the cuts of fleets that are measured side by side, so that no two heal together."""
PATIENCE_S: Final = 240.0
POOLS: Final = """
pools:
  - {name: m, count: 400, instance_type: m6i.large, zones: [za], resources: {cpu: 4}, price_per_hour: 1.0}
"""
REQUESTS: Final = "/apis/bigfleet.lucy.sh/v1alpha1/namespaces/shop/capacityrequests"

Seconds = dict[str, list[float]]


class ManagedClusters:
    """API servers in memory, each with an operator process, whose requests this process writes."""

    def __init__(self) -> None:
        self._apis: list[InMemoryApi] = []
        self._written = 0

    @classmethod
    @asynccontextmanager
    async def running(cls, fleet: RealFleet, shard: ShardProcess) -> AsyncIterator["ManagedClusters"]:
        clusters = cls()
        async with AsyncExitStack() as stack:
            for number in range(OPERATORS):
                api = InMemoryApi(SystemClock())
                front = await stack.enter_async_context(HttpFront(api.transport(OPERATOR)).serving())
                config = fleet.directory / f"cluster-{number}.kubeconfig"
                config.write_text(
                    "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
                    f"clusters: [{{name: x, cluster: {{server: '{front.url}'}}}}]\n"
                    "users: [{name: x, user: {}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
                )
                fleet.run(
                    "bigfleet-operator",
                    f"--cluster-id=cluster-{number}",
                    f"--shard-addr={shard.address}",
                    f"--kubeconfig={config}",
                    environ={
                        "PATH": os.environ["PATH"],
                        "HOME": str(fleet.directory),
                        "NO_PROXY": "127.0.0.1",
                    },
                )
                clusters._apis.append(api)
            yield clusters

    async def ask_for_a_machine(self) -> None:
        """Create a request as large as one machine, in each cluster in turn."""
        api = self._apis[self._written % OPERATORS]
        self._written += 1
        body = {
            "apiVersion": "bigfleet.lucy.sh/v1alpha1",
            "kind": "CapacityRequest",
            "metadata": {"name": f"pod-{self._written}", "namespace": "shop"},
            "spec": {"priority": 1000, "resources": {"cpu": "4"}},
        }
        answer = await api.transport().send(ApiCall("POST", REQUESTS, body=body))
        assert answer.status == 201, answer.body


@asynccontextmanager
async def _fleet(*, linked: bool = False) -> AsyncIterator[tuple[RealFleet, ShardProcess]]:
    with tempfile.TemporaryDirectory() as directory:
        async with RealFleet(Path(directory), POOLS, linked=linked) as fleet:
            await fleet.start_provider()
            yield fleet, await fleet.start_shard()


async def _settled(fleet: RealFleet, machines: int) -> None:
    """Wait until so many machines serve and nothing is on its way."""

    async def serve() -> bool:
        return len(await fleet.machines(state="Configured")) == machines

    await fleet.until(f"{machines} machines serve", serve, PATIENCE_S)


async def _more_creates(fleet: RealFleet, known: int) -> float:
    """Wait until the provider has been called to create one more; return when, in seconds since 1970."""

    async def called() -> bool:
        return len(await fleet.calls("Create")) > known

    await fleet.until("a machine is created", called, PATIENCE_S)
    return time.time()


async def shard_killed(rounds: int) -> Seconds:
    """From kill -9 of the shard, which is started again at once."""
    seconds: Seconds = {"sessions": [], "work": [], "total": []}
    async with _fleet() as (fleet, first), ManagedClusters.running(fleet, first) as clusters:
        shard = first
        for turn in range(rounds + 1):
            await clusters.ask_for_a_machine()
            await _settled(fleet, 2 * turn + 1)
            await _all_connected(fleet, shard)
            created = len(await fleet.calls("Create"))
            began_s = time.time()
            await asyncio.to_thread(shard.program.kill)
            starting = asyncio.ensure_future(fleet.start_shard(before=shard))
            await clusters.ask_for_a_machine()
            work = asyncio.ensure_future(_more_creates(fleet, created))
            shard = await starting
            await _all_connected(fleet, shard)
            sessions_s, work_s = time.time() - began_s, await work - began_s
            await _settled(fleet, 2 * turn + 2)
            if turn:  # the first round warms up
                seconds["sessions"].append(sessions_s)
                seconds["work"].append(work_s)
                seconds["total"].append(max(sessions_s, work_s))
    return seconds


async def _all_connected(fleet: RealFleet, shard: ShardProcess) -> None:
    async def connected() -> bool:
        clusters = (await fleet.status(shard)).clusters
        return sum(cluster.connected for cluster in clusters) == OPERATORS

    await fleet.until("all sessions are there", connected, PATIENCE_S)


async def provider_killed(rounds: int) -> Seconds:
    """From the moment at which the provider listens again, ten seconds after it was killed with -9."""
    seconds: Seconds = {"total": []}
    async with _fleet() as (fleet, shard), ManagedClusters.running(fleet, shard) as clusters:
        for turn in range(rounds):
            await clusters.ask_for_a_machine()
            await _settled(fleet, 2 * turn + 1)
            await fleet.kill_provider()
            await asyncio.sleep(AWAY_S / 2)
            await clusters.ask_for_a_machine()
            await asyncio.sleep(AWAY_S / 2)
            began_s = listens_since(await fleet.start_provider())
            seconds["total"].append(await _more_creates(fleet, 0) - began_s)
            await _settled(fleet, 2 * turn + 2)
    return seconds


async def cut(rounds: int, cut_s: float) -> Seconds:
    """From the moment at which a silent network between shard and provider carries packets again; one fleet per round."""

    async def one(number: int) -> float:
        await asyncio.sleep(number * APART_S)
        async with _fleet(linked=True) as (fleet, shard), fleet.operator(shard) as operator:
            assert fleet.link is not None
            await operator.demand(need(cpu=4))
            await operator.until(lambda: len(operator.in_state(MachineState.CONFIGURED)) == 1)
            created = len(await fleet.calls("Create"))
            fleet.link.silence()
            await asyncio.sleep(cut_s / 2)
            await operator.demand(need(cpu=8))
            await asyncio.sleep(cut_s / 2)
            assert len(await fleet.calls("Create")) == created, "the network was not silent"
            fleet.link.heal()
            began_s = time.time()
            return await _more_creates(fleet, created) - began_s

    return {"total": list(await asyncio.gather(*(one(number) for number in range(rounds))))}


async def list_answer_lost(rounds: int) -> Seconds:
    """From the call whose answer the provider never sends to the end of the next listing, by the provider's clock."""
    seconds: Seconds = {"total": []}
    async with _fleet() as (fleet, shard), fleet.operator(shard) as operator:
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(MachineState.CONFIGURED)) == 1)
        for _ in range(rounds):
            known = (await fleet.calls("List"))[-1]["number"]
            await fleet.control("lose-answer", rpc="List", times=1)

            async def listed(known: int = known) -> bool:
                return bool(_answered_after_a_loss(await fleet.calls("List"), known))

            await fleet.until("the provider is listed again", listed, PATIENCE_S)
            seconds["total"] += _answered_after_a_loss(await fleet.calls("List"), known)
    return seconds


def _answered_after_a_loss(calls: list[dict[str, Any]], known: int) -> list[float]:
    """Return the seconds from the first unanswered call after a known one to the end of the next that was answered."""
    new = [call for call in calls if call["number"] > known]
    lost = next((call for call in new if call["code"] != "OK"), None)
    if lost is None:
        return []
    answered = [call for call in new if call["code"] == "OK" and call["number"] > lost["number"]]
    return [answered[0]["at_s"] + answered[0]["seconds"] - lost["at_s"]] if answered else []


CASES: Final[Mapping[str, Callable[[int], Awaitable[Seconds]]]] = {
    "shard killed": shard_killed,
    "provider killed": provider_killed,
    "cut for 10 s": lambda rounds: cut(rounds, 10.0),
    "cut for 150 s": lambda rounds: cut(rounds, 150.0),
    "answer to List lost": list_answer_lost,
}


async def measure(rounds: int, cases: list[str]) -> dict[str, Any]:
    """Run the cases one after another."""
    found: dict[str, Any] = {"rounds": rounds, "operators": OPERATORS}
    for name in cases or CASES:
        began_s = time.monotonic()
        seconds = await CASES[name](rounds)
        found[name] = {
            what: {
                "p50_s": round(statistics.median(each), 2),
                "max_s": round(max(each), 2),
                "rounds_s": [round(one, 2) for one in each],
            }
            for what, each in seconds.items()
        }
        print(f"{name}: {found[name]} ({time.monotonic() - began_s:.0f} s)", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), sys.argv[2:]))))
