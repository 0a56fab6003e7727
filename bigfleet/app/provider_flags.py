"""Flags that the provider programs share.

Must never: import the server code, since `--help` has to be quick.
Rules: `packaging#settings-sources`, `providers#transport`, `providers#shard-san`, `providers#empty-token`,
`providers#epoch-step`.
"""

from typing import Annotated

from pydantic import Field

from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.settings import ConnectionFlags, ProcessFlags, TlsFlags
from bigfleet.provider.contract import MAX_EPOCH_STEP


class ProviderFlags(ProcessFlags, TlsFlags, ConnectionFlags):
    """Flags of every provider program."""

    reflection: bool = Field(default=True, description="serve gRPC reflection")
    require_shard_san: Annotated[bool | None, Cli(default="on with TLS")] = Field(
        default=None,
        description="admit only certificates of shards, each in the name of its shard, as one authority signs those of tenants too",
    )
    require_fencing: Annotated[bool | None, Cli(default="on with TLS")] = Field(
        default=None,
        description="refuse mutating calls without a fencing token, as an outdated process could make them",
    )
    max_epoch_step: Annotated[int, Cli(limit=True)] = Field(
        default=MAX_EPOCH_STEP,
        ge=1,
        description="how far a token may be above the highest epoch seen of a shard of ours, as a mark out of reach would "
        "block its machines",
    )


def check_certificates(settings: ProviderFlags) -> None:
    """Refuse to require certificates where there are none."""
    if settings.require_shard_san and settings.tls_cert is None:
        raise UsageError(
            "--require-shard-san: found without the TLS flags, allowed is with all three of them"
        )
