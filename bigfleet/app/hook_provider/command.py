"""Flags and defaults of `bigfleet-hook-provider`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `providers#hook`, `packaging#settings-sources`, `packaging#exit-codes`.
"""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from bigfleet.app.provider_flags import ProviderFlags, check_certificates
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.kinds import Cli, Duration, HttpListen, Listen, OptionalPath
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.transport.address import ListenAddress

MEMORY: Final = "memory"
_LOOPBACK: Final = "127.0.0.1"


class HookProviderSettings(ProviderFlags, OutputFlags, env_prefix="BIGFLEET_HOOK_PROVIDER_"):
    """Flags of `bigfleet-hook-provider`."""

    inventory: tuple[Path, ...] = Field(
        description="files or directories of YAML, JSON or CSV; read again when they change"
    )
    check: bool = Field(
        default=False, description="validate the inventory, run every hook with BF_DRY_RUN=1, and exit"
    )
    addr: Listen = Field(default=ListenAddress(_LOOPBACK, 9000), description="gRPC address")
    metrics_addr: HttpListen = Field(
        default=ListenAddress(_LOOPBACK, 9090), description="address of metrics and probes"
    )
    state: Annotated[str, Cli(metavar="DIR")] = Field(
        default="",
        description="directory of the bindings, required to serve; the word memory keeps nothing, for trials",
    )
    blob_dir: Annotated[OptionalPath, Cli(metavar="DIR", default="blobs in the state directory")] = Field(
        default=None,
        description="private directory for bootstrap blobs while a hook runs, preferably in memory",
    )
    admin_socket: Annotated[OptionalPath, Cli(default="admin.sock in the state directory")] = Field(
        default=None, description="local socket for bigfleet provider-admin"
    )
    parallel: int = Field(default=16, ge=1, description="hooks that may run at once, at most one per machine")
    create_timeout: Duration = Field(
        default=300.0, description="longest time of a create hook, including retries"
    )
    configure_timeout: Duration = Field(
        default=300.0, description="longest time from configure to Ready, including retries"
    )
    drain_timeout: Duration = Field(
        default=600.0, description="longest time of a drain hook after the grace, including retries"
    )
    delete_timeout: Duration = Field(
        default=300.0, description="longest time of a delete hook, including retries"
    )
    ready_interval: Duration = Field(
        default=5.0, description="time between two checks whether a node is Ready"
    )
    probe_interval: Duration = Field(default=60.0, description="time between two rounds of the probe hook")
    watch_interval: Duration = Field(
        default=5.0, description="time between two checks of the inventory files"
    )
    refresh_interval: Duration = Field(
        default=120.0, description="time between two comparisons of inventory and records; 0 = only on change"
    )


def _run(settings: HookProviderSettings, console: Console) -> int:
    from bigfleet.app.hook_provider.serve import check, serve

    if not settings.inventory:
        raise UsageError(
            "--inventory: found nothing, allowed is a file or a directory, more than one with commas"
        )
    if settings.check:
        return check(settings, console)
    if not settings.state:
        raise UsageError(f"--state: missing, allowed is a directory, or the word {MEMORY} to keep nothing")
    check_certificates(settings)
    return serve(settings, console)


SERVE = CliCommand(
    HookProviderSettings,
    _run,
    """Serve the machines of an inventory to shards. Hooks act on the machines: executable files of the machine's owner, which
    get its record on standard input. Without create and delete hooks the machines are existing hosts and begin Idle; with
    both they begin Speculative and are powered on and off.

    The inventory is read again when it changes and on SIGHUP. An invalid inventory is reported and changes nothing.""",
    (
        "bigfleet-hook-provider --inventory hall-7.yaml --check",
        "bigfleet-hook-provider --inventory hall-7.yaml --state /var/lib/bigfleet-hook",
        "bigfleet-hook-provider --inventory /etc/bf/inventory.d --state memory --addr :9000",
    ),
)
