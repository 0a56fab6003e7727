"""The reflector keeps its store equal to the cluster through every fault, with back-off."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bigfleet.aio.clock import NANOSECONDS
from bigfleet.kube.client import Selection
from bigfleet.kube.reflector import Reflector
from bigfleet.kube.resources import CAPACITY_REQUESTS, ObjectKey, version_of
from bigfleet.kube.store import Store
from bigfleet.kube.transport import ApiCall, ApiResponse, Document
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import KubeWorld, capacity_request

GONE: Document = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


class Watched(KubeWorld):
    """A world with a reflector over its CapacityRequests."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.store: Store[int] = Store(version_of, clock=self.clock)
        self.reflector = Reflector(
            self.client,
            Selection(CAPACITY_REQUESTS),
            self.store,
            clock=self.clock,
            stream=self.rng.stream("reflector"),
        )

    def equal(self) -> bool:
        seen = {str(key): version for key, version in self.store.snapshot().items()}
        return self.store.synced and seen == self.stored(CAPACITY_REQUESTS)

    async def change_some(self) -> None:
        """Change, delete and create, without faults."""
        direct = self.api.transport()
        path = CAPACITY_REQUESTS.path(ObjectKey("shop", "cr-00000"))
        stored = await direct.send(ApiCall("GET", path))
        if stored.status == 200:
            assert isinstance(stored.body, dict)
            priority = stored.body["spec"]["priority"] + 1
            await direct.send(ApiCall("PATCH", path, body={"spec": {"priority": priority}}))
        await direct.send(ApiCall("DELETE", CAPACITY_REQUESTS.path(ObjectKey("shop", "cr-00001"))))
        name = f"late-{self.api.objects.version}"
        await self.add(CAPACITY_REQUESTS, capacity_request(name))

    def calls_between(self, begin_s: float, end_s: float) -> int:
        return sum(begin_s * NANOSECONDS <= when < end_s * NANOSECONDS for when, _ in self.transport.calls)


def play(scene: Callable[[Watched], Awaitable[None]], seed: int = 1, requests: int = 3) -> None:
    async def main() -> None:
        world = Watched(seed)
        await world.add_requests(requests)
        running = asyncio.ensure_future(world.reflector.run())
        try:
            await scene(world)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait({running})

    run_virtual(main())


def test_it_lists_then_follows() -> None:
    async def scene(world: Watched) -> None:
        await world.eventually(world.equal)
        for _ in range(5):
            await world.change_some()
        await world.eventually(world.equal, 5)
        assert (world.reflector.counts.lists, world.reflector.counts.watches) == (1, 1)

    play(scene)


def test_a_long_list_comes_in_pages_and_appears_at_once() -> None:
    async def scene(world: Watched) -> None:
        seen: set[int] = set()
        while not world.store.synced:
            seen.add(len(world.store))
            await world.clock.sleep(0)
        assert seen == {0}
        assert world.equal()
        assert world.reflector.counts.pages == 3

    play(scene, requests=1203)


def test_a_compaction_while_paging_begins_the_list_anew() -> None:
    async def scene(world: Watched) -> None:
        while world.reflector.counts.pages < 1:
            await world.clock.sleep(0)
        await world.change_some()
        world.api.objects.compact()
        await world.eventually(world.equal)
        assert world.reflector.counts.lists == 2

    play(scene, requests=1203)


def test_a_list_that_is_always_too_slow_ends_without_pages() -> None:
    async def scene(world: Watched) -> None:
        world.transport.add(Fault(ApiResponse(410, GONE), times=10_000, query="continue"))
        await world.eventually(world.equal, 5)
        limits = [call.query.get("limit") for _, call in world.transport.calls if "watch" not in call.query]
        assert limits == ["500", "500", "2000", "2000", "8000"]

    play(scene, requests=2_100)


@pytest.mark.rule("operator#c5")
def test_bookmarks_keep_a_quiet_kind_from_ageing() -> None:  # `operator#c5`
    async def scene(world: Watched) -> None:
        await world.eventually(world.equal)
        for _ in range(60):
            await world.clock.sleep(60)
            await world.add(CAPACITY_REQUESTS, capacity_request("x", f"n{world.api.objects.version}"))
            age_s = world.store.age_s()
            assert age_s is not None
            assert age_s <= 61
        assert world.reflector.counts.bookmarks > 0
        assert world.reflector.counts.lists == 1
        assert world.reflector.counts.failures == 0

    play(scene)


@pytest.mark.rule("operator#c4")
def test_an_expired_version_as_an_event_is_answered_by_a_list_with_delay() -> None:  # `operator#c4`
    async def scene(world: Watched) -> None:
        await world.eventually(world.equal)
        # The watch is cut, and while it is away the history is compacted.
        world.transport.add(Fault(Trouble.BREAK, times=3, watch=True))
        await world.eventually(lambda: world.reflector.counts.watches >= 2)
        await world.change_some()
        world.api.objects.compact()
        await world.eventually(lambda: world.reflector.counts.lists == 2)
        await world.eventually(world.equal)

    play(scene)


@pytest.mark.rule("operator#c4")
def test_an_expired_version_as_a_status_is_answered_by_a_list_with_delay() -> None:  # `operator#c4`
    async def scene(world: Watched) -> None:
        world.transport.add(Fault(ApiResponse(410, GONE), times=3, watch=True))
        await world.eventually(world.equal)
        began_s = world.clock.monotonic_ns() / NANOSECONDS
        await world.eventually(lambda: world.reflector.counts.lists == 4)
        # 0.8, 1.6, 3.2 seconds, each with up to a fifth on top
        assert 5.6 <= world.clock.monotonic_ns() / NANOSECONDS - began_s <= 6.9
        await world.eventually(world.equal)

    play(scene)


@pytest.mark.rule("operator#c1", "operator#c2")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ApiResponse(429, "slow down", {"Retry-After": "7"}), id="C1 429 as text"),
        pytest.param(ApiResponse(503, "<html>no</html>"), id="C2 HTML 503"),
        pytest.param(ApiResponse(500, {"kind": "Status", "code": 500}), id="500 as JSON"),
        pytest.param(ApiResponse(404, {"kind": "Status", "code": 404}), id="kind not there"),
        pytest.param(ApiResponse(403, {"kind": "Status", "code": 403}), id="forbidden"),
        pytest.param(ApiResponse(401, {"kind": "Status", "code": 401}), id="C8 login refused"),
    ],
)
def test_a_server_in_trouble_is_asked_ever_less_often(answer: ApiResponse) -> None:
    async def scene(world: Watched) -> None:
        world.transport.add(Fault(answer, times=10_000))
        await world.clock.sleep(600)
        assert not world.store.synced
        assert "Retry-After" not in answer.headers or world.calls_between(0, 7) <= 2
        assert world.calls_between(0, 10) <= 10
        assert world.calls_between(300, 600) <= 22  # every 30 s or more, twice each where a login is tried
        assert world.reflector.counts.failures > 5
        world.transport.heal()
        await world.eventually(world.equal, 60)

    play(scene)


@pytest.mark.rule("operator#c3")
def test_a_watch_that_is_closed_at_once_counts_as_a_failure() -> None:  # `operator#c3`
    async def scene(world: Watched) -> None:
        world.transport.add(Fault(Trouble.CLOSE, times=10_000, watch=True))
        await world.clock.sleep(600)
        assert world.calls_between(0, 60) <= 10
        assert world.calls_between(300, 600) <= 11
        assert world.equal()
        await world.change_some()
        world.transport.heal()
        await world.eventually(world.equal, 60)
        assert world.reflector.counts.lists == 1

    play(scene)


@pytest.mark.rule("operator#c6")
def test_a_silent_connection_is_left_within_two_minutes() -> None:  # `operator#c6`
    async def scene(world: Watched) -> None:
        world.transport.add(Fault(Trouble.SILENCE, watch=True))
        await world.eventually(world.equal)
        await world.change_some()
        await world.clock.sleep(119)
        assert not world.equal()
        await world.eventually(world.equal, 5)
        assert "silent for 120 s" in world.reflector.counts.last_error

    play(scene)


def test_a_watch_cut_in_mid_stream_goes_on_where_it_was() -> None:
    async def scene(world: Watched) -> None:
        for after in range(4):
            world.transport.add(Fault(Trouble.CUT, watch=True, after_lines=after))
        await world.eventually(world.equal)
        for _ in range(30):
            await world.change_some()
            await world.clock.sleep(1)
        await world.eventually(world.equal)
        assert world.reflector.counts.lists == 1

    play(scene)


def test_health_brings_the_wait_back_to_the_start() -> None:
    async def scene(world: Watched) -> None:
        world.transport.add(Fault(Trouble.BREAK, times=8))
        await world.eventually(world.equal)
        await world.clock.sleep(130)
        world.transport.add(Fault(Trouble.BREAK, times=1))
        world.transport.add(Fault(Trouble.CUT, watch=True))
        before = world.reflector.counts.failures
        await world.clock.sleep(0)
        # The next failure comes when the present watch ends; then the first, short wait is due again.
        await world.eventually(lambda: world.reflector.counts.failures > before, 600)
        failed_s = world.clock.monotonic_ns() / NANOSECONDS
        await world.eventually(lambda: world.reflector.counts.failures > before + 1, 600)
        assert world.clock.monotonic_ns() / NANOSECONDS - failed_s <= 1.1

    play(scene)


def test_a_cluster_restored_from_a_backup_is_listed_anew() -> None:
    async def scene(world: Watched) -> None:
        await world.eventually(world.equal)
        too_large = {"code": 504, "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}
        world.transport.add(Fault(ApiResponse(504, too_large), watch=True))
        world.transport.add(Fault(Trouble.CUT, watch=True))
        await world.eventually(lambda: world.reflector.counts.lists == 2, 1200)
        await world.eventually(world.equal)

    play(scene)


@pytest.mark.parametrize(
    "line",
    [b"<html>", b"{}", b'{"type":"ADDED","object":{}}', b'{"type":"NEWS","object":{"metadata":{}}}', b'"x"'],
)
def test_a_line_that_is_no_event_leads_to_a_list_and_loses_nothing(line: bytes) -> None:
    async def scene(world: Watched) -> None:
        await world.eventually(world.equal)
        with pytest.raises(Exception, match="event"):
            world.reflector._event(line)
        assert world.equal()

    play(scene)


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 100))]


@pytest.mark.parametrize("seed", SEEDS)
def test_through_any_mix_of_faults_the_store_ends_equal_to_a_fresh_list(seed: int) -> None:
    async def scene(world: Watched) -> None:
        dice = world.rng.stream("scene")
        for _ in range(60):
            match dice.randrange(8):
                case 0:
                    world.transport.add(Fault(Trouble.BREAK, times=dice.randint(1, 4)))
                case 1:
                    world.transport.add(Fault(Trouble.CUT, watch=True, after_lines=dice.randint(0, 5)))
                case 2:
                    world.transport.add(Fault(Trouble.SILENCE, watch=True, after_lines=dice.randint(0, 3)))
                case 3:
                    world.api.objects.compact()
                case 4:
                    world.transport.add(
                        Fault(ApiResponse(429, "busy", {"Retry-After": "3"}), times=dice.randint(1, 3))
                    )
                case 5:
                    world.transport.add(Fault(ApiResponse(410, GONE)))
                case _:
                    pass
            for _ in range(dice.randint(0, 5)):
                await world.change_some()
            await world.clock.sleep(dice.uniform(0, 90))
        world.transport.heal()
        await world.eventually(world.equal, 600)

    play(scene, seed)
