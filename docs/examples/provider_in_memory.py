"""A complete provider in one file: a pretend cloud with forty machines, two of a dearer kind.

    python docs/examples/provider_in_memory.py --port 9000 --state ./state

Everything that is not about this cloud (fencing, idempotency, state on disk, timeouts, listings, health) is the kit's.
"""

# ruff: noqa: ARG002  the kit hands all of it to every step, and each takes what it needs
import argparse
import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import timedelta

from bigfleet.providerkit import (
    CapacityType,
    CreatedHost,
    DescribedMachine,
    Journal,
    Limits,
    MachineRecord,
    Op,
    Permanent,
    ProviderKit,
    StockOut,
    Transient,
    Volatile,
    json_logs,
    minutes,
)

ZONES = ("zone-a", "zone-b")
QUOTA = 40


class PretendCloud:
    """Takes the place of a cloud's client library: it makes instances and reports which nodes have joined."""

    def __init__(self, quota: int) -> None:
        self._quota = quota
        self._by_token: dict[str, str] = {}
        self.running: set[str] = set()
        self.joined: dict[str, str] = {}

    async def run_instance(self, token: str) -> str:
        """Make an instance; the same token gives the same one, as with any cloud worth the name."""
        if token not in self._by_token:
            if len(self.running) >= self._quota:
                raise StockOut("the quota is used up")
            self._by_token[token] = f"i-{token}"
            self.running.add(f"i-{token}")
        return self._by_token[token]

    async def run_command(self, instance: str, cluster: str) -> None:
        if not instance.startswith("i-"):  # an instance outlives this process, as with a real cloud
            raise Transient(f"{instance} does not answer")
        self.joined[instance] = cluster


class InMemoryBackend:
    """What the kit asks for; see `bigfleet.providerkit.Backend` and the optional protocols beside it."""

    def __init__(self, cloud: PretendCloud) -> None:
        self._cloud = cloud

    async def describe(self) -> AsyncIterator[DescribedMachine]:
        for number in range(QUOTA):
            large = number < 2
            yield DescribedMachine.of(
                f"demo/{number:03}",
                instance_type="large-16" if large else "small-4",
                zone=ZONES[number % len(ZONES)],
                capacity_type=CapacityType.ON_DEMAND,
                price_per_hour=0.80 if large else 0.20,
                resources={"cpu": "16" if large else "4", "memory": "64Gi" if large else "16Gi"},
                labels={"demo/generation": "7"},
            )

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        return CreatedHost(await self._cloud.run_instance(op.id))

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        if not machine.host:
            raise Permanent("there is no host to configure")
        op.log.info("joining", cluster=cluster, blob_bytes=len(blob))  # its length, never itself
        await self._cloud.run_command(machine.host, cluster)

    async def node_ready(self, machine: MachineRecord, cluster: str, op: Op) -> bool:
        return self._cloud.joined.get(machine.host) == cluster

    async def drain(self, machine: MachineRecord, grace: timedelta, op: Op) -> None:
        self._cloud.joined.pop(machine.host, None)

    async def delete(self, machine: MachineRecord, op: Op) -> None:
        self._cloud.running.discard(machine.host)


async def serve(port: int, state: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    kit = ProviderKit(
        InMemoryBackend(PretendCloud(QUOTA)),
        store=Journal(state) if state else Volatile(),
        name="demo",
        limits=Limits(create=minutes(2), configure=minutes(2)),
    )
    # The socket is for `bigfleet provider-admin repair`, the only way out of Failed.
    admin = f"{state}/admin.sock" if state else None
    await kit.serve(f"127.0.0.1:{port}", until=stop.wait(), admin_socket=admin)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--state", default="", help="directory; without it nothing is kept")
    given = parser.parse_args()
    with json_logs():
        asyncio.run(serve(given.port, given.state))
