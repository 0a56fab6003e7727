"""`bigfleet provider-admin`: actions that only a person on the provider's host may take.

Why: no call of the contract leads out of Failed; a person has to inspect the machine and confirm its state.
Must never: call a provider over the network; the socket is a file that only its owner can open.
Rules: `providers#repair`.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
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
