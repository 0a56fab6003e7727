"""The reflector on the real API server: after any fault of server or connection the store equals a fresh list."""

import asyncio
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import Selection
from bigfleet.kube.errors import ConflictError, GoneError, KubeError
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.kubeconfig import Target
from bigfleet.kube.login import Login
from bigfleet.kube.resources import CAPACITY_REQUESTS, ObjectKey
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.options import ClusterOptions
from tests.support.kube_api.http import HttpFault, HttpFront

pytestmark = pytest.mark.asyncio

Watch = Callable[..., Any]  # the fixture of conftest.py
USUAL = ClusterOptions(
    scheduler=False,
    controllers=(),
    kwok=(),
    api_server_flags=("--disable-admission-plugins=NamespaceLifecycle",),
)


async def test_it_lists_in_pages_and_follows_every_change(watch: Watch) -> None:
    async with watch(page=50) as w:
        await w.create(f"cr-{n:04d}" for n in range(120))
        await w.becomes_equal()
        for n in range(0, 120, 3):
            key = ObjectKey(w.namespace, f"cr-{n:04d}")
            await w.client.merge_patch(CAPACITY_REQUESTS, key, {"spec": {"priority": n}})
            await w.client.delete(CAPACITY_REQUESTS, ObjectKey(w.namespace, f"cr-{n + 1:04d}"))
        await w.becomes_equal()
        assert len(w.store) == 80


async def test_a_killed_api_server_is_ridden_out_and_a_list_in_between_is_gone(
    watch: Watch, bare: Cluster
) -> None:
    async with watch() as w:
        await w.create(f"cr-{n}" for n in range(10))
        await w.becomes_equal()
        selection = Selection(CAPACITY_REQUESTS, namespace=w.namespace)
        first = await w.client.list_page(selection, limit=3)
        await w.create(["late"])
        lowest = len(w.store)

        async def is_gone() -> bool:
            nonlocal lowest
            lowest = min(lowest, len(w.store))
            try:
                await w.client.list_page(selection, limit=3, token=first.next_token)
            except GoneError:
                return True
            # The server loses its own snapshots when it is restarted. It compacts each second up to where it was a
            # second before, so it needs some seconds of work in between.
            await asyncio.to_thread(bare.restart_api_server)
            await asyncio.sleep(3)
            return False

        await w.until("the list is gone", is_gone, seconds=180)
        await w.becomes_equal()
        assert w.reflector.counts.failures > 0
        assert lowest >= 10  # no dip while the server was away


@pytest.mark.rule("operator#c4")
async def test_a_version_that_the_server_no_longer_knows_leads_to_a_new_list(
    watch: Watch, bare: Cluster, admin_link: Callable[[], HttpTransport]
) -> None:
    upstream = admin_link()
    async with HttpFront(upstream).serving() as front:
        transport = HttpTransport(Login(Target(front.url), SystemDisk(), SystemClock()))
        async with watch(transport=transport) as w:
            await w.create(f"cr-{n}" for n in range(20))
            await w.becomes_equal()
            lists = w.reflector.counts.lists
            # Cut off from the server, whose memory of what happened ends with its process.
            front.faults.append(HttpFault("cut", times=10**6))
            front.cut_watches()
            for n in range(0, 20, 2):
                await w.client.delete(CAPACITY_REQUESTS, ObjectKey(w.namespace, f"cr-{n}"))
            await w.create(f"late-{n}" for n in range(5))
            assert len(w.store) == 20
            await asyncio.to_thread(bare.restart_api_server)
            front.faults.clear()
            await w.becomes_equal()
            assert w.reflector.counts.lists > lists
            assert len(w.store) == 15
    await upstream.close()


@pytest.mark.rule("operator#c6")
async def test_a_stopped_server_is_noticed_by_its_silence(watch: Watch, bare: Cluster) -> None:
    async with watch(silence_s=1.0) as w:
        await w.create(f"cr-{n}" for n in range(20))
        await w.becomes_equal()
        bare.api_server.pause()
        try:
            await w.until("silence is noticed", lambda: silent(w))
        finally:
            bare.api_server.resume()
        await w.create(f"late-{n}" for n in range(5))
        await w.becomes_equal()


async def silent(w: Any) -> bool:
    return "silent for 1 s" in w.reflector.counts.last_error


async def test_a_storm_of_conflicts_loses_no_update(watch: Watch) -> None:
    async with watch() as w:
        await w.create(["counter"], priority=0)
        clock = SystemClock()
        key = ObjectKey(w.namespace, "counter")
        conflicts = 0

        async def add_one() -> None:
            nonlocal conflicts
            document = await w.client.get(CAPACITY_REQUESTS, key)
            document["spec"]["priority"] += 1
            try:
                w.store.observe(await w.client.replace(CAPACITY_REQUESTS, document))
            except ConflictError:
                conflicts += 1
                raise

        async def writer() -> None:
            written = 0
            while written < 10:
                try:
                    await add_one()
                    written += 1
                except ConflictError:
                    await clock.sleep(0.01)

        await asyncio.gather(*(writer() for _ in range(8)))
        assert (await w.client.get(CAPACITY_REQUESTS, key))["spec"]["priority"] == 80
        assert conflicts > 0
        await w.becomes_equal()


async def test_a_slow_consumer_delays_no_other_and_misses_nothing(watch: Watch) -> None:
    async with watch() as w:
        await w.create(f"cr-{n}" for n in range(40))
        await w.becomes_equal()
        queue = w.store.subscribe()
        seen: dict[str, int | None] = {}
        most = 0

        async def consume() -> None:
            nonlocal most
            while True:
                change = await queue.take()
                seen[change.key.name] = change.after
                most = max(most, len(queue))
                await asyncio.sleep(0.01)

        consuming = asyncio.ensure_future(consume())
        for round_number in range(5):
            for n in range(40):
                key = ObjectKey(w.namespace, f"cr-{n}")
                await w.client.merge_patch(CAPACITY_REQUESTS, key, {"spec": {"priority": round_number}})
        await w.client.delete(CAPACITY_REQUESTS, ObjectKey(w.namespace, "cr-0"))
        await w.becomes_equal()
        await w.until("the consumer has caught up", lambda: caught_up(w, seen))
        consuming.cancel()
        await asyncio.wait({consuming})
        assert most <= 40


async def caught_up(w: Any, seen: dict[str, int | None]) -> bool:
    present = {name: version for name, version in seen.items() if version is not None}
    return present == await w.fresh() and seen.get("cr-0", 0) is None


def every_fault() -> list[HttpFault]:
    status = '{"kind":"Status","code":410,"reason":"Expired"}'
    return [
        HttpFault(status=429, body="slow down", headers={"Retry-After": "1"}, watch=True),
        HttpFault(status=503, body="<html>no</html>", content_type="text/html", times=3),
        HttpFault(status=500, body="{}", content_type="application/json", times=2),
        HttpFault(status=410, body=status, content_type="application/json", watch=True),
        HttpFault("cut", times=3),
        HttpFault("cut-lines", watch=True, after_lines=3),
        HttpFault("half-line", watch=True, after_lines=2),
        HttpFault("half-line", watch=True),
    ]


@pytest.mark.rule("operator#c1", "operator#c2")
async def test_a_bad_proxy_before_the_real_server_is_survived(
    watch: Watch, admin_link: Callable[[], HttpTransport]
) -> None:
    upstream = admin_link()
    async with HttpFront(upstream).serving() as front:
        transport = HttpTransport(Login(Target(front.url), SystemDisk(), SystemClock()))
        async with watch(transport=transport) as w:
            await w.create(f"cr-{n}" for n in range(10))
            await w.becomes_equal()
            created = 10
            for fault in every_fault():
                front.faults = [fault]
                front.cut_watches()

                async def struck(fault: HttpFault = fault) -> bool:
                    # Some faults strike only with the lines that follow, and how many a watch sees is not ours to say.
                    nonlocal created
                    created += 1
                    await w.create([f"late-{created}"])
                    return fault.hits == fault.times

                await w.until(f"{fault} strikes", struck)
                await w.becomes_equal()
            assert len(w.store) == created
            assert w.reflector.counts.failures >= len(every_fault())
    await upstream.close()


@pytest.mark.rule("operator#c7", "operator#c8")
async def test_an_expired_token_is_replaced_and_the_watch_resumed(
    watch: Watch, admin_link: Callable[[], HttpTransport], tmp_path: Path
) -> None:
    upstream = admin_link()
    token = tmp_path / "token"
    token.write_text("first\n")
    async with HttpFront(upstream).serving() as front:
        front.tokens = {"first"}
        target = Target(front.url, token_file=str(token))
        transport = HttpTransport(Login(target, SystemDisk(), SystemClock()))
        async with watch(transport=transport) as w:
            await w.create(f"cr-{n}" for n in range(5))
            await w.becomes_equal()
            front.tokens = {"second"}
            front.cut_watches()
            await w.until("the token is refused", lambda: refused(w))
            await w.create(["during"])
            token.write_text("second\n")
            await w.becomes_equal()
            # This server compacts every second: where a busy machine was slow to resume, one list more is its due.
            assert w.reflector.counts.lists <= 2
    await upstream.close()


async def refused(w: Any) -> bool:
    return "401" in w.reflector.counts.last_error


@pytest.mark.parametrize(
    "count",
    [300, pytest.param(10_000, marks=pytest.mark.long), pytest.param(100_000, marks=pytest.mark.long)],
)
async def test_many_objects_are_kept_small_and_followed(
    watch: Watch, bare: Cluster, make_cluster: Callable[[ClusterOptions], Cluster], count: int
) -> None:
    # A server that compacts every second cannot fill its own cache with so many; the large one has the usual five minutes.
    server = make_cluster(USUAL) if count > 1000 else bare
    filler = [{"key": f"example.com/k{n}", "operator": "In", "values": ["a", "b", "c"]} for n in range(10)]
    async with watch(cluster=server) as w:
        await w.create((f"cr-{n:05d}" for n in range(count)), requirements=filler)
        await w.becomes_equal(900)
    before_mib, cpu_s = memory_mib(), time.process_time()
    async with watch(cluster=server) as w:
        began_s = time.monotonic()
        await w.until("synchronised", lambda: synced(w), 900)
        listed_s, list_cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
        peak_mib, resident_mib = memory_mib(), resident_memory_mib()
        cpu_s = time.process_time()
        for n in range(0, count, 10):
            await w.client.merge_patch(
                CAPACITY_REQUESTS, ObjectKey(w.namespace, f"cr-{n:05d}"), {"spec": {"priority": n}}
            )
        if count > 1000:
            await asyncio.to_thread(server.restart_api_server)
        await w.becomes_equal(900)
        assert len(w.store) == count
        print(
            f"\n{count} requests: listed in {listed_s:.2f} s ({list_cpu_s:.2f} s CPU), "
            f"peak memory {before_mib:.0f} to {peak_mib:.0f} MiB, {resident_mib:.0f} MiB resident once listed, "
            f"{count // 10} changes {time.process_time() - cpu_s:.2f} s CPU, both sides of the client"
        )


async def synced(w: Any) -> bool:
    return bool(w.store.synced)


def memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_memory_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


async def test_a_refusal_of_the_server_carries_its_causes(watch: Watch) -> None:
    async with watch() as w:
        with pytest.raises(KubeError) as caught:
            await w.create(["bad"], requirements=[{"key": "rack", "operator": "Same"}])
        (cause,) = caught.value.causes
        assert cause.field == "spec.requirements[0].operator"
        assert "operator must be In, NotIn, Exists or DoesNotExist" in cause.message
