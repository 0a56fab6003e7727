"""Processes that the kit starts, kills and starts again."""

import sys
from pathlib import Path

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.conformance.errors import LaunchError
from bigfleet.provider.conformance.report import BehaviourStatus
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSizes, Timings
from bigfleet.provider.conformance.system import CommandLauncher, CommandSubstrate, system_settings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


async def test_a_provider_is_killed_restarted_and_judged(start_command: str, tmp_path: Path) -> None:
    base = system_settings()
    settings = system_settings(
        profiles=(ConformanceProfile.CORE, ConformanceProfile.DURABLE),
        launcher=CommandLauncher(start_command, base.net, base.clock, tmp_path),
        fault_launcher=CommandLauncher(f"{start_command} 30", base.net, base.clock, tmp_path),
        only=("A06", "B1001", "B1006", "X08"),
    )
    report = await run("", settings)
    assert [(result.behaviour.id, result.status, result.message) for result in report.results] == [
        (behaviour_id, BehaviourStatus.PASSED, "") for behaviour_id in ("A06", "B1001", "B1006", "X08")
    ]


@pytest.mark.long
async def test_every_durable_and_scale_behaviour_passes_on_a_real_process(
    start_command: str, tmp_path: Path
) -> None:
    base = system_settings()
    settings = system_settings(
        launcher=CommandLauncher(start_command, base.net, base.clock, tmp_path),
        fault_launcher=CommandLauncher(f"{start_command} 30", base.net, base.clock, tmp_path),
        only=("B10*", "B11*", "X07", "X08"),
        sizes=RunSizes(scale_seed=200),
        timings=Timings(soak_s=2.0),
    )
    report = await run("", settings)
    # B1106 and B1107 are bounds on waiting times: on a machine that does other things too they tell of those.
    assert set(report.ids(BehaviourStatus.FAILED, BehaviourStatus.NO_MACHINE, BehaviourStatus.NOT_RUN)) <= {
        "B1106",
        "B1107",
    }


async def test_a_command_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    base = system_settings()
    command = f"{sys.executable} -c \"import sys; sys.exit('no licence for port {{port}}')\""
    with pytest.raises(LaunchError, match=r"exit code 1 at once; its last words: no licence for port \d+"):
        await CommandLauncher(command, base.net, base.clock, tmp_path).start("s", 1)


async def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    base = system_settings()
    with pytest.raises(LaunchError, match="no-such-provider: No such file"):
        await CommandLauncher("no-such-provider {port}", base.net, base.clock, tmp_path).start("s", 1)


async def test_a_command_without_a_place_for_the_port_is_refused(tmp_path: Path) -> None:
    base = system_settings()
    with pytest.raises(
        InvalidFieldError, match=r"--start: found 'provider', allowed is a command that has \{port\}"
    ):
        CommandLauncher("provider", base.net, base.clock, tmp_path)


async def test_the_substrate_is_reached_by_a_command(tmp_path: Path) -> None:
    note = tmp_path / "note"
    script = f"import sys; open({str(note)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))"
    substrate = CommandSubstrate(f'{sys.executable} -c "{script}" {{verb}} {{id}}')
    await substrate.reprice("rack/1 a")
    await substrate.remove("rack/1 a")
    assert note.read_text() == "reprice rack/1 a\nremove rack/1 a\n"
    with pytest.raises(LaunchError, match="exit code 3"):
        await CommandSubstrate(f'{sys.executable} -c "raise SystemExit(3)" {{verb}} {{id}}').remove("m")
