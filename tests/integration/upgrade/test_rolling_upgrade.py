"""A fleet goes from version N to N+1 part by part, and works at every moment of it.

Rules: `packaging#upgrade`, `coordinator#command-levels`.
"""

import signal
from itertools import permutations
from pathlib import Path

import pytest

from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from tests.integration.upgrade.builds import NEXT_LEVEL, NEXT_VERSION, Build, definitions_of
from tests.integration.upgrade.fleet import Fleet, fleet
from tests.support.program import http_get

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

COORDINATORS = ("coordinator-2", "coordinator-1", "coordinator-0")


async def is_raised(here: Fleet) -> None:
    """Wait until every replica has applied the raise of the level."""

    async def raised() -> bool:
        return min([await here.level(ordinal) for ordinal in range(3)]) >= NEXT_LEVEL

    await here.fact(f"the level is raised to {NEXT_LEVEL}", raised)


async def is_outgrown(here: Fleet, old: Build, new: Build) -> None:
    """Bring one replica back to the old version: it must not go on, and its directory must stay good for the new one."""
    ordinal = await here.coordinators.leader()
    member = here.coordinators.members[ordinal]
    here.coordinators.signal(ordinal, signal.SIGTERM)
    assert await here.coordinators.exit_code(ordinal) == 0
    member.checkout = old.root
    here.coordinators.start(ordinal)
    assert await here.coordinators.exit_code(ordinal) == 71
    last = member.log_text().splitlines()[-1]
    assert f"level {NEXT_LEVEL}" in last
    assert "this version" in last
    assert await here.notes() == {
        "noted": "by the new command"
    }  # another replica leads, with all that was written
    member.checkout = new.root
    here.coordinators.start(ordinal)
    await here.coordinators.formed()


async def is_complete(here: Fleet, old: Build, new: Build) -> None:
    """Show what only the new version can, and that there is no way back from it."""
    assert {build.version for part, build in here.builds.items() if part != "provider"} == {NEXT_VERSION}
    await is_raised(here)
    await here.assign("noted", note="by the new command")
    assert await here.notes() == {"noted": "by the new command"}
    await is_outgrown(here, old, new)
    assert await here.notes() == {"noted": "by the new command"}
    await here.works()


@pytest.mark.rule("packaging#upgrade")
async def test_a_fleet_is_upgraded_part_by_part_with_a_step_back_on_the_way(
    tmp_path: Path, old: Build, new: Build
) -> None:
    before, after = definitions_of(old), definitions_of(new)
    async with fleet(tmp_path, before) as here:
        await here.start(old)
        assert "note" not in (await here.ask_for_a_machine(note="too early"))["spec"]
        here.install(after)  # custom resources first; the operator of before reads what it knows
        assert (await here.ask_for_a_machine(note="kept"))["spec"]["note"] == "kept"
        await here.works()
        for part, build in (
            ("coordinator-2", new),
            ("operator", new),  # before its shard
            ("shard", new),
            ("operator", old),  # back, behind its shard
            ("coordinator-1", new),
        ):
            await here.replace(part, build)
            await here.works()
        # One voter does not know the new command: it must not be proposed, whoever leads, or that voter would end.
        await here.assign("early", note="too early")
        assert await here.notes() == {}
        assert [await here.level(ordinal) for ordinal in (1, 2)] == [KNOWN_LEVEL, KNOWN_LEVEL]
        await here.replace("coordinator-0", new)
        await here.replace("operator", new)
        await is_complete(here, old, new)


@pytest.mark.rule("packaging#upgrade")
@pytest.mark.long
@pytest.mark.parametrize("order", list(permutations(("coordinators", "shard", "operator"))), ids="-".join)
async def test_any_order_will_do(tmp_path: Path, old: Build, new: Build, order: tuple[str, ...]) -> None:
    async with fleet(tmp_path, definitions_of(old)) as here:
        await here.start(old)
        resources_last = order[0] == "operator"  # then the new operator meets the resources of before
        if not resources_last:
            here.install(definitions_of(new))
        for group in order:
            for part in COORDINATORS if group == "coordinators" else (group,):
                await here.replace(part, new)
                await here.works()
        if resources_last:
            here.install(definitions_of(new))
            await here.works()
        await is_complete(here, old, new)


@pytest.mark.long
async def test_before_the_level_is_raised_everything_may_go_back(
    tmp_path: Path, old: Build, new: Build
) -> None:
    async with fleet(tmp_path, definitions_of(old)) as here:
        await here.start(old)
        for part in ("shard", "operator", "coordinator-2", "coordinator-0"):
            await here.replace(part, new)
            await here.works()
        for part in ("coordinator-0", "shard", "coordinator-2", "operator"):
            await here.replace(part, old)
            await here.works()


@pytest.mark.long
async def test_a_replica_that_was_killed_in_mid_upgrade_goes_on_in_either_version(
    tmp_path: Path, old: Build, new: Build
) -> None:
    async with fleet(tmp_path, definitions_of(old)) as here:
        await here.start(old)
        for build in (new, old, new):
            for ordinal in range(2):
                await here.coordinators.kill(ordinal)
                here.coordinators.members[ordinal].checkout = build.root
                here.coordinators.start(ordinal)
                await here.coordinators.formed()
                _, page = await http_get(here.coordinators.members[ordinal].metrics_port, "/metrics")
                assert f'version="{build.version}"' in page
            await here.works()
