"""`bigfleet watch` while cycles end: each is shown once, in every form (`packaging#other-commands`)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import yaml

from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Call, Channel
from bigfleet.cli.verbs import live_shard
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.testing.net.network import Network
from tests.support.shard_views import StaticShard
from tests.unit.cli.verbs.test_live_commands import SITUATION, Live


class BusyShard(InsightService):
    """A shard that ends its second cycle while it is asked about the first, and its third after that."""

    def __init__(self, shard: StaticShard) -> None:
        watching = CycleFollower(shard, DecisionLog(), log=structlog.get_logger())
        super().__init__(shard, watching, StatusSources())
        self._shard, self._looked, self._looks = shard, asyncio.Event(), 0

    async def get_status(self, request: pb.GetStatusRequest, call: Call) -> pb.GetStatusResponse:
        self._looks += 1
        if self._looks == 1:
            self._shard.complete(SITUATION)
        return await super().get_status(request, call)

    async def list_shortfalls(
        self, request: pb.ListShortfallsRequest, call: Call
    ) -> pb.ListShortfallsResponse:
        answer = await super().list_shortfalls(request, call)
        self._looked.set()
        return answer

    async def watch_cycles(
        self, _request: pb.WatchCyclesRequest, _call: Call
    ) -> AsyncIterator[pb.WatchCyclesResponse]:
        yield pb.WatchCyclesResponse(cycle=pb.Cycle(number=1))
        await self._looked.wait()
        yield pb.WatchCyclesResponse(cycle=pb.Cycle(number=2))
        self._shard.complete(SITUATION)
        yield pb.WatchCyclesResponse(cycle=pb.Cycle(number=3))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Live:
    live = Live()
    live.shard.complete(SITUATION)

    @asynccontextmanager
    async def dialled(_settings: object, _console: object, address: str) -> AsyncIterator[Channel]:
        network = Network(secured=False)
        services = [BusyShard(live.shard).bound()]
        await network.host("shard-0", Identity.shard("shard-0")).serve(":7780", services)
        yield network.host("reader", None).dial(address)

    monkeypatch.setattr(live_shard, "_dialled", dialled)
    return live


def test_a_cycle_that_ends_while_the_shard_is_asked_is_shown_once(busy: Live) -> None:
    lines = busy.good("watch --shard shard-0:7780 -o json").splitlines()
    assert [json.loads(line)["cycle"]["number"] for line in lines] == ["2", "3"]


def test_as_yaml_every_cycle_is_a_document_of_its_own(busy: Live) -> None:
    documents = list(yaml.safe_load_all(busy.good("watch --shard shard-0:7780 -o yaml")))
    assert [document["cycle"]["number"] for document in documents] == ["2", "3"]


def test_for_people_every_cycle_is_a_screen(busy: Live) -> None:
    text = busy.good("watch --shard shard-0:7780")
    assert [f"shard shard-0, cycle {number} of" in text for number in (1, 2, 3)] == [False, True, True]
    assert text.count("STATE") == 2
