"""`bigfleet provider-admin`: actions that only a person on the provider's host may take.

Why: no call of the contract leads out of Failed or lowers a fence mark; a person has to look and confirm what is right.
Must never: call a provider over the network; the socket is a file that only its owner can open.
Rules: `providers#repair`, `providers#reset-marks`.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, OptionalPath
from bigfleet.cli.framework.settings import Flags


class RepairSettings(Flags, env_prefix="BIGFLEET_PROVIDER_ADMIN_REPAIR_"):
    """Flags of `bigfleet provider-admin repair`."""

    machine_id: Annotated[str, Cli(positional=True, metavar="ID")] = Field(
        min_length=1, description="id of the Failed machine"
    )
    to: Literal["idle", "speculative"] = Field(
        description="idle: the host is good again and empty; speculative: the host is gone"
    )
    socket: Annotated[Path, Cli(metavar="FILE")] = Field(
        default=Path("admin.sock"), description="admin socket of the provider"
    )


def _repair(settings: RepairSettings, console: Console) -> int:
    import asyncio

    from bigfleet.provider.kit.admin import AdminError, AdminUnreachableError, ask_repair

    try:
        asyncio.run(ask_repair(settings.socket, settings.machine_id, settings.to))
    except AdminUnreachableError as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE) from error
    except AdminError as error:
        raise CommandError(str(error), ExitCode.REFUSED) from error
    console.print(f"{settings.machine_id} is {settings.to.capitalize()} again")
    return ExitCode.DONE


REPAIR = CliCommand(
    RepairSettings,
    _repair,
    """Bring a Failed machine back after a person has inspected it; there is no other way out of Failed. This clears its
    binding and its error, with --to speculative also its host. Only Failed machines can be repaired, and the provider
    records the user in its audit log.

    Run it on the provider's host, as the user that the provider runs as.""",
    (
        "bigfleet provider-admin repair r12u07 --to idle --socket /var/lib/metal/admin.sock",
        "bigfleet provider-admin repair spot/eu-1/0042 --to speculative",
    ),
)


class ResetMarksSettings(Flags, env_prefix="BIGFLEET_PROVIDER_ADMIN_RESET_MARKS_"):
    """Flags of `bigfleet provider-admin reset-marks`."""

    shard: str = Field(min_length=1, description="id of the shard whose marks are too high")
    epoch: int = Field(
        ge=0,
        le=2**63 - 1,
        description="epoch of its right process: the number in the file epoch of its data directory",
    )
    socket: Annotated[OptionalPath, Cli(metavar="FILE")] = Field(
        default=None, description="admin socket of a running provider"
    )
    state: Annotated[OptionalPath, Cli(metavar="DIR")] = Field(
        default=None, description="state directory of a provider that does not run"
    )


def _reset_marks(settings: ResetMarksSettings, console: Console) -> int:
    import asyncio

    from bigfleet.model.errors import BigFleetError
    from bigfleet.provider.kit.admin import AdminUnreachableError

    if (settings.socket is None) == (settings.state is None):
        found = "neither" if settings.socket is None else "both"
        raise UsageError(
            f"--socket, --state: found {found}, allowed is --socket for a running provider or --state for a stopped one"
        )
    try:
        lowered = asyncio.run(_lowered(settings))
    except AdminUnreachableError as error:
        raise CommandError(str(error), ExitCode.UNAVAILABLE) from error
    except BigFleetError as error:
        raise CommandError(str(error), ExitCode.REFUSED) from error
    counted = {0: "no mark was", 1: "1 mark was"}.get(lowered, f"{lowered} marks were")
    console.print(f"{settings.shard}: {counted} above epoch {settings.epoch}, which now passes")
    return ExitCode.DONE


async def _lowered(settings: ResetMarksSettings) -> int:
    import os

    from bigfleet.aio.clock import SystemClock
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.provider.kit.admin import ask_reset_marks
    from bigfleet.provider.kit.reset_marks import checked_reset, reset_stored_marks

    if settings.socket is not None:
        return await ask_reset_marks(settings.socket, settings.shard, settings.epoch)
    who = f"uid {os.getuid()}, pid {os.getpid()}"
    change = checked_reset(settings.shard, settings.epoch)
    return await reset_stored_marks(SystemDisk(), SystemClock(), settings.state or "", change, who)


RESET_MARKS = CliCommand(
    ResetMarksSettings,
    _reset_marks,
    """Lower the fence marks of a shard that are above the epoch of its right process, after a wrong or forged epoch. Calls
    of that epoch then pass again, on every machine; older ones stay refused. The provider records the user in its
    audit log.

    Run it on the provider's host, as the user that the provider runs as, and only when no other process of the shard is
    alive: a mark above the epoch may be the trace of one.""",
    (
        "bigfleet provider-admin reset-marks --shard shard-0 --epoch 7 --socket /var/lib/metal/admin.sock",
        "bigfleet provider-admin reset-marks --shard shard-0 --epoch 7 --state /var/lib/metal",
    ),
)
