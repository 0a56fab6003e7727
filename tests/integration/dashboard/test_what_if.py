"""What-if over HTTP: horizon, base that is kept, explanations in the changed world, bad questions.

Rules: `dashboard#what-if`, `dashboard#what-if-difference`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.document.snapshot import write_situation
from bigfleet.transport import shard_reading as calls
from tests.integration.dashboard.test_api import Counting
from tests.integration.dashboard.world import World, dashboard_world, situation

pytestmark = pytest.mark.integration
Ask = Callable[..., Awaitable[tuple[int, Any]]]  # Any: what JSON can say
MORE = [{"edit": "add_machines", "count": 100, "like": "i-0"}]


def run(story: Callable[[World, Ask], Awaitable[None]]) -> None:
    async def play() -> None:
        async with dashboard_world() as world:

            async def ask(body: bytes | None = None, **question: object) -> tuple[int, Any]:
                sent = json.dumps({"shard": "shard-0", **question}).encode() if body is None else body
                headers = {"Content-Type": "application/json"}
                url = f"{world.url}/api/v1/x/whatif"
                async with world.session.post(url, data=sent, headers=headers) as answer:
                    return answer.status, await answer.json()

            await story(world, ask)

    asyncio.run(play())


@pytest.mark.rule("dashboard#what-if-difference")
def test_no_edit_no_difference_machines_satisfy_and_a_lost_zone_breaks() -> None:
    async def story(_world: World, ask: Ask) -> None:
        assert [(status, reply["same"]) for status, reply in [await ask()]] == [(200, True)]
        _, reply = await ask(edits=MORE)
        changes = {row["cluster"]: row["change"] for row in reply["needs"]}
        assert changes["batch"] == "becomes satisfied"
        assert (reply["base"]["shard"], reply["base"]["cycle"]) == ("shard-0", 1)
        _, reply = await ask(edits=[{"edit": "lose_zone", "zone": "z1"}])
        assert {row["change"] for row in reply["needs"]} <= {"becomes short", "shorter", "less short"}
        assert (
            reply["totals"]["machines"]
            == sum(row["count"] for row in reply["machines"])
            > len(reply["machines"])
        )

    run(story)


def test_a_horizon_shows_where_the_change_ends() -> None:
    async def story(_world: World, ask: Ask) -> None:
        _, now = await ask(edits=MORE)
        _, then = await ask(edits=MORE, horizon={"until": "quiet", "create_seconds": 90})
        assert {row["after"].split()[0] for row in now["machines"]} >= {"Provision"}
        assert then["horizon"]["quiet"] == {"before": True, "after": True}
        assert then["horizon"]["seconds"]["after"] >= 90
        assert any(row["after"] == "Configured for batch" for row in then["machines"])

    run(story)


def test_rows_of_an_answer_are_explained_in_the_very_world_they_are_about() -> None:
    async def story(world: World, ask: Ask) -> None:
        _, reply = await ask(edits=MORE)
        (need,) = [row for row in reply["needs"] if row["cluster"] == "batch"]
        world.complete(given=situation(needs=()))  # the shard moves on; the kept snapshot does not
        same = {"edits": MORE, "cycle": reply["base"]["cycle"]}
        _, why = await ask(**same, explain={"need": need["needs"][0]})
        assert why["explanation"]["satisfied"] is True
        assert why["tables"][0]["title"] == "Steps of the decision"
        _, why = await ask(**same, explain={"machine": "added-0000"})
        assert "batch" in why["explanation"]["sentence"]
        status, reply = await ask(edits=MORE, cycle=77)
        assert (status, "cycle 77 of shard shard-0 is not kept any more" in reply["error"]) == (404, True)

    run(story)


def test_a_snapshot_may_come_with_the_question() -> None:
    async def story(_world: World, ask: Ask) -> None:
        given = json.loads(write_situation(situation()))
        status, reply = await ask(json.dumps({"snapshot": given, "edits": MORE}).encode())
        assert (status, reply["base"]) == (200, {"shard": "", "cycle": 0, "address": ""})
        status, reply = await ask(json.dumps({"snapshot": {"version": 2}}).encode())
        assert (status, "version" in reply["error"]) == (400, True)

    run(story)


def test_the_answer_to_a_bad_question_names_the_mistake() -> None:
    async def story(_world: World, ask: Ask) -> None:
        bad: list[tuple[dict[str, Any], str]] = [
            ({"edits": {}}, "edits: found '{}', allowed is a list"),
            ({"edits": [{"edit": "lose_everything"}]}, "edits[0].edit"),
            ({"horizon": {"until": "dawn"}}, "horizon.until: found 'dawn', allowed is cycle or quiet"),
            ({"horizon": {"create_seconds": -1}}, "horizon.create_seconds: found '-1', allowed is a number"),
            ({"horizon": []}, "horizon: found '[]', allowed is an object with until"),
            ({"explain": {"need": "x"}}, "explain: found"),
            ({"explain": {"need": 99}}, "need: found"),
            ({"cycle": "last"}, "cycle: found 'last', allowed is the cycle of an answer"),
            ({"shard": ""}, "shard: found '', allowed is the name of a shard"),
            ({"colour": 1}, "colour: found 'colour', allowed is one of shard"),
        ]
        for question, words in bad:
            status, reply = await ask(**question)
            assert (status, words in reply["error"]) == (400, True), (question, reply)
        for body in (b"[", b"[]", b"\xff", b'{"edits": NaN}', b'{"shard": "\\ud800"}', b"[" * 100_000):
            status, reply = await ask(body)
            assert (status, "body: found" in reply["error"]) == (400, True), (body[:20], reply)

    run(story)


@pytest.mark.rule("dashboard#what-if-difference")
def test_a_shard_does_no_more_for_a_question_than_hand_out_its_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So its cycles cannot be felt to differ: the engine runs in a process that the dashboard starts for it."""

    def here(*_given: object, **_named: object) -> None:
        raise AssertionError("the question was answered in this process")

    async def story(world: World, ask: Ask) -> None:
        reader = world.dashboard.fleet.shard("shard-0")
        reader._channel = channel = Counting(reader._channel)  # type: ignore[assignment]
        assert (await ask(edits=[]))[1]["same"] is True
        looks = (calls.GET_STATUS, calls.LIST_SHORTFALLS, calls.WATCH_CYCLES)
        assert [one for one in channel.asked if one not in looks] == [calls.GET_SNAPSHOT]

    monkeypatch.setattr("bigfleet.dashboard.what_if_process.answered", here)
    monkeypatch.setattr("bigfleet.explain.what_if.run_what_if", here)
    run(story)
