"""Several shards on one provider: who owns what, and how domains move (`coordinator#partition-mode`)."""

import pytest

from bigfleet.aio.net import Code
from bigfleet.coordinator.core import commands
from bigfleet.model.machine import MachineState
from bigfleet.shard.core.views import HoldOff
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.shared_provider import SharedProvider
from tests.unit.coordinator.harness import code_of

S = MachineState
IDLE = pool("m", 4, state=S.IDLE)  # m-0 and m-2 in zone-a, m-1 and m-3 in zone-b
A = {"m-0", "m-2"}


@pytest.mark.rule("coordinator#partition-mode", "coordinator#ownership-view")
def test_each_shard_owns_the_machines_of_its_domains_and_no_others() -> None:
    async def story() -> None:
        racks = [pool(f"r{rack}", 2, state=S.IDLE, labels={"rack": rack}) for rack in ("a", "b")]
        nobody = pool("n", 1, state=S.IDLE)
        async with SharedProvider((*racks, nobody), key="rack") as world:
            await world.until(world.settled)
            assert world.owned("shard-0") == set()  # an empty set owns nothing
            await world.assign("a", "shard-0")
            await world.assign("b", "shard-1")
            await world.until(lambda: world.owned("shard-0") == {"ra-0", "ra-1"})
            await world.until(lambda: world.owned("shard-1") == {"rb-0", "rb-1"})
            await world.seconds(3)
            run = world.runs["shard-0"]
            assert run.metric("bigfleet_shard_foreign_machines") == 3
            assert run.metric("bigfleet_shard_machines_without_domain") == 1
            assert run.metric("bigfleet_shard_domains", kind="owned") == 1
            assert run.metric("bigfleet_shard_ownership_settled") == 1
            assert world.stored("shard-0").domains == {"a"}
            status = world.shard("shard-0").status()
            assert status.partition_key == world.key

    run_virtual(story())


@pytest.mark.rule("coordinator#leaving-domain")
def test_letting_a_domain_go_drains_nothing_and_the_next_owner_waits_for_the_bound_machines() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            operator = await world.operator("prod", "shard-0")
            await operator.demand(need("prod", cpu=4))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
            (bound,) = operator.in_state(S.CONFIGURED)
            await world.move("zone-a", "shard-1")
            await world.until(lambda: world.owned("shard-0") == {bound})
            assert world.stored("shard-0").leaving == {"zone-a"}
            await world.seconds(60)
            assert world.owned("shard-0") == {bound}
            assert world.owned("shard-1") == set()
            assert world.states("shard-0")[bound] is S.CONFIGURED  # nothing was drained
            await operator.demand()
            await world.until(lambda: world.owned("shard-1") == A)
            assert world.owned("shard-0") == set()
            assert not world.stored("shard-0").leaving

    run_virtual(story())


@pytest.mark.rule("coordinator#leaving-domain")
def test_a_domain_that_comes_back_while_it_is_left_is_owned_again() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            operator = await world.operator("prod", "shard-0")
            await operator.demand(need("prod", cpu=4))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
            await world.coordinator.unassign(world.key, "zone-a")
            await world.until(lambda: len(world.owned("shard-0")) == 1)
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)

    run_virtual(story())


@pytest.mark.rule("coordinator#owner-cut-off", "coordinator#partition-assign")
def test_a_domain_waits_for_its_old_owner_that_is_cut_off() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            world.cut("shard-0")
            await world.move("zone-a", "shard-1")
            await world.seconds(300)
            assert (world.owned("shard-0"), world.owned("shard-1")) == (A, set())
            world.heal()
            await world.until(lambda: world.owned("shard-1") == A)

    run_virtual(story())


@pytest.mark.rule("coordinator#partition-assign", "coordinator#partitioned-shard-removed")
def test_a_ghost_blocks_until_it_is_vouched_destroyed() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            await world.kill("shard-0")
            await world.coordinator.remove("shard-0")
            await world.assign("zone-a", "shard-1")
            await world.seconds(120)
            assert world.owned("shard-1") == set()
            assert world.coordinator.sample("partition_blocked_by", shard="~shard-0") == 1
            await world.coordinator.remove("shard-0", destroyed=True)
            await world.until(lambda: world.owned("shard-1") == A)

    run_virtual(story())


@pytest.mark.rule("coordinator#partition-assign", "coordinator#partitioned-shard-removed")
def test_a_live_shard_that_is_removed_comes_back_and_lets_its_domains_go() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            await world.coordinator.remove("shard-0")
            await world.assign("zone-a", "shard-1")
            await world.until(lambda: world.owned("shard-1") == A)

    run_virtual(story())


@pytest.mark.rule("coordinator#partition-assign")
def test_nothing_is_assigned_beside_a_shard_that_owns_all_of_the_provider() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,), unshared=("shard-1",)) as world:
            await world.assign("zone-a", "shard-0")
            await world.seconds(120)
            assert world.owned("shard-0") == set()
            assert world.coordinator.sample("provider_conflict", provider="fake:9000") == 2
            assert world.shard("shard-1").status().partition_key == ""

    run_virtual(story())


@pytest.mark.rule("coordinator#ownership-file")
def test_a_restarted_shard_owns_what_its_file_says_without_a_coordinator() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            world.cut("shard-0")
            await world.restart("shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            operator = await world.operator("prod", "shard-0")
            await operator.demand(need("prod", cpu=4))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)

    run_virtual(story())


@pytest.mark.rule("coordinator#ownership-file", "coordinator#ownership-file-lost")
@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_a_shard_without_its_file_owns_what_it_bound_and_drains_nothing_until_it_is_synchronised(
    how: str,
) -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            operator = await world.operator("prod", "shard-0")
            await operator.demand(need("prod", cpu=4))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
            (bound,) = operator.in_state(S.CONFIGURED)
            await operator.close()
            world.cut("shard-0")
            if how == "lost":
                await world.lose_file("shard-0")
            else:
                await world.damage_file("shard-0")
            await world.until(lambda: world.owned("shard-0") == {bound})
            again = await world.operator("prod", "shard-0")
            await again.demand()  # nothing is wanted: a shard that knew what it owns would drain
            await world.seconds(60)
            assert world.states("shard-0") == {bound: S.CONFIGURED}
            held = world.runs["shard-0"].metric(
                "bigfleet_shard_actions_held_off", reason=HoldOff.OWNERSHIP_UNSETTLED.value
            )
            assert held == 1
            assert not world.settled("shard-0")
            assert any("does not know yet" in line for line in world.shard("shard-0").remarks())
            world.heal()
            await world.until(lambda: world.settled("shard-0") and world.owned("shard-0") == A)
            await world.until(lambda: world.states("shard-0")[bound] is S.IDLE)

    run_virtual(story())


@pytest.mark.rule("coordinator#partition-mode")
def test_a_domain_of_another_key_is_refused_where_it_is_entered() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.until(lambda: world.settled() and world.coordinator.sample("ghosts") == 0)
            await world.seconds(30)
            refused = world.coordinator.assign("rack", "r1", "shard-0")
            assert await code_of(refused) is Code.INVALID_ARGUMENT
            await world.assign("zone-a", "shard-0")
            assert await code_of(world.assign("zone-a", "shard-1")) is Code.ALREADY_EXISTS

    run_virtual(story())


@pytest.mark.rule("coordinator#partition-assign")
def test_a_new_leader_assigns_nothing_before_every_shard_has_shown_what_it_holds() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            world.cut("shard-0")
            world.coordinator.log.lose()
            world.coordinator.log.gain()
            await world.move("zone-a", "shard-1")
            await world.seconds(120)
            assert world.owned("shard-1") == set()
            world.heal()
            await world.until(lambda: world.owned("shard-1") == A)

    run_virtual(story())


@pytest.mark.rule("coordinator#ownership-file")
def test_what_cannot_be_stored_is_not_acknowledged_and_comes_again() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.until(world.settled)
            keeper = world.shard("shard-0").ownership
            assert keeper is not None
            world.fill_disk("shard-0")
            await world.assign("zone-a", "shard-0")
            await world.seconds(60)
            assert world.owned("shard-0") == set()
            assert not keeper.view().domains
            world.fill_disk("shard-0", full=False)
            await world.until(lambda: world.owned("shard-0") == A)

    run_virtual(story())


@pytest.mark.rule("coordinator#move-steps", "coordinator#move-marks")
def test_a_begun_move_ends_with_one_owner_and_goes_on_after_a_failover_and_restarts() -> None:
    async def story() -> None:
        async with SharedProvider((IDLE,)) as world:
            await world.assign("zone-a", "shard-0")
            await world.until(lambda: world.owned("shard-0") == A)
            begun = await world.coordinator.log.propose(
                commands.move_begin(
                    "fake:9000",
                    {"m-0": "zone-a"},
                    key=world.key,
                    from_shard="shard-0",
                    to_shard="shard-1",
                    flow="0123456789abcdef",
                    at_ns=1,
                ),
                timeout_s=5,
            )
            assert begun["ok"]
            await world.until(lambda: world.owned("shard-0") == {"m-2"})
            world.coordinator.log.lose()
            world.coordinator.log.gain()
            await world.restart("shard-1")
            await world.until(lambda: world.owned("shard-1") == {"m-0"})
            assert world.stored("shard-0").released == {"m-0": 1}
            assert world.stored("shard-1").adopted == {"m-0": 1}
            await world.restart("shard-0")
            await world.seconds(60)
            assert (world.owned("shard-0"), world.owned("shard-1")) == ({"m-2"}, {"m-0"})
            assert world.coordinator.sample("moves", phase="held") == 1
            assert world.runs["shard-1"].metric("bigfleet_shard_moved_machines", kind="adopted") == 1
            # Its domain follows: then the row says nothing more, and is forgotten with all marks.
            await world.move("zone-a", "shard-1")
            await world.until(lambda: world.owned("shard-1") == A)
            await world.until(lambda: world.coordinator.sample("moves", phase="held") == 0)
            await world.until(
                lambda: not world.stored("shard-0").released and not world.stored("shard-1").adopted
            )

    run_virtual(story())
