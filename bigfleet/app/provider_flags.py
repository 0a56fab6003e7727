"""Flags that the provider programs share.

Must never: import the server code, since `--help` has to be quick.
Rules: `packaging#settings-sources`, `providers#transport`.
"""

from pydantic import Field

from bigfleet.cli.framework.settings import ConnectionFlags, ProcessFlags, TlsFlags


class ProviderFlags(ProcessFlags, TlsFlags, ConnectionFlags):
    """Flags of every provider program."""

    reflection: bool = Field(default=True, description="serve gRPC reflection")
