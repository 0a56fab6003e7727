"""A shard that was paused while its successor took over, and goes on acting when it is resumed; real processes.

`tests/integration/provider` has the short form, in which it orders machines; here it also drains what its successor serves.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bigfleet.model.machine import MachineState as S
from tests.support.builders import need
from tests.support.real_fleet import RealFleet, pause, resume

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.long]

POOLS = """
pools:
  - {name: m, count: 20, state: Configured, cluster: prod, instance_type: m6i.large, zones: [za], resources: {cpu: 4}}
  - {name: s, count: 20, instance_type: m6i.large, zones: [za], resources: {cpu: 4}, price_per_hour: 1.0}
"""


async def test_a_resumed_shard_changes_no_machine_and_pauses_itself(
    tmp_path: Path, evidence: Callable[[str, Mapping[str, object]], None]
) -> None:
    flags = ("--cycle-interval=500ms", "--reclaim-cap-fraction=0", "--execute-concurrency=4")
    async with RealFleet(tmp_path, POOLS) as fleet:
        await fleet.start_provider()
        old = await fleet.start_shard(*flags)
        async with fleet.operator(old) as left_behind:
            await left_behind.demand(need(cpu=80))
            await left_behind.until(lambda: len(left_behind.in_state(S.CONFIGURED)) == 20)
            pause(old)
            shutil.copytree(old.data, tmp_path / "successor")
            new = await fleet.start_shard(*flags, data=tmp_path / "successor")
            async with fleet.operator(new) as operator:
                # The successor changes one machine; the old one would drain 16 others.
                await operator.demand(need(cpu=84))
                await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 21)
                before = {machine["id"]: machine for machine in await fleet.machines()}
                resume(old)
                began_s = time.monotonic()
                # A connection to a silent shard ends after 15 s, so this one may be gone: the demand comes over another.
                async with fleet.operator(old) as again:
                    await again.demand(need(cpu=16))

                    async def paused_itself() -> bool:
                        return (await fleet.status(old)).self_paused

                    await fleet.until("the old shard pauses itself", paused_itself)
                paused_s = time.monotonic() - began_s
                calls = [call for call in await fleet.calls() if call["epoch"] == 1]
                assert {machine["id"]: machine for machine in await fleet.machines()} == before
                assert not (await fleet.status(new)).self_paused
        figures = {"calls": len(calls), "paused_itself_s": round(paused_s, 2)}
        evidence("fleet-faults.jsonl", {"case": "zombie", **figures})
        assert calls
        assert {call["code"] for call in calls} == {"FAILED_PRECONDITION"}
