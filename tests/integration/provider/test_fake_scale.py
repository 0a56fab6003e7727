"""Many machines in one fake (`providers#fake-scale`); times are measured and printed, never asserted."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.net import Code, DialOptions, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.provider.fake.seeding import CatalogueSeed
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.transport.grpc_net import GrpcNet

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
LARGE = DialOptions(max_message_bytes=1 << 30)


def fleet(machines: int) -> CatalogueSeed:
    """About so many: a fifth bound, a tenth idle, a tenth spot, the rest on-demand slots."""
    per_cluster = 250
    return CatalogueSeed(
        idle=machines // 10,
        spot=machines // 10,
        speculative=machines * 6 // 10,
        configured_per_cluster=per_cluster,
        clusters=machines // 5 // 326,  # gang floors make 326 of 250
    )


@pytest.mark.asyncio
async def test_twenty_thousand_machines_are_listed_changed_and_shown_in_deltas() -> None:
    seed = fleet(20_000)
    async with FakeProvider(FakeOptions(sync=True), seed.slots) as fake:
        server = await fake.listen("127.0.0.1:0")
        client = RawProviderClient(GrpcNet().dial(f"127.0.0.1:{server.port}", LARGE))
        full = await client.list()
        assert (
            len(full.machines)
            == len({machine.id for machine in full.machines})
            == sum(1 for _ in seed.slots())
        )
        states = Counter(S(machine.state) for machine in full.machines)
        assert states == {state: count for state, count in fake.kit.state.table.counts.items() if count}
        assert states[S.CONFIGURED] == 12 * 326
        slots = [machine.id for machine in full.machines if S(machine.state) is S.SPECULATIVE][:1000]
        await asyncio.gather(*map(client.create, slots))
        delta = await client.list(since=full.revision)
        assert sorted(machine.id for machine in delta.machines) == sorted(slots)
        assert not (await client.list(since=delta.revision)).machines
        assert len((await client.list([S.CONFIGURED])).machines) == 12 * 326
        lost = await fake.fail(Selector(states=(S.CONFIGURED,), zone="zone-a"))
        delta = await client.list(since=delta.revision)
        assert sorted(machine.id for machine in delta.machines) == sorted(lost)


@pytest.mark.rule("providers#fake-scale")
@pytest.mark.asyncio
async def test_a_listing_that_does_not_fit_is_refused_with_both_numbers() -> None:
    limit = 1 << 20
    async with FakeProvider(FakeOptions(max_message_bytes=limit), fleet(20_000).slots) as fake:
        server = await fake.listen("127.0.0.1:0")
        client = RawProviderClient(GrpcNet().dial(f"127.0.0.1:{server.port}", LARGE))
        with pytest.raises(RpcError) as refused:
            await client.list()
        assert refused.value.code is Code.RESOURCE_EXHAUSTED
        assert f"limit is {limit} bytes" in refused.value.detail
        assert len((await client.list(at_most=10)).machines) == 10


def measured(machines: int) -> Any:  # Any: figures by name, as JSON has them
    """Run the benchmark of the program; its figures are evidence, what holds on any machine is asserted below."""
    done = subprocess.run(
        [sys.executable, "-m", "scaletest.bench.providers", "--machines", str(machines)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=1800,
        check=True,
    )
    print(done.stdout)
    return json.loads(done.stdout)


def assert_complete(figures: Any) -> None:
    assert figures["full_list"]["machines"] == figures["state_by_state"]["machines"]
    assert figures["state_by_state"]["largest_bytes"] < 256 << 20
    assert figures["delta"]["machines"] == 1000


def test_the_benchmark_of_the_program_lists_all_of_it_and_deltas_hold_what_changed() -> None:
    figures = measured(6_000)
    assert_complete(figures)
    assert figures["under_usual_limit"] == "fits"


@pytest.mark.rule("providers#async-work", "providers#fake-scale")
@pytest.mark.long
def test_a_million_machines_in_one_process() -> None:
    figures = measured(1_000_000)
    assert_complete(figures)
    assert figures["full_list"]["machines"] > 900_000
    assert figures["under_usual_limit"] == "RESOURCE_EXHAUSTED", "state by state is the way then (S14)"
    assert figures["peak_mb"] < 2000
