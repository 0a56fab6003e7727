"""`bigfleet snapshot`: what a running shard decided on last, as a document.

Why: a decision of a live fleet can be saved, replayed, explained and changed on paper.
Must never: print a document that is not whole.
Rules: snapshot section 4.
"""

from pydantic import Field

from bigfleet.cli.framework.command import Command
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Dial
from bigfleet.cli.verbs.live_shard import ShardFlags, ask, snapshot_document


class SnapshotSettings(ShardFlags, env_prefix="BIGFLEET_SNAPSHOT_"):
    """Flags of `bigfleet snapshot`."""

    shard: Dial = Field(description="gRPC address of a running shard, host:port")


def _snapshot(settings: SnapshotSettings, console: Console) -> int:
    data = ask(
        settings, settings.shard, console, lambda channel: snapshot_document(channel, settings.timeout)
    )
    console.stdout.write(data.decode())
    return ExitCode.DONE


SNAPSHOT = Command(
    SnapshotSettings,
    _snapshot,
    """Print the snapshot document of a running shard's last cycle: machines, demand and whatever else the decision
    depended on, consistent with that one cycle. bigfleet decide on it gives the very actions that the cycle decided;
    bigfleet explain and what-if take it too. Nothing is changed.

    It holds the whole demand of the shard's clusters, so treat it as confidential; it holds no bootstrap blobs.""",
    (
        "bigfleet snapshot --shard shard-0:7780 > snapshot.json",
        "bigfleet snapshot --shard shard-0:7780 | bigfleet decide -",
    ),
)
