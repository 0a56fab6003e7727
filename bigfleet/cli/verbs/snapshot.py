"""`bigfleet snapshot`: prints the snapshot of a running shard's last cycle as a document.

Why: a decision of a live fleet can be saved, repeated, explained and edited.
Must never: print an incomplete document.
Rules: `engine#snapshot-live`.
"""

from typing import Annotated

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import SHARD, Dial
from bigfleet.cli.verbs.live_shard import ShardFlags, ask, snapshot_document


class SnapshotSettings(ShardFlags, env_prefix="BIGFLEET_SNAPSHOT_"):
    """Flags of `bigfleet snapshot`."""

    shard: Annotated[Dial, SHARD] = Field(description="gRPC address of a running shard, host:port")


def _snapshot(settings: SnapshotSettings, console: Console) -> int:
    data = ask(
        settings, settings.shard, console, lambda channel: snapshot_document(channel, settings.timeout)
    )
    console.stdout.write(data.decode())
    return ExitCode.DONE


SNAPSHOT = CliCommand(
    SnapshotSettings,
    _snapshot,
    """Print the snapshot document of a running shard's last cycle: machines, demand and everything else that the
    decision depended on. bigfleet decide gives the same actions as the cycle; bigfleet explain and what-if accept it too.
    Nothing is changed.

    It contains the whole demand of the shard's clusters, so treat it as confidential; it contains no bootstrap blobs.""",
    (
        "bigfleet snapshot --shard shard-0:7780 > snapshot.json",
        "bigfleet snapshot --shard shard-0:7780 | bigfleet decide -",
    ),
)
