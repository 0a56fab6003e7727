"""The calls one by one, in the order of their checks.

Rules: `coordinator#calls`, `coordinator#order-of-checks`, `coordinator#self-registration`,
`coordinator#address-learned-once`, `coordinator#listings`, `coordinator#retired-calls`,
`coordinator#removed-shard-purged`, `coordinator#caller-timeout`, `coordinator#live-shard-removed`.
"""

from typing import Any

import pytest

from bigfleet.aio.identity import ADMIN, READONLY, Identity
from bigfleet.aio.net import Code, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.coordinator.archive import join_archive
from bigfleet.coordinator.log import CommandOutcomeUnknownError, NotLeaderError, UnavailableError
from bigfleet.model.shard_report import MAX_SHORTFALLS
from bigfleet.testing.loop import run_virtual
from bigfleet.transport.coordinator import (
    ASSIGN_DOMAIN,
    JOIN_RAFT_CLUSTER,
    LIST_DOMAIN_ASSIGNMENTS,
    LIST_SHARD_REPORTS,
    LIST_SHARDS,
    REMOVE_SHARD,
    REPORT_SHARD,
    SNAPSHOT_SAVE,
    UNASSIGN_DOMAIN,
)
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.unit.coordinator.harness import HOST, World, Worlds, code_of

EMPTY_REQUESTS: dict[UnaryMethod[Any, Any], object] = {
    REPORT_SHARD: pb.ShardReport(),
    ASSIGN_DOMAIN: pb.AssignDomainRequest(),
    UNASSIGN_DOMAIN: pb.UnassignDomainRequest(),
    REMOVE_SHARD: pb.RemoveShardRequest(),
    LIST_SHARDS: pb.ListShardsRequest(),
    LIST_DOMAIN_ASSIGNMENTS: pb.ListDomainAssignmentsRequest(),
    LIST_SHARD_REPORTS: pb.ListShardReportsRequest(),
    JOIN_RAFT_CLUSTER: pb.JoinRaftClusterRequest(),
}
READS = (LIST_SHARDS, LIST_DOMAIN_ASSIGNMENTS, LIST_SHARD_REPORTS)
SHARD = Identity.shard("s-1")
STRANGER = Identity.cluster("blue")


async def stream_code(world: World, identity: Identity) -> Code:
    channel = world.network.host("streamer", identity).dial(f"{HOST}:7790")
    with pytest.raises(RpcError) as refused:
        async with channel.server_stream(SNAPSHOT_SAVE, pb.SnapshotSaveRequest(), timeout_s=5) as stream:
            await stream.receive()
    world.trailing = refused.value.trailing
    await channel.close()
    return refused.value.code


@pytest.mark.rule("coordinator#order-of-checks")
def test_a_follower_refuses_every_call_before_identity_and_arguments_and_says_who_leads(
    world: Worlds,
) -> None:
    async def run() -> None:
        async with world() as here:
            here.log.lose(hint="coordinator-2:7790")
            for method, request in EMPTY_REQUESTS.items():
                assert await code_of(here.call(method, request, STRANGER)) is Code.FAILED_PRECONDITION, (
                    method.path
                )
                assert here.said("bigfleet-leader") == "coordinator-2:7790"
                assert here.said("bigfleet-raft-state") == "follower"
            assert await stream_code(here, STRANGER) is Code.FAILED_PRECONDITION
            assert here.said("bigfleet-leader") == "coordinator-2:7790"

    run_virtual(run())


def test_every_answer_carries_the_facts_about_the_replica(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report()
            assert here.said("bigfleet-raft-state") == "serving"
            assert here.said("bigfleet-membership") == "solo"
            assert here.said("bigfleet-last-term") == "1"
            assert here.said("bigfleet-last-index") == str(here.log.status().last_index)
            assert here.said("bigfleet-cluster-id") == here.log.status().cluster_id
            assert here.said("bigfleet-command-level") == "1"
            assert here.said("bigfleet-blocked-by") is None
            assert await code_of(here.assign("rack", "r1", "nobody")) is Code.NOT_FOUND
            assert here.said("bigfleet-raft-state") == "serving"

    run_virtual(run())


@pytest.mark.rule("coordinator#identity-gates")
def test_the_table_of_gates_holds_for_every_role_against_every_call(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1")
            for method, request in EMPTY_REQUESTS.items():
                if method is REPORT_SHARD:
                    continue
                allowed = {READONLY, ADMIN} if method in READS else {ADMIN}
                for identity in (READONLY, ADMIN, SHARD, STRANGER):
                    code = Code.OK
                    try:
                        await here.call(method, request, identity)
                    except RpcError as error:
                        code = error.code
                    # An empty request suffices: the gate fires before arguments are looked at.
                    passed = code in (Code.OK, Code.INVALID_ARGUMENT)
                    assert passed == (identity in allowed), (method.path, str(identity), code)
                    assert passed or code is Code.PERMISSION_DENIED
            for identity in (READONLY, SHARD, STRANGER):
                assert await stream_code(here, identity) is Code.PERMISSION_DENIED
            report = pb.ShardReport(shard_id="s-1")
            for identity in (READONLY, ADMIN, STRANGER, Identity.shard("s-2")):
                assert await code_of(here.call(REPORT_SHARD, report, identity)) is Code.PERMISSION_DENIED
            assert here.sample("identity_rejected_total", rpc="ReportShard") == 4
            assert here.sample("identity_rejected_total", rpc="SnapshotSave") == 3

    run_virtual(run())


@pytest.mark.rule("coordinator#identity-gates")
def test_plaintext_skips_every_gate(world: Worlds) -> None:
    async def run() -> None:
        async with world(secured=False) as here:
            await here.call(REPORT_SHARD, pb.ShardReport(shard_id="s-1"), STRANGER)
            await here.call(LIST_SHARDS, pb.ListShardsRequest(), STRANGER)
            await here.call(REMOVE_SHARD, pb.RemoveShardRequest(shard_id="s-1"), STRANGER)

    run_virtual(run())


@pytest.mark.parametrize("secured", [True, False])
def test_a_report_without_a_shard_id_is_an_invalid_argument_before_its_identity_is_looked_at(
    world: Worlds, secured: bool
) -> None:
    async def run() -> None:
        async with world(secured=secured) as here:
            assert await code_of(here.call(REPORT_SHARD, pb.ShardReport(), STRANGER)) is Code.INVALID_ARGUMENT

    run_virtual(run())


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        (ASSIGN_DOMAIN, pb.AssignDomainRequest(topology_value="v", shard_id="s")),
        (ASSIGN_DOMAIN, pb.AssignDomainRequest(topology_key="k", shard_id="s")),
        (ASSIGN_DOMAIN, pb.AssignDomainRequest(topology_key="k", topology_value="v")),
        (UNASSIGN_DOMAIN, pb.UnassignDomainRequest(topology_value="v")),
        (UNASSIGN_DOMAIN, pb.UnassignDomainRequest(topology_key="k")),
        (REMOVE_SHARD, pb.RemoveShardRequest()),
        (JOIN_RAFT_CLUSTER, pb.JoinRaftClusterRequest(node_id="n")),
        (JOIN_RAFT_CLUSTER, pb.JoinRaftClusterRequest(raft_address="a:1")),
    ],
)
def test_a_missing_argument_is_named(world: Worlds, method: Any, request_: object) -> None:
    async def run() -> None:
        async with world() as here:
            with pytest.raises(RpcError, match="found nothing, allowed is a text") as refused:
                await here.call(method, request_)
            assert refused.value.code is Code.INVALID_ARGUMENT

    run_virtual(run())


@pytest.mark.rule("coordinator#self-registration", "coordinator#address-learned-once")
def test_the_first_report_registers_and_later_ones_keep_address_and_time(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            answer = await here.report("s-1", 1)
            assert (answer.acknowledged, answer.coordinator_term, len(answer.instructions)) == (True, 1, 0)
            (first,) = await here.shards()
            assert (first.shard_id, first.address) == ("s-1", "s-1:7780")
            assert first.registered_at_unix_ns == first.last_heartbeat_unix_ns > 0
            assert here.sample("shard_address_mismatch", shard="s-1") == 0
            await here.process.clock.sleep(10)
            await here.report("s-1", 2, shard_address="elsewhere:1")
            (later,) = await here.shards()
            assert (later.address, later.registered_at_unix_ns) == ("s-1:7780", first.registered_at_unix_ns)
            assert later.last_heartbeat_unix_ns == first.last_heartbeat_unix_ns + 10 * 10**9
            assert here.sample("shard_address_mismatch", shard="s-1") == 1
            await here.report("s-1", 3, shard_address="elsewhere:1")
            assert here.events().count("shard_address_differs") == 1  # logged once, not every ten seconds
            await here.report("s-1", 4)
            assert here.sample("shard_address_mismatch", shard="s-1") == 0

    run_virtual(run())


@pytest.mark.rule("coordinator#self-registration")
def test_an_address_that_is_no_host_and_port_is_not_registered(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            for address in ("http://evil.example/x?:1", "unix:/run/x.sock", "a b:1"):
                with pytest.raises(
                    RpcError, match=r"shard_address: found .* allowed is host:port"
                ) as refused:
                    await here.report("s-1", 1, shard_address=address)
                assert refused.value.code is Code.INVALID_ARGUMENT
            assert not await here.shards()
            for number, address in enumerate(("", ":7780", "127.0.0.1:0", "s-4.fleet.svc:7780")):
                await here.report(f"s-{number}", 1, shard_address=address)
            assert [row.address for row in await here.shards()] == [
                "",
                ":7780",
                "127.0.0.1:0",
                "s-4.fleet.svc:7780",
            ]

    run_virtual(run())


def test_a_lost_race_to_register_is_no_error_and_any_other_failure_is_unavailable(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            here.log.fail_next(UnavailableError("the queue is full"))
            assert await code_of(here.report()) is Code.UNAVAILABLE
            here.log.fail_next(CommandOutcomeUnknownError("no answer in 5 s"))
            with pytest.raises(RpcError, match="outcome unknown, add_shard may still take effect") as refused:
                await here.report()
            assert refused.value.code is Code.UNAVAILABLE
            assert (await here.report()).acknowledged
            assert here.sample("apply_total", outcome="error") == 2
            assert here.sample("apply_total", outcome="success") == 1

    run_virtual(run())


def test_domains_are_assigned_listed_refused_and_taken(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            for shard in ("s-2", "s-1"):
                await here.report(shard)
            await here.assign("zone", "a", "s-2")
            await here.assign("rack", "r2", "s-1")
            await here.assign("rack", "r1", "s-1")
            await here.assign("rack", "r1", "s-1")
            with pytest.raises(RpcError, match="belongs to shard s-1") as refused:
                await here.assign("rack", "r1", "s-2")
            assert refused.value.code is Code.ALREADY_EXISTS
            assert await code_of(here.assign("rack", "r1", "nobody")) is Code.NOT_FOUND
            listed = await here.call(LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest(), READONLY)
            assert [(row.shard_id, row.topology_key, row.topology_value) for row in listed.assignments] == [
                ("s-1", "rack", "r1"),
                ("s-1", "rack", "r2"),
                ("s-2", "zone", "a"),
            ]
            await here.unassign("rack", "r1")
            await here.unassign("rack", "r1")
            await here.assign("rack", "r1", "s-2")
            assert here.sample("apply_total", outcome="fsm_error") == 2

    run_virtual(run())


@pytest.mark.rule("coordinator#removed-shard-purged")
def test_a_removed_shard_disappears_everywhere_and_comes_back_with_its_next_report(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", summary=pb.ShardSummary(total_machines=3))
            await here.assign("rack", "r1", "s-1")
            await here.report("s-1", 2)  # an instruction is now pending
            assert here.sample("pending_instructions", shard="s-1") == 1
            await here.remove("s-1")
            assert (await here.shards(), await here.reports()) == ([], [])
            assert here.sample("pending_instructions", shard="s-1") is None
            assert here.sample("shard_address_mismatch", shard="s-1") is None
            assert await code_of(here.remove("s-1")) is Code.NOT_FOUND
            answer = await here.report("s-1", 3, shard_address="new:7780")
            assert not answer.instructions
            (back,) = await here.shards()
            assert back.address == "new:7780"
            listed = await here.call(LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest())
            assert not listed.assignments  # its domain rows are gone for good

    run_virtual(run())


def test_a_removed_sharing_shard_leaves_a_ghost_that_blocks_and_is_named_until_it_is_back_or_destroyed(
    world: Worlds,
) -> None:
    async def run() -> None:
        async with world() as here:
            sharing = pb.ShardSummary(provider_address="p:1", partition_key="zone")
            await here.report("s-1", summary=sharing)
            await here.report("s-2", summary=sharing, ownership=pb.OwnershipView(settled=True))
            await here.shards()
            assert here.said("bigfleet-blocked-by") == "s-1"  # its view is not settled
            await here.remove("s-1")
            await here.shards()
            assert here.said("bigfleet-blocked-by") == "~s-1"
            assert here.sample("ghosts") == 1
            assert here.sample("partition_blocked_by", shard="~s-1") == 1
            await here.report("s-1", 2, summary=sharing, ownership=pb.OwnershipView(settled=True))
            await here.shards()
            assert here.said("bigfleet-blocked-by") is None
            await here.remove("s-1")
            await here.remove("s-1", destroyed=True)
            await here.shards()
            assert here.said("bigfleet-blocked-by") is None

    run_virtual(run())


@pytest.mark.rule("shard#ages", "coordinator#listings")
def test_the_ages_of_reports_do_not_follow_the_leaders_wall_clock(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 1, summary=pb.ShardSummary(provider_address="p:1"))
            here.process.clock.jump_wall(-3600)
            await here.process.clock.sleep(10)
            (entry,) = await here.shards()
            (report,) = await here.reports()
            assert entry.last_heartbeat_age_nanos == report.received_age_nanos == 10 * 10**9

    run_virtual(run())


@pytest.mark.rule("coordinator#listings")
def test_reports_are_listed_with_provider_and_without_requirements_and_are_gone_after_a_failover(
    world: Worlds,
) -> None:
    async def run() -> None:
        async with world() as here:
            shortfall = pb.Shortfall(priority=7, age_cycles=6)
            shortfall.requirements.add(key="zone", values=["a"], operator=1)
            shortfall.deficit.resources["gpu"] = "8"
            await here.report(
                "s-1", 9, summary=pb.ShardSummary(provider_address="p:1"), shortfalls=[shortfall]
            )
            (seen,) = await here.reports()
            assert (seen.shard_id, seen.cycle, seen.summary.provider_address) == ("s-1", 9, "p:1")
            assert seen.received_at_unix_ns == here.process.clock.wall_ns()
            assert (seen.shortfalls[0].priority, dict(seen.shortfalls[0].deficit.resources)) == (
                7,
                {"gpu": "8"},
            )
            assert not seen.shortfalls[0].requirements
            assert await here.reports("nobody") == []
            here.log.gain()
            assert await here.reports() == []
            (known,) = await here.shards()
            assert known.last_heartbeat_unix_ns == 0  # not heard since this leader took over
            assert (await here.report("s-1", 10)).coordinator_term == 2

    run_virtual(run())


def test_more_shortfalls_than_are_kept_are_cut_and_counted(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", shortfalls=[pb.Shortfall(priority=1)] * (MAX_SHORTFALLS + 5))
            (seen,) = await here.reports()
            assert len(seen.shortfalls) == MAX_SHORTFALLS
            assert here.sample("shortfalls_truncated_total") == 5

    run_virtual(run())


def test_a_zombie_process_of_a_shard_is_an_incident_and_changes_nothing(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 5, shard_epoch=3, summary=pb.ShardSummary(total_machines=1))
            await here.report("s-1", 900, shard_epoch=2, summary=pb.ShardSummary(total_machines=99))
            (seen,) = await here.reports()
            assert (seen.cycle, seen.summary.total_machines) == (5, 1)
            assert here.events().count("incident_lower_shard_epoch") == 1

    run_virtual(run())


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (UnavailableError("proposals are held"), Code.UNAVAILABLE),
        (CommandOutcomeUnknownError("no majority answered in 5 s"), Code.UNAVAILABLE),
        (NotLeaderError("coordinator-1:7790"), Code.FAILED_PRECONDITION),
    ],
)
def test_a_read_whose_barrier_fails_is_refused(world: Worlds, failure: Any, code: Code) -> None:
    async def run() -> None:
        async with world() as here:
            for method in READS:
                here.log.fail_next(failure)
                assert await code_of(here.call(method, EMPTY_REQUESTS[method], READONLY)) is code

    run_virtual(run())


def test_an_unreadable_report_is_refused_by_field(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            shortfall = pb.Shortfall()
            shortfall.deficit.resources["gpu"] = "8x"
            with pytest.raises(RpcError, match=r"shortfalls\[0\]\.deficit\[gpu\]") as refused:
                await here.report(shortfalls=[shortfall])
            assert refused.value.code is Code.INVALID_ARGUMENT

    run_virtual(run())


def test_joining_confirms_a_peer_and_refuses_a_stranger(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            member = pb.JoinRaftClusterRequest(node_id="coordinator-0", raft_address="127.0.0.1:7791")
            await here.call(JOIN_RAFT_CLUSTER, member)
            await here.call(JOIN_RAFT_CLUSTER, member)
            stranger = pb.JoinRaftClusterRequest(node_id="x-9", raft_address="10.0.0.1:1")
            assert await code_of(here.call(JOIN_RAFT_CLUSTER, stranger)) is Code.INVALID_ARGUMENT

    run_virtual(run())


@pytest.mark.rule("coordinator#retired-calls")
def test_calls_of_older_versions_are_unimplemented(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            for name in ("ListQuotas", "ListProviders"):
                old = type(LIST_SHARDS)(f"/bigfleet.v1alpha1.Coordinator/{name}", LIST_SHARDS.decode)
                assert await code_of(here.call(old, pb.ListShardsRequest())) is Code.UNIMPLEMENTED

    run_virtual(run())


@pytest.mark.rule("coordinator#batches")
def test_a_command_of_300_kib_is_refused_before_it_is_proposed(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1")
            before = here.log.status().last_index
            with pytest.raises(RpcError, match="allowed are at most 262144") as refused:
                await here.assign("rack", "r" * 300 * 1024, "s-1")
            assert refused.value.code is Code.INVALID_ARGUMENT
            assert here.log.status().last_index == before

    run_virtual(run())


def test_a_snapshot_comes_as_metadata_and_then_state_in_frames_of_a_mebibyte(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1")
            tables = here.state_machine.dump()
            tables["domains"] = {"rack": {f"r{n:06}": "s-1" for n in range(30_000)}}
            here.state_machine.load(tables)
            channel = here.network.host("saver", ADMIN).dial(f"{HOST}:7790")
            async with channel.server_stream(SNAPSHOT_SAVE, pb.SnapshotSaveRequest(), timeout_s=5) as stream:
                frames = [frame async for frame in stream]
            assert [frame.WhichOneof("payload") for frame in frames] == ["meta_json"] + ["data"] * (
                len(frames) - 1
            )
            assert {len(frame.data) for frame in frames[1:-1]} == {1024 * 1024}
            archive = join_archive(frames[0].meta_json, b"".join(frame.data for frame in frames[1:]))
            assert archive.meta.index == here.log.status().last_index
            here.log.fail_next(UnavailableError("busy"))
            assert await stream_code(here, ADMIN) is Code.UNAVAILABLE

    run_virtual(run())
