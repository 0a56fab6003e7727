"""Flags that the provider programs share.

Must never: import the server code, since `--help` has to be quick.
Rules: `packaging#settings-sources`, `providers#transport`, `providers#shard-san`, `providers#empty-token`,
`providers#epoch-step`.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

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
    max_epoch_step: int = Field(
        default=MAX_EPOCH_STEP,
        ge=1,
        description="how far a token may be above the highest epoch seen of a shard of ours, as a mark out of reach would "
        "block its machines",
    )

    @model_validator(mode="after")
    def _certificates_to_look_at(self) -> Self:
        if self.require_shard_san and self.tls_cert is None:
            raise ValueError(
                "--require-shard-san: found without the TLS flags, allowed is with all three of them"
            )
        return self
