"""Roll-ups from the cache, and the status of the requests."""

import asyncio
from typing import Any

import pytest

from bigfleet.kube import store as store_module
from bigfleet.kube.cache_set import CacheSyncError
from bigfleet.kube.resources import CAPACITY_REQUESTS, ObjectKey
from bigfleet.kube.transport import ApiCall, ApiResponse
from bigfleet.model.resources import Resources
from bigfleet.operator import rollup_loop
from bigfleet.operator.core.rollup import NO_SURPLUS, SurplusKey
from bigfleet.operator.session.uplink import Uplink
from bigfleet.v1alpha1 import shard_pb2
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import capacity_request
from tests.unit.operator.world import World, play

GOOD = ObjectKey("shop", "good")
DEAF = ApiResponse(500, "busy")
LONG = [f"{number:063d}" for number in range(200)]


def status(world: World, name: str) -> dict[str, Any]:
    return dict(world.request(name).get("status") or {})


def cpu(world: World, place: int = -1) -> list[str]:
    rollup = world.shard.current.rollups[place]
    return [need.aggregate_resources["cpu"] for need in rollup.needs]


@pytest.mark.rule("operator#no-rollup-before-sync")
def test_while_the_first_list_is_incomplete_no_rollup_is_sent() -> None:
    async def scene(world: World) -> None:
        await world.add_requests(1200)
        world.start_operator()
        hang = world.transport.add(
            Fault(Trouble.SILENCE, times=10**6, path="capacityrequests", query="continue")
        )
        await world.clock.sleep(100)
        assert world.shard.sessions == []
        hang.times = 0
        await world.connected()
        assert cpu(world, 0) == ["600"]

    play(scene, connect=False)


@pytest.mark.rule("operator#no-rollup-before-sync", "operator#s4")
def test_a_missing_definition_is_not_synchronised_and_never_empty() -> None:
    async def scene(world: World) -> None:
        installed = dict(world.api._resources)
        world.api._resources.clear()
        world.api._resources.update({k: v for k, v in installed.items() if v != CAPACITY_REQUESTS})
        operator = world.start_operator()
        await world.clock.sleep(300)
        assert world.shard.sessions == []
        assert operator.not_ready()[0] == "cache of capacityrequests is not synchronised"
        world.api._resources.update(installed)
        await world.connected()
        assert operator.not_ready() == []

    play(scene, connect=False)


def test_a_cache_that_never_fills_ends_the_process_after_its_time() -> None:
    async def scene(world: World) -> None:
        world.start_operator(cache_sync_timeout_s=60.0)
        world.transport.add(Fault(ApiResponse(503, "no"), times=10**6, path="nodes"))
        assert world.running is not None
        with pytest.raises(CacheSyncError, match="nodes"):
            await world.running

    play(scene, connect=False)


@pytest.mark.rule("operator#empty-rollup")
def test_no_requests_are_an_empty_rollup() -> None:
    async def scene(world: World) -> None:
        assert len(world.shard.current.rollups[0].needs) == 0

    play(scene)


@pytest.mark.rule("operator#left-out-requests")
def test_a_bad_request_is_marked_once_with_condition_event_and_gauge_and_others_are_sent() -> None:
    async def scene(world: World) -> None:
        await world.add_request("bad", requirements=[{"key": "a", "operator": "Same"}])
        await world.add_request("good")
        await world.clock.sleep(35)
        assert cpu(world) == ["500m"]
        assert status(world, "bad")["phase"] == "Pending"
        (condition,) = status(world, "bad")["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "InvalidOperator")
        assert "spec.requirements[0].operator" in condition["message"]
        assert world.calls("PATCH", "capacityrequests/bad/status") == 1
        (event,) = world.events("InvalidOperator")
        assert (event["involvedObject"]["name"], event["count"]) == ("bad", 1)
        assert world.value("capacity_requests_skipped", reason="operator") == 1
        assert world.value("capacity_requests_skipped", reason="quantity") == 0

    play(scene)


@pytest.mark.rule("operator#repaired-request")
def test_a_repaired_request_is_in_the_next_rollup_and_is_acknowledged() -> None:
    async def scene(world: World) -> None:
        await world.add_request("good", requirements=[{"key": "a", "operator": "Same"}])
        await world.clock.sleep(15)
        assert cpu(world) == []
        await world.patch(CAPACITY_REQUESTS, GOOD, {"spec": {"requirements": []}})
        await world.eventually(lambda: status(world, "good").get("phase") == "Acknowledged", 15)
        assert cpu(world) == ["500m"]
        assert status(world, "good")["conditions"][0]["reason"] == "InRollUp"
        assert world.value("capacity_requests_skipped", reason="operator") == 0
        await world.patch(
            CAPACITY_REQUESTS,
            GOOD,
            {"spec": {"priority": 2, "requirements": [{"key": "", "operator": "In"}]}},
        )
        await world.eventually(lambda: status(world, "good")["conditions"][0]["status"] == "False", 15)
        assert status(world, "good")["phase"] == "Acknowledged"

    play(scene)


@pytest.mark.rule("operator#acknowledgement")
def test_acknowledged_only_after_it_was_sent_with_one_patch_ever() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_hello = False
        world.network.partition(["operator"], ["shard-0"])
        await world.add_request("good")
        world.start_operator()
        await world.clock.sleep(60)
        assert status(world, "good") == {}
        world.network.heal()
        await world.connected()
        await world.eventually(lambda: bool(status(world, "good")))
        found = status(world, "good")
        assert found["phase"] == "Acknowledged"
        assert found["acknowledgedAt"].endswith("Z")
        await world.clock.sleep(120)
        assert world.calls("PATCH", "capacityrequests") == 1
        assert world.value("acknowledged_total") == 1
        assert world.value("acknowledge_duration_seconds_count") == 1

    play(scene, connect=False)


@pytest.mark.rule("operator#acknowledgement")
def test_with_every_ack_taking_half_a_minute_rollups_still_go_out_in_time() -> None:
    async def scene(world: World) -> None:
        await world.add_requests(100)
        world.start_operator()
        world.transport.add(Fault(Trouble.SILENCE, times=10**6, method="PATCH"))
        await world.connected()
        await world.clock.sleep(100)
        assert len(world.shard.current.rollups) >= 10

    play(scene, connect=False)


@pytest.mark.rule("operator#acknowledgement")
def test_never_more_than_so_many_acks_at_once_and_failures_come_again() -> None:
    async def scene(world: World) -> None:
        await world.add_requests(100)
        world.start_operator(ack_concurrency=7)
        fault = world.transport.add(Fault(Trouble.SILENCE, times=7, method="PATCH"))
        await world.connected()
        await world.clock.sleep(5)
        assert world.calls("PATCH", "capacityrequests") == 7
        fault.times = 0
        world.transport.add(Fault(DEAF, times=20, method="PATCH"))
        await world.eventually(lambda: world.value("acknowledged_total") == 100, 60)

    play(scene, connect=False)


@pytest.mark.rule("operator#acknowledgement")
def test_a_request_that_is_gone_is_no_failure() -> None:
    async def scene(world: World) -> None:
        gone = ApiResponse(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "gone"})
        world.transport.add(Fault(gone, times=1, method="PATCH", path="capacityrequests"))
        await world.add_request("good")
        await world.clock.sleep(25)
        assert status(world, "good")["phase"] == "Acknowledged"

    play(scene)


@pytest.mark.rule("operator#demand-outlives-api")
def test_cutting_the_api_server_off_leaves_the_demand_and_a_relist_never_dips() -> None:
    async def scene(world: World) -> None:
        await world.add_requests(1500)
        await world.eventually(lambda: cpu(world) == ["750"], 30)
        world.transport.add(Fault(Trouble.BREAK, times=10**6))
        await world.clock.sleep(600)
        world.transport.heal()
        world.api.objects.compact()
        before = len(world.shard.current.rollups)
        await world.clock.sleep(120)
        assert len(world.shard.current.rollups) > before
        seen = {tuple(cpu(world, place)) for place in range(-70, 0)}
        assert seen == {("750",)}

    play(scene)


@pytest.mark.rule("operator#s7")
def test_a_demand_too_large_for_a_frame_is_logged_and_ends_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollup_loop, "MAX_MESSAGE_BYTES", 10_000)

    async def scene(world: World) -> None:
        await world.add_request("small")
        await world.eventually(lambda: cpu(world) == ["500m"], 15)
        await world.add_request("large", requirements=[{"key": "a", "operator": "In", "values": LONG}])
        await world.clock.sleep(60)
        assert len(world.shard.sessions) == 1
        assert cpu(world) == ["500m"]
        await world.delete(CAPACITY_REQUESTS, ObjectKey("shop", "large"))
        before = len(world.shard.current.rollups)
        await world.eventually(lambda: len(world.shard.current.rollups) > before, 25)

    play(scene)


@pytest.mark.rule("operator#s5")
def test_a_mass_deletion_is_sent_truthfully() -> None:
    async def scene(world: World) -> None:
        await world.add_requests(50)
        await world.eventually(lambda: cpu(world) == ["25"], 30)
        for number in range(50):
            await world.delete(CAPACITY_REQUESTS, ObjectKey("shop", f"cr-{number:05d}"))
        await world.eventually(lambda: cpu(world) == [], 30)

    play(scene)


@pytest.mark.rule("operator#equal-bytes")
def test_repeated_demand_is_repeated_bytes_but_for_the_time() -> None:
    async def scene(world: World) -> None:
        for number in range(30):
            await world.add_request(
                f"r{number}", priority=number % 3, resources={"cpu": "1", "memory": "1Gi", "gpu": 1}
            )
        await world.clock.sleep(45)
        last = world.shard.current.rollups[-3:]
        for rollup in last:
            rollup.timestamp_unix_nanos = 0
        assert len({rollup.SerializeToString(deterministic=True) for rollup in last}) == 1
        assert len(last[0].needs) == 3

    play(scene)


def test_all_calls_are_within_the_role() -> None:
    async def scene(world: World) -> None:
        refused: list[ApiCall] = []
        inner = world.api.answer

        def noted(call: ApiCall, role: Any) -> ApiResponse:
            answer = inner(call, role)
            if answer.status == 403:
                refused.append(call)
            return answer

        world.api.answer = noted  # type: ignore[method-assign]
        await world.add_request("bad", requirements=[{"key": "a", "operator": "Same"}])
        await world.add_request("good")
        await world.clock.sleep(60)
        assert refused == []

    play(scene)


@pytest.mark.rule("operator#demand-bulk", "operator#loop-discipline")
def test_a_large_change_gives_the_loop_away_every_few_requests_and_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollup_loop, "_REQUESTS_PER_TURN", 100)
    monkeypatch.setattr(rollup_loop, "_ROWS_PER_TURN", 100)

    async def scene(world: World) -> None:
        assert world.operator is not None
        rollups, store = world.operator.rollups, world.operator.caches.requests
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        waiting = asyncio.ensure_future(others())
        for number in range(1000):
            document = capacity_request(f"r{number}", "shop", priority=number)
            document["metadata"] |= {"uid": f"u{number}", "resourceVersion": str(10**6 + number)}
            store.apply(document)
        await rollups._catch_up()
        assert turns >= 9
        turns = 0
        prepared = await rollups._build(first=False)
        assert turns >= 9
        assert prepared.rows == 1000
        waiting.cancel()

    play(scene)


@pytest.mark.rule("operator#kept-demand")
def test_a_session_that_ends_in_the_middle_of_a_build_loses_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup_loop, "_ROWS_PER_TURN", 10)
    monkeypatch.setattr(rollup_loop, "_REQUESTS_PER_TURN", 10)

    async def scene(world: World) -> None:
        assert world.operator is not None
        rollups, store = world.operator.rollups, world.operator.caches.requests
        uplink = Uplink(world.clock, world.operator._metrics)
        for turns in range(1, 12):
            for number in range(50):
                document = capacity_request(f"r{number}", "shop", priority=number + turns)
                version = 10**6 + turns * 1000 + number
                document["metadata"] |= {"uid": f"u{number}", "resourceVersion": str(version)}
                store.apply(document)
            building = asyncio.ensure_future(rollups._tick(uplink, first=True))
            for _ in range(turns):
                await asyncio.sleep(0)
            building.cancel()
            await asyncio.wait({building})
            await rollups._tick(uplink, first=True)
            assert uplink._rollup is not None
            message = shard_pb2.OperatorMessage.FromString(uplink._rollup.frame)
            told = [need.priority for need in message.rollup.needs]
            assert told == [number + turns for number in reversed(range(50))]

    play(scene)


@pytest.mark.rule("operator#s6")
def test_a_build_slower_than_the_interval_piles_nothing_up() -> None:
    async def scene(world: World) -> None:
        assert world.operator is not None
        inner = world.operator.rollups._build
        building: list[int] = []

        async def slow(*, first: bool) -> Any:
            building.append(1)
            assert len(building) == 1
            await world.clock.sleep(25)
            building.pop()
            return await inner(first=first)

        world.operator.rollups._build = slow  # type: ignore[method-assign]
        before = len(world.shard.current.rollups)
        await world.clock.sleep(260)
        assert 9 <= len(world.shard.current.rollups) - before <= 11

    play(scene)


@pytest.mark.rule("operator#rollup-cadence")
def test_one_change_is_sent_after_the_quiet_time_and_unchanged_demand_at_the_interval() -> None:
    async def scene(world: World) -> None:
        await world.clock.sleep(25)
        before, began_s = len(world.shard.current.rollups), world.now_s
        await world.add_request("one")
        await world.eventually(lambda: len(world.shard.current.rollups) > before)
        assert cpu(world) == ["500m"]
        assert 0.1 <= world.now_s - began_s <= 0.2  # looked at every 50 ms
        count = len(world.shard.current.rollups)
        await world.clock.sleep(9.8)
        # The acknowledgement changed the request, but no demand.
        assert status(world, "one")["phase"] == "Acknowledged"
        assert len(world.shard.current.rollups) == count
        await world.clock.sleep(0.4)
        assert len(world.shard.current.rollups) == count + 1
        await world.clock.sleep(60)
        assert len(world.shard.current.rollups) == count + 7

    play(scene)


@pytest.mark.rule("operator#rollup-cadence")
def test_changes_without_a_pause_are_sent_a_second_after_the_first() -> None:
    async def scene(world: World) -> None:
        await world.clock.sleep(25)
        sent_s: list[float] = []
        before, began_s = len(world.shard.current.rollups), world.now_s
        for number in range(60):
            await world.add_request(f"r{number}")
            await world.clock.sleep(0.05)
            if len(world.shard.current.rollups) > before + len(sent_s):
                sent_s.append(world.now_s - began_s)
        assert len(sent_s) == 2
        assert 1.0 <= sent_s[0] <= 1.1
        assert 2.0 <= sent_s[1] <= 2.2
        await world.clock.sleep(0.2)
        assert cpu(world) == ["30"]
        assert len(world.shard.current.rollups) == before + 3

    play(scene)


@pytest.mark.rule("operator#rollup-cadence")
def test_a_withdrawn_and_a_replaced_request_are_sent_as_quickly() -> None:
    async def scene(world: World) -> None:
        await world.add_request("one")
        await world.eventually(lambda: cpu(world) == ["500m"])
        await world.delete(CAPACITY_REQUESTS, ObjectKey("shop", "one"))
        await world.clock.sleep(0.2)
        assert cpu(world) == []
        await world.add_request("one")
        await world.clock.sleep(0.2)
        assert status(world, "one")["phase"] == "Acknowledged"

    play(scene)


@pytest.mark.rule("operator#rollup-cadence")
def test_quiet_time_and_longest_delay_are_options() -> None:
    async def scene(world: World) -> None:
        await world.clock.sleep(25)
        await world.add_request("one")
        await world.clock.sleep(2.9)
        assert cpu(world) == []
        await world.clock.sleep(0.2)
        assert cpu(world) == ["500m"]

    play(scene, rollup_quiet_s=5.0, rollup_max_delay_s=3.0)


@pytest.mark.rule("operator#rollup-cadence")
def test_a_demand_that_is_too_large_is_not_built_again_for_each_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollup_loop, "MAX_MESSAGE_BYTES", 10)

    async def scene(world: World) -> None:
        await world.eventually(lambda: world.shard.is_connected)
        began = world.value("rollup_duration_seconds_count")
        for number in range(100):
            await world.add_request(f"r{number}")
            await world.clock.sleep(0.3)
        assert world.value("rollup_duration_seconds_count") - began <= 4

    async def start(world: World) -> None:
        world.start_operator()
        await scene(world)

    play(start, connect=False)


@pytest.mark.rule("operator#operator-metrics")
def test_the_time_from_a_change_to_its_rollup_is_measured_and_a_new_session_is_not() -> None:
    async def scene(world: World) -> None:
        assert world.value("rollup_delay_seconds_count") == 0
        await world.add_request("one")
        await world.clock.sleep(25)
        assert world.value("rollup_delay_seconds_count") == 1
        assert 0.1 <= world.value("rollup_delay_seconds_sum") <= 0.11

    play(scene)


@pytest.mark.rule("operator#demand-outlives-api", "operator#rollup-cadence")
def test_no_rollup_tells_part_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_KEYS_PER_TURN", 1)
    monkeypatch.setattr(rollup_loop, "_REQUESTS_PER_TURN", 1)

    async def scene(world: World) -> None:
        assert world.operator is not None
        store = world.operator.caches.requests
        store.begin_list()
        for number in range(20):
            document = capacity_request(f"r{number}", "shop")
            document["metadata"] |= {"uid": f"u{number}", "resourceVersion": str(10**6 + number)}
            store.stage(document)
        listing = asyncio.ensure_future(store.finish_list(10**6 + 20))
        await asyncio.sleep(0)
        uplink = Uplink(world.clock, world.operator._metrics)
        told = set()
        while not listing.done():
            await world.operator.rollups._tick(uplink, first=False)
            assert uplink._rollup is not None
            message = shard_pb2.OperatorMessage.FromString(uplink._rollup.frame)
            told.add(tuple(need.aggregate_resources["cpu"] for need in message.rollup.needs))
            await asyncio.sleep(0)
        assert told == {("10",)}

    play(scene)


def test_who_wants_to_know_is_told_once_the_caches_are_complete_and_before_the_first_dial() -> None:
    async def scene(world: World) -> None:
        assert world.operator is not None
        calls: list[tuple[bool, int]] = []
        await world.stop_operator()
        operator = world.start_operator()
        operator._on_synced = lambda: calls.append((not operator.caches.missing(), len(world.shard.sessions)))
        await world.eventually(lambda: len(world.shard.sessions) == 2)
        assert calls == [(True, 1)]

    play(scene)


def amounts(world: World, place: int = -1) -> list[tuple[dict[str, str], dict[str, str]]]:
    needs = world.shard.current.rollups[place].needs
    return [(dict(need.aggregate_resources), dict(need.min_unit)) for need in needs]


@pytest.mark.rule("operator#counted-pods")
def test_pods_are_counted_from_the_first_roll_up_on_for_a_shard_that_knows_of_them_and_for_no_other() -> None:
    async def scene(world: World) -> None:
        world.shard.features = ("later", "pods")
        await world.add_request("one")
        await world.add_request("two")
        await world.add_request("named", priority=500, resources={"pods": "3"})
        await world.add_request("empty", priority=700, resources={})
        world.start_operator()
        await world.connected()
        counted = [
            ({"pods": "1"}, {"pods": "1"}),
            ({"pods": "3"}, {"pods": "3"}),
            ({"cpu": "1", "pods": "2"}, {"cpu": "500m", "pods": "1"}),
        ]
        assert amounts(world, 0) == counted
        # The shard is replaced by an older one, and later by a newer one.
        plain = [({}, {}), ({"pods": "3"}, {"pods": "3"}), ({"cpu": "1"}, {"cpu": "500m"})]
        for features, wanted in (((), plain), (("pods",), counted)):
            world.shard.features = features
            sessions = len(world.shard.sessions)
            world.shard.current.close()
            while len(world.shard.sessions) == sessions:
                await world.clock.sleep(0.1)
            await world.clock.sleep(15)
            told = [amounts(world, place) for place in range(len(world.shard.current.rollups))]
            assert told == [wanted] * len(told)
            assert told

    play(scene, connect=False)


@pytest.mark.rule("operator#counted-pods")
def test_a_shard_that_does_not_answer_hello_gets_its_roll_up_all_the_same() -> None:
    async def scene(world: World) -> None:
        world.shard.acks_hello = False
        await world.add_request("one")
        world.start_operator()
        began_s = world.now_s
        await world.connected()
        assert world.now_s - began_s < 5
        assert amounts(world) == [({"cpu": "500m"}, {"cpu": "500m"})]

    play(scene, connect=False)


@pytest.mark.rule("operator#counted-pods")
def test_the_pods_of_a_surplus_are_for_shards_that_know_of_them_only() -> None:
    async def scene(world: World) -> None:
        assert world.operator is not None
        await world.add_request("good")
        await world.clock.sleep(12)
        (row,) = world.operator.rollups._demand.order()
        unit = Resources.parse({"pods": "1"})
        key = SurplusKey(row.profile, row.group, unit, max_units=1)
        await world.operator.rollups.put_surplus({key: Resources.parse({"cpu": "4", "pods": "8"})})
        await world.clock.sleep(1)
        assert amounts(world)[0] == ({"cpu": "4"}, {})
        assert not world.shard.current.rollups[-1].needs[0].max_units_per_machine

    play(scene)


@pytest.mark.rule("operator#surplus", "operator#rollup-cadence")
def test_a_surplus_leaves_as_a_change_does_and_stays_until_it_is_taken_back() -> None:
    async def scene(world: World) -> None:
        assert world.operator is not None
        await world.add_request("good")
        await world.clock.sleep(25)
        rollups = world.operator.rollups
        unit = Resources.parse({"cpu": "0.5"})
        (row,) = rollups._demand.order()
        await rollups.put_surplus({SurplusKey(row.profile, row.group, unit): Resources.parse({"cpu": "4"})})
        await world.clock.sleep(0.5)
        needs = world.shard.current.rollups[-1].needs
        assert [(need.aggregate_resources["cpu"], need.for_fragments) for need in needs] == [
            ("4", True),
            ("500m", False),
        ]
        await rollups.put_surplus(NO_SURPLUS)
        await world.clock.sleep(0.5)
        assert cpu(world) == ["500m"]

    play(scene)
