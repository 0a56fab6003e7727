"""Worlds of pods whose sum does not say how many machines they need, and what is found once they are quiet.

Each world says which machines can be bought, what is deployed, and the best packing of what is there in the end. A world is quiet
when all pods run and the shard has started nothing for a while; then it is watched on, and nothing may be started or reclaimed.
"""

import asyncio
import os
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.fleet.harness import Fleet, pool
from tests.e2e.fleet.packing import Best, Pods, Size, best_alike, best_mixed, size
from tests.support.program import RunningProgram

ROOT: Final = Path(__file__).resolve().parents[3]
HOST_NAME: Final = "kubernetes.io/hostname"
WATCHED: Final = ("Bootstrap", "Provision", "Preempt", "Reclaim")
"""What may not be started once a world is quiet; a slot that is given back after its idle hold is no disturbance."""
CORE_PRICE: Final = 0.05
CALM_S: Final = 45.0
"""So long nothing is started before a world counts as quiet: longer than a pod may be stuck before it is counted."""

Document = dict[str, Any]
Play = Callable[["Played"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class World:
    """One world: its machines, its story, and the best packing at its end."""

    name: str
    told: str
    pools: tuple[Document, ...]
    play: Play
    pods: int
    best: Best
    patience_s: float = 900.0


@dataclass(slots=True)
class Played:
    """A world while it is played: the fleet, and what happened so far."""

    fleet: Fleet
    shard: RunningProgram
    world: World
    began_s: float = 0.0
    last_pod_s: float = 0.0
    """Seconds from the last change of the demand until all pods ran."""

    def changed(self) -> None:
        """Note that the demand changed just now."""
        self.began_s = asyncio.get_running_loop().time()

    async def all_run(self, count: int) -> None:
        """Wait until exactly so many pods are there and all run."""
        await self.fleet.until(
            f"{self.world.name}: {count} pods run",
            lambda: _all_run(self.fleet, count),
            self.world.patience_s,
            poll_s=0.5,
        )
        self.last_pod_s = asyncio.get_running_loop().time() - self.began_s

    def started(self) -> Counter[str]:
        """Return how many actions of each kind the shard has started."""
        return Counter(
            {
                kind: int(self.fleet.metric(self.shard, f'bigfleet_shard_actions_total{{kind="{kind}"}}'))
                for kind in WATCHED
            }
        )

    async def calm(self) -> None:
        """Wait until nothing was started for a while and no machine is on its way in or out."""
        loop = asyncio.get_running_loop()
        end_s, since_s, seen = loop.time() + self.world.patience_s, loop.time(), self.started()
        while loop.time() < since_s + CALM_S:
            assert loop.time() < end_s, f"{self.world.name} does not come to rest: {seen}\n{self.stuck()}"
            await asyncio.sleep(0.5)
            now = await asyncio.to_thread(self.started)
            if now != seen or await asyncio.to_thread(self._moves):
                seen, since_s = now, loop.time()

    async def stay_quiet(self, quiet_s: float) -> Counter[str]:
        """Watch on; return what was started meanwhile."""
        before = self.started()
        await asyncio.sleep(quiet_s)
        return self.started() - before

    def stuck(self) -> str:
        """Describe the pods that do not run, and the machines."""
        pods = Counter(item["status"].get("phase") for item in self.fleet.pods())
        machines = Counter(item["state"] for item in self.fleet.machines())
        return f"pods {dict(pods)}, machines {dict(machines)}"

    def _moves(self) -> bool:
        return any(
            self.fleet.machines(state=state) for state in ("Creating", "Configuring", "Draining", "Deleting")
        )


def _all_run(fleet: Fleet, count: int) -> bool:
    pods = [item for item in fleet.pods() if not _of_daemon(item)]
    return len(pods) == count and all(item["status"].get("phase") == "Running" for item in pods)


def _of_daemon(pod: Document) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())


# ---- machines


def slots(count: int, cpu: int, memory: int | None = None) -> Document:
    """Slots of one size that can be bought, at a price that is linear in the cores."""
    held = {"cpu": str(cpu), "memory": f"{memory or 4 * cpu}Gi"}
    return pool(
        f"c{cpu}",
        count,
        state="Speculative",
        capacity_type="OnDemand",
        instance_type=f"c{cpu}",
        resources=held,
        price_per_hour=cpu * CORE_PRICE,
    )


def _machine(cpu: int, memory: int | None = None) -> Size:
    return size(str(cpu), str(memory or 4 * cpu), cpu * CORE_PRICE)


# ---- stories


def deployed(count: int, cpu: str, memory: str = "1Gi", **spec: Any) -> Play:
    """One Deployment, made at once."""

    async def play(played: Played) -> None:
        played.changed()
        await asyncio.to_thread(played.fleet.deploy, "web", count, cpu=cpu, memory=memory, **spec)
        await played.all_run(count)

    return play


async def _beside_a_daemon(played: Played) -> None:
    played.changed()
    await asyncio.to_thread(played.fleet.run_everywhere, "agent", cpu="500m", memory="100Mi")
    await asyncio.to_thread(played.fleet.deploy, "web", 100, cpu="1200m")
    await played.all_run(100)


async def _large_and_small(played: Played) -> None:
    played.changed()
    await asyncio.to_thread(played.fleet.deploy, "large", 40, cpu="5")
    await asyncio.to_thread(played.fleet.deploy, "small", 400, cpu="300m", memory="100Mi")
    await played.all_run(440)


async def _down_and_up(played: Played) -> None:
    await deployed(300, "1")(played)
    await played.calm()
    for count in (40, 300):
        played.changed()
        await asyncio.to_thread(played.fleet.scale, "web", count)
        await played.all_run(count)
        await played.calm()


async def _rolled_out(played: Played) -> None:
    await deployed(60, "3")(played)
    await played.calm()
    old = {item["metadata"]["uid"] for item in played.fleet.pods()}
    played.changed()
    await asyncio.to_thread(played.fleet.roll_out, "web", "2", "25%")
    await played.fleet.until(
        "no old pod is left",
        lambda: not old & {item["metadata"]["uid"] for item in played.fleet.pods()},
        played.world.patience_s,
        poll_s=0.5,
    )
    await played.all_run(60)


def _only_one_per_host() -> Document:
    term = {"topologyKey": HOST_NAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _evenly_over_hosts() -> list[Document]:
    selector = {"matchLabels": {"app": "web"}}
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOST_NAME,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
    ]


SMALL: Final = World(
    "small",
    "20 pods of 7.5 cpu on machines of 8",
    (slots(40, 8),),
    deployed(20, "7500m"),
    20,
    best_alike(Pods(20, size("7.5", "1")), _machine(8)),
)
WORLDS: Final = (
    World(
        "nearly-whole",
        "200 pods of 7.5 cpu on machines of 8",
        (slots(400, 8),),
        deployed(200, "7500m"),
        200,
        best_alike(Pods(200, size("7.5", "1")), _machine(8)),
    ),
    World(
        "one-per-host",
        "60 pods of 1 cpu, one per host",
        (slots(200, 8),),
        deployed(60, "1", affinity=_only_one_per_host()),
        60,
        best_alike(Pods(60, size("1", "1"), per_machine=1), _machine(8)),
    ),
    World(
        "spread-over-hosts",
        "50 pods of 1 cpu with strict spread over host names",
        (slots(200, 8),),
        deployed(50, "1", topologySpreadConstraints=_evenly_over_hosts()),
        50,
        best_alike(Pods(50, size("1", "1")), _machine(8)),
    ),
    World(
        "tiny-pods",
        "3,000 pods of 10m cpu",
        (slots(100, 8),),
        deployed(3000, "10m", "10Mi"),
        3000,
        best_alike(Pods(3000, size("0.01", "0.01")), _machine(8)),
        patience_s=1800.0,
    ),
    World(
        "beside-a-daemon",
        "a DaemonSet of 500m beside 100 pods of 1.2 cpu on machines of 4",
        (slots(200, 4),),
        _beside_a_daemon,
        100,
        best_alike(Pods(100, size("1.2", "1")), _machine(4), daemon=size("0.5", "0.1")),
    ),
    World(
        "large-and-small",
        "40 pods of 5 cpu and 400 of 0.3 on machines of 8 and 16",
        (slots(150, 8), slots(150, 16)),
        _large_and_small,
        440,
        best_mixed((Pods(40, size("5", "1")), Pods(400, size("0.3", "0.1"))), (_machine(8), _machine(16))),
    ),
    World(
        "down-and-up",
        "300 pods of 1 cpu, scaled to 40, and back to 300",
        (slots(200, 8),),
        _down_and_up,
        300,
        best_alike(Pods(300, size("1", "1")), _machine(8)),
    ),
    World(
        "rolled-out",
        "a rolling update of 60 pods of 3 cpu with a surge of 25 %",
        (slots(200, 8),),
        _rolled_out,
        60,
        best_alike(Pods(60, size("3", "1")), _machine(8)),
    ),
)


async def play(fleet: Fleet, world: World, quiet_s: float, *flags: str) -> Document:
    """Play a world to its end; return what was found."""
    provider = fleet.start_provider(world.pools)
    shard = fleet.start_shard(provider, 0, None, "--execute-concurrency=32")
    operator, _ = fleet.start_cluster_programs("prod-1", None, *flags)
    await fleet.until("ready", lambda: operator.http("/readyz")[0] == 200)
    played = Played(fleet, shard, world)
    await world.play(played)
    at_first = len(fleet.machines(state="Configured"))
    await played.calm()
    disturbed = await played.stay_quiet(quiet_s)
    held = fleet.machines(state="Configured")
    price = sum(int(machine["resources"]["cpu"]) * CORE_PRICE for machine in held)
    runs = _all_run(fleet, world.pods)
    return {
        "world": world.name,
        "told": world.told,
        "pods": world.pods,
        "all_run": runs,
        "machines": len(held),
        "machines_when_all_ran": at_first,
        "best_machines": world.best.machines,
        "times_best_price": round(price / world.best.price, 3),
        "best_found": world.best.how,
        "last_pod_s": round(played.last_pod_s, 1),
        "quiet_s": quiet_s,
        "started_in_quiet": dict(disturbed),
        "started": dict(played.started()),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "commit": _commit(),
    }


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    asked = subprocess.run(
        [git, "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"
