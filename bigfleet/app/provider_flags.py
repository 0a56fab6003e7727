"""Flags that the fake and the fault provider share.

Must never: import what serves; `--help` has to be quick.
Rules: packaging 1.2, providers 1.11.
"""

from pydantic import Field

from bigfleet.cli.framework.settings import ProcessFlags, TlsFlags


class ProviderFlags(ProcessFlags, TlsFlags):
    """What both programs understand; the TLS flags are all or none."""

    reflection: bool = Field(default=True, description="serve gRPC reflection")
