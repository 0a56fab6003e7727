"""The route of the history over a real socket, and a history that outlives its dashboard.

Rules: `dashboard#history`, `dashboard#history-ranges`, `dashboard#history-trouble`.
"""

import asyncio
from pathlib import Path

import pytest

from bigfleet.dashboard.core.history_sample import FAMILIES, ClusterFigures, HistorySample
from bigfleet.dashboard.core.history_steps import FINE
from bigfleet.dashboard.history_store import FILE
from tests.integration.dashboard.world import World, dashboard_world

pytestmark = pytest.mark.integration


async def sampled(world: World) -> None:
    """Wait until the last look is in the history."""
    await world.look()
    history = world.dashboard.fleet.history
    await history.record(world.dashboard.fleet.picture)
    # The dashboard itself may have been faster and be still at it; this waits for its turn.
    await history.lines("1h", [("states", None)], now=world.dashboard.fleet.now())


@pytest.mark.rule("dashboard#history")
def test_the_history_outlives_its_dashboard(tmp_path: Path) -> None:
    async def story() -> None:
        async with dashboard_world(data_dir=str(tmp_path)) as world:
            await sampled(world)
            before = await world.json("/api/v1/x/history?family=states&range=24h")
        async with dashboard_world(data_dir=str(tmp_path)) as world:
            # Asked before the new dashboard can have recorded anything of its own.
            after = await world.json("/api/v1/x/history?family=states,cost,missing&range=24h")
        lines = {row["name"]: row["values"] for row in before["families"][0]["lines"]}
        assert lines["Configured"][-1] == 20
        again = {row["name"]: row["values"] for row in after["families"][0]["lines"]}
        assert 20 in again["Configured"]
        assert after["problem"] is None

    asyncio.run(story())


@pytest.mark.rule("dashboard#history-ranges", "dashboard#parameters")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "family: found ''"),
        ("family=bogus", "family: found 'bogus', allowed is one to 4 of states,"),
        ("family=states&cluster=web", "allowed is one to 4 of coverage, missing, cluster-cost"),
        ("family=states,cost,needs,zones,types", "one to 4"),
        ("family=states&range=2h", "range: found '2h', allowed is one of 1h, 24h, 30d, 6h, 7d, 90d"),
        (
            "family=states&range=90d&step=fine",
            "step: found 'fine', allowed is for a range of 90d one of coarse",
        ),
    ],
)
def test_a_wrong_question_names_what_is_allowed(query: str, said: str) -> None:
    async def story() -> None:
        async with dashboard_world() as world:
            status, text, _ = await world.get(f"/api/v1/x/history?{query}")
            assert status == 400
            assert said in text.replace('\\"', '"')

    asyncio.run(story())


@pytest.mark.rule("dashboard#history-ranges", "dashboard#answer-size")
def test_the_largest_answer_stays_under_a_megabyte() -> None:
    async def story() -> None:
        async with dashboard_world() as world:
            history, now = world.dashboard.fleet.history, world.dashboard.fleet.now()
            rows = {f"cluster-{n:03}": ClusterFigures(n, 1234.5678 + n) for n in range(100)}
            fleet = {name: {f"name-{n}": 123456.5678 + n for n in range(40)} for name in FAMILIES}
            # Straight into the store: two thousand samples by the recorder would only take longer.
            for at in range(FINE.begin(now) - 6 * 3600 + 10, FINE.begin(now) + 1, 60):
                history._store.append(HistorySample(at, fleet, rows))
            query = "family=cluster-cost,types,zones,states&range=6h&step=fine"
            status, text, _ = await world.get(f"/api/v1/x/history?{query}")
            assert status == 200
            assert 100_000 < len(text.encode()) < 1_000_000
            assert text.count('"name":"other"') == 4

    asyncio.run(story())


@pytest.mark.rule("dashboard#history-trouble")
def test_a_damaged_file_is_told_on_the_page_and_in_the_metric_and_pages_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / FILE).write_bytes(b"nonsense" * 4096)
        async with dashboard_world(data_dir=str(tmp_path)) as world:
            await sampled(world)
            assert "was set aside as" in (await world.get("/about"))[1]
            assert "was set aside as" in (await world.json("/api/v1/x/history?family=states"))["problem"]
            metrics = (await world.get("/metrics"))[1]
            assert 'bigfleet_dashboard_history_problem{problem="damaged"} 1.0' in metrics
            assert 'bigfleet_dashboard_history_samples_total{outcome="kept"}' in metrics
            assert (await world.get("/"))[0] == 200

    asyncio.run(story())
