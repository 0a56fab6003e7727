"""The provider of the shard's benchmark as a process of its own: the fake, asynchronous, with a large fleet.

    python -m scaletest.bench.shard_provider CLUSTERS MACHINES [CONFIGURE_LATENCY]

prints its port on a line of its own and serves until standard input ends.
"""

import asyncio
import sys
from datetime import UTC, datetime

from bigfleet.obs.logs import build_logger
from bigfleet.provider.fake.latency import fixed
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from scaletest.bench.shard_fleet import FleetSize, slots


async def _serve(size: FleetSize, latency_s: float) -> None:
    latencies = {"configure": fixed(latency_s), "ready": fixed(0.0)}
    log = build_logger(level="error", form="json", stream=sys.stderr, now=lambda: datetime.now(UTC))
    async with FakeProvider(FakeOptions(latencies=latencies), lambda: slots(size), log=log) as fake:
        server = await fake.listen("127.0.0.1:0")
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    clusters, machines, *rest = sys.argv[1:]
    asyncio.run(_serve(FleetSize(int(clusters), int(machines)), float(rest[0]) if rest else 0.1))
