"""`ShardRead` over the in-memory network (`wire#inspection`, `wire#identity`, `shard#inspection`)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from weakref import ref

import pytest

from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.aio.net import Code, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import GangRef, Situation
from bigfleet.shard.core.read.need_rows import NeedQuery, NeedRow, NeedRows
from bigfleet.shard.read.coverage_reader import CoverageReader
from bigfleet.shard.read.need_frames import NeedFrames
from bigfleet.shard.read.read_service import ReadService
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.network import Network
from bigfleet.transport.shard_reading import INSPECT_NEEDS
from bigfleet.v1alpha1 import shardread_pb2 as pb
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import StaticShard

GANG = Profile((Requirement("rack", RequirementOperator.SAME),), priority=900)


def need(cluster: str, priority: int = 0, cpu: int = 4, **given: str) -> Need:
    return Need(cluster, Profile(priority=priority), amounts(cpu=cpu), **given)  # type: ignore[arg-type]


async def inspect(
    shard: StaticShard, identity: Identity | None = None, **request: str | int
) -> list[pb.InspectNeedsResponse]:
    network = Network(secured=identity is not None)
    host = network.host("shard-0", Identity.shard("shard-0"))
    await host.serve(":7780", [ReadService(shard).bound()])
    channel = network.host("reader", identity).dial("shard-0:7780")
    asked = pb.InspectNeedsRequest(**request)  # type: ignore[arg-type]
    async with channel.server_stream(INSPECT_NEEDS, asked, timeout_s=30) as frames:
        return [frame async for frame in frames]


def virtually(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    run_virtual(run())


def row_of(shard: StaticShard) -> pb.NeedView:
    rows: list[pb.NeedView] = []

    async def scenario() -> None:
        rows.extend(frame.need for frame in (await inspect(shard))[1:])

    virtually(scenario)
    return rows[0]


def shard_with(*needs: Need, machines: tuple[object, ...] = (), **given: object) -> StaticShard:
    shard = StaticShard()
    shard.complete(Situation(0.0, machines, needs), **given)  # type: ignore[arg-type]
    return shard


@pytest.mark.rule("shard#inspection")
def test_before_the_first_cycle_there_is_a_zero_header_and_no_row() -> None:
    async def scenario() -> None:
        frames = await inspect(StaticShard())
        assert [frame.WhichOneof("frame") for frame in frames] == ["header"]
        assert frames[0].header == pb.InspectNeedsHeader()

    virtually(scenario)


@pytest.mark.rule("shard#inspection")
def test_the_header_comes_first_and_only_once_and_counts_the_rows_before_the_limit() -> None:
    async def scenario() -> None:
        shard = shard_with(need("a", 3), need("b", 2), need("a", 1))
        frames = await inspect(shard, limit=2)
        assert [frame.WhichOneof("frame") for frame in frames] == ["header", "need", "need"]
        view = shard.last_cycle()
        assert view is not None
        header = frames[0].header
        assert (header.cycle, header.computed_at_unix_nanos) == (1, view.computed_at_ns)
        assert header.total_needs == 3
        assert [frame.need.need.priority for frame in frames[1:]] == [3, 2]

    virtually(scenario)


@pytest.mark.parametrize("limit", [0, -1])
def test_no_limit_and_a_negative_one_show_everything(limit: int) -> None:
    async def scenario() -> None:
        assert len(await inspect(shard_with(*(need("a", n) for n in range(7))), limit=limit)) == 8

    virtually(scenario)


def test_a_cluster_is_shown_alone_and_an_unknown_one_has_no_rows() -> None:
    async def scenario() -> None:
        shard = shard_with(need("a", 3), need("b", 2), need("a", 1))
        frames = await inspect(shard, cluster_id="a")
        assert (frames[0].header.total_needs, {frame.need.cluster_id for frame in frames[1:]}) == (2, {"a"})
        (header,) = await inspect(shard, cluster_id="nobody")
        assert header.header.total_needs == 0

    virtually(scenario)


def test_more_rows_than_one_slice_arrive_whole_and_in_order() -> None:
    async def scenario() -> None:
        frames = await inspect(shard_with(*(need("a", n) for n in range(1000))))
        assert [frame.need.need.priority for frame in frames[1:]] == list(range(999, -1, -1))

    virtually(scenario)


def test_a_satisfied_need_has_no_deficit_no_reason_no_supply_and_no_age() -> None:
    row = row_of(shard_with(need("a"), machines=(machine("m-1"),)))
    assert (row.satisfied, row.unmet_reason) == (True, pb.UNMET_REASON_UNSPECIFIED)
    assert (row.claimed_machine_count, row.bootstrap_count, row.provision_count) == (1, 1, 0)
    assert not row.HasField("residual_deficit")
    assert not row.HasField("matching_supply")
    assert not row.HasField("preemption")
    assert row.age_cycles_unmet == 0
    assert row.profile_fingerprint == Profile().fingerprint


@pytest.mark.rule("shard#inspection")
def test_reason_no_matching_supply() -> None:
    row = row_of(shard_with(need("a")))
    assert row.unmet_reason == pb.UNMET_REASON_NO_MATCHING_SUPPLY
    assert row.residual_deficit.resources == {"cpu": "4"}
    assert row.HasField("matching_supply")
    assert row.age_cycles_unmet == 1


@pytest.mark.rule("shard#inspection")
def test_reason_priority_starved_and_the_supply_that_others_hold() -> None:
    shard = shard_with(
        need("a", 9), need("b", 9), machines=(machine("m-1", S.CONFIGURED, assigned=assigned(9)),)
    )
    rows: list[pb.NeedView] = []

    async def scenario() -> None:
        rows.extend(frame.need for frame in (await inspect(shard, cluster_id="b"))[1:])

    virtually(scenario)
    assert rows[0].unmet_reason == pb.UNMET_REASON_PRIORITY_STARVED
    assert (rows[0].matching_supply.configured, rows[0].matching_supply.capped) == (1, False)


@pytest.mark.rule("shard#inspection")
def test_reason_topology_with_candidates_and_the_age_of_a_parked_gang() -> None:
    gang = Need("a", GANG, amounts(cpu=64), amounts(cpu=4), group="g")
    parked = GangRef("a", "g", GANG.fingerprint)
    shard = StaticShard()
    fleet = (machine("m-1", shape=shape(labels={"rack": "r1"})),)
    shard.complete(Situation(0.0, fleet, (gang,)))
    row = row_of(shard)
    assert row.unmet_reason == pb.UNMET_REASON_TOPOLOGY_UNSATISFIABLE
    assert [item.domain for item in row.same_candidates] == ["r1"]
    assert (row.same_satisfiable, row.acquisition_parked, row.parked_age_cycles) == (False, False, 0)
    shard.complete(Situation(0.0, fleet, (gang,), parked=frozenset({parked})))
    row = row_of(shard)
    assert (row.acquisition_parked, row.parked_age_cycles) == (True, 9)


@pytest.mark.rule("shard#inspection")
def test_reason_preemption_exhausted_with_victims_and_what_they_free() -> None:
    fleet = (machine("m-1", S.CONFIGURED, cluster="low", assigned=assigned(1)),)
    shard = shard_with(need("high", 9, cpu=12), need("low", 1), machines=fleet)
    row = row_of(shard)
    assert row.cluster_id == "high"
    assert row.unmet_reason == pb.UNMET_REASON_PREEMPTION_EXHAUSTED
    assert row.preemption.victims_found == 1
    assert row.preemption.capacity_freed.resources["cpu"] == "4"


@pytest.mark.parametrize("identity", [READONLY, ADMIN])
def test_readers_and_admins_pass_the_gate(identity: Identity) -> None:
    async def scenario() -> None:
        assert len(await inspect(shard_with(need("a")), identity)) == 2

    virtually(scenario)


@pytest.mark.rule("shard#inspection")
@pytest.mark.parametrize("identity", [Identity.cluster("a"), Identity.shard("shard-0")])
def test_every_other_role_is_refused(identity: Identity) -> None:
    async def scenario() -> None:
        with pytest.raises(RpcError) as refused:
            await inspect(shard_with(need("a")), identity)
        assert refused.value.code is Code.PERMISSION_DENIED

    virtually(scenario)


def test_rows_are_made_when_asked_for_and_once_per_cycle_however_many_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, str]] = []
    look = NeedRows.__getitem__

    def counted(rows: NeedRows, row: int) -> NeedRow:
        found = look(rows, row)
        made.append((rows.view.number, found.verdict.need.cluster))
        return found

    monkeypatch.setattr(NeedRows, "__getitem__", counted)

    async def scenario() -> None:
        shard = StaticShard()
        network = Network()
        await network.host("shard-0").serve(":7780", [ReadService(shard).bound()])
        channel = network.host("reader").dial("shard-0:7780")

        async def ask(limit: int) -> int:
            request = pb.InspectNeedsRequest(limit=limit)
            async with channel.server_stream(INSPECT_NEEDS, request, timeout_s=9) as frames:
                return len([frame async for frame in frames]) - 1

        for _ in range(2):
            shard.complete(Situation(0.0, (), (need("a", 3), need("b", 2), need("c", 1))))
            assert [await ask(1), await ask(2), await ask(2)] == [1, 2, 2]

    virtually(scenario)
    assert made == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_after_a_cycle_that_decided_nothing_anew_only_the_age_of_short_needs_is_told_anew() -> None:
    async def scenario() -> None:
        shard = StaticShard()
        frames = NeedFrames(CoverageReader(shard))
        serving = machine("m-1", S.CONFIGURED)
        first = shard.complete(Situation(0.0, (serving,), (need("a", 3), need("b", 2))))
        before = [frame async for frame in (await frames.page(first, NeedQuery())).frames(range(2))]
        later = replace(first, number=2, unmet_ages={Profile(priority=2).fingerprint: 7})
        after = [frame async for frame in (await frames.page(later, NeedQuery())).frames(range(2))]
        assert after[0] is before[0]
        assert pb.InspectNeedsResponse.FromString(before[1]).need.age_cycles_unmet == 1
        assert pb.InspectNeedsResponse.FromString(after[1]).need.age_cycles_unmet == 7

    virtually(scenario)


def test_a_reader_does_not_keep_the_cycle_it_asked_about() -> None:
    """A decision is large. What is kept for the next reader must not hold it back when its cycle is replaced."""

    async def scenario() -> None:
        shard = StaticShard()
        frames = NeedFrames(CoverageReader(shard))
        given = Situation(0.0, (machine("m-1"),), (need("a", 3), need("b", 2)))
        page = await frames.page(shard.complete(given), NeedQuery())
        assert len([frame async for frame in page.frames(page.found.rows)]) == 2
        old = ref(shard.last_cycle())
        old_decision = ref(page.rows.view.decision)
        del page
        shard.complete(given)
        assert (old(), old_decision()) == (None, None)

    virtually(scenario)
