"""Flags and defaults of `bigfleet-fault-provider`.

Must never: import the server code before the command runs, since `--help` has to be quick.
Rules: `providers#fault-convention`, `packaging#settings-sources`, `packaging#exit-codes`.
"""

from typing import Annotated, Final

from pydantic import Field

from bigfleet.app.provider_flags import ProviderFlags, check_certificates
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.kinds import Cli, Duration, HttpListen, Listen, OptionalPath
from bigfleet.transport.address import ListenAddress

_LOOPBACK: Final = "127.0.0.1"


class FaultProviderSettings(ProviderFlags, env_prefix="BIGFLEET_FAULT_PROVIDER_"):
    """Flags of `bigfleet-fault-provider`."""

    addr: Listen = Field(default=ListenAddress(_LOOPBACK, 9400), description="gRPC address")
    metrics_addr: HttpListen = Field(default=None, description="address of metrics and probes")
    provider: str = Field(
        default="fault", min_length=1, description="provider name in host references and ids"
    )
    seed_count: int = Field(
        default=64, ge=0, description="number of slots, besides the eight whose Create fails"
    )
    transition_timeout: Duration = Field(
        default=2.0, gt=0, description="longest time of an operation; a Drain also has its grace"
    )
    state: Annotated[OptionalPath, Cli(metavar="DIR", default="memory")] = Field(
        default=None, description="directory of the state"
    )


def _run(settings: FaultProviderSettings, console: Console) -> int:
    from bigfleet.app.fault_provider.serve import serve

    check_certificates(settings)
    return serve(settings, console)


SERVE = CliCommand(
    FaultProviderSettings,
    _run,
    """Serve slots that fail on command. The cluster of a Configure is the command: fault-error fails at once, fault-timeout
    hangs until the timeout, fault-slow-ok succeeds one second late, fault-drain-error fails in the next Drain, and
    fault-readiness-block never becomes Ready. Eight slots labelled conformance.fault/create=error fail in Create.""",
    (
        "bigfleet-fault-provider",
        "bigfleet-fault-provider --addr 127.0.0.1:9400 --seed-count 256 --transition-timeout 2s",
    ),
)
