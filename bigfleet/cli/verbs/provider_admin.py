"""`bigfleet provider-admin`: what only a person at the provider's own host may do.

Why: no call of the contract leads out of Failed; somebody has to look at the machine and vouch for it.
Must never: speak to a provider over the network; the socket is a file that its owner alone can open.
Rules: providers 4.1 (human repair).
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bigfleet.cli.framework.command import Command
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


REPAIR = Command(
    RepairSettings,
    _repair,
    """Bring a Failed machine back after somebody has looked at it; there is no other way out of Failed. Its binding and
    its error are cleared, with --to speculative its host too. Only Failed machines can be repaired, and the provider
    writes down who asked.

    Run it on the provider's host, as the user that the provider runs as.""",
    (
        "bigfleet provider-admin repair r12u07 --to idle --socket /var/lib/metal/admin.sock",
        "bigfleet provider-admin repair spot/eu-1/0042 --to speculative",
    ),
)
