"""From Idle at the provider to the Configure call, for machines on order: real processes, an operator that is played.

    python -m scaletest.bench.on_order [MACHINES]

prints one JSON object. Both moments are of the provider's own log, so one clock measures them. Machines become Idle one by one
within a minute; how the shard asks meanwhile is counted by the provider, too.
"""

import asyncio
import json
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bigfleet.bench.meter import percentile
from bigfleet.model.machine import MachineState
from tests.support.builders import need
from tests.support.program import http_get
from tests.support.real_fleet import RealFleet

MACHINES: Final = 500
LATENCY: Final = "create=uniform:10s-70s"
_POOL: Final = "pools:\n  - {{name: m, count: {count}, instance_type: m.large, zones: [za], price_per_hour: 1.0, resources: {{cpu: 4, memory: 16Gi}}}}\n"
_DEADLINE_S: Final = 300.0


async def measure(count: int) -> dict[str, Any]:
    """Order so many machines, and return how long each waited for its Configure call."""
    with tempfile.TemporaryDirectory() as directory:
        async with RealFleet(Path(directory), _POOL.format(count=count), f"--latency={LATENCY}") as fleet:
            await fleet.start_provider()
            shard = await fleet.start_shard("--execute-concurrency=64")
            async with fleet.operator(shard) as operator:
                await operator.demand(need(cpu=4 * count))
                await operator.until(
                    lambda: len(operator.in_state(MachineState.CONFIGURED)) == count, _DEADLINE_S
                )
            status, text = await http_get(fleet.control_port, "/log")
            assert status == 200, text
    return {"on_order": count, **figures([json.loads(line) for line in text.splitlines()])}


def figures(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """What the log of a provider says about the reaction, and about how often it was listed in a second."""
    idle_s: dict[str, float] = {}
    waited_s: list[float] = []
    calls: Counter[str] = Counter()
    listed_s: list[float] = []
    for line in lines:
        if line["event"] == "transition" and (line["before"], line["state"]) == ("Creating", "Idle"):
            idle_s[line["machine"]] = line["t"]
        elif line["event"] == "call":
            calls[line["rpc"]] += 1
            began_s = line["t"] - line["seconds"]
            if line["rpc"] == "Configure":
                waited_s.append(began_s - idle_s[line["id"]])
            elif line["rpc"] == "List":
                listed_s.append(began_s)
    within_a_second = (sum(began_s <= other_s < began_s + 1 for other_s in listed_s) for began_s in listed_s)
    return {
        "configured": len(waited_s),
        "waited_s": {
            "p50": round(percentile(waited_s, 50), 3),
            "p99": round(percentile(waited_s, 99), 3),
            "max": round(max(waited_s), 3),
        },
        "calls": dict(calls),
        "lists_in_a_second": max(within_a_second),
        "lists_apart_s": round(max(later - one for one, later in pairwise(sorted(listed_s))), 3),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]) if sys.argv[1:] else MACHINES))))
