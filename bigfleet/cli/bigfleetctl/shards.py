"""`bigfleetctl list-shards` and `remove-shard`: the registry of shards.

Must never: remove a live shard without a confirming flag (`coordinator#ghosts`).
Rules: `coordinator#bigfleetctl`, `packaging#bigfleetctl`.
"""

from typing import TYPE_CHECKING, Final

from pydantic import Field

from bigfleet.cli.bigfleetctl.output import age, done, listing
from bigfleet.cli.bigfleetctl.settings import CtlFlags
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import Column, time_of

if TYPE_CHECKING:  # gRPC takes longer to import than --help may
    from bigfleet.cli.bigfleetctl.client import LeaderConnection

_ALIVE_S: Final = 30.0
_COLUMNS: Final = (
    Column("SHARD", "shard"),
    Column("ADDRESS", "address"),
    Column("REGISTERED", "registered"),
    Column("LAST_HEARTBEAT", "heartbeat"),
    Column("AGE", "age", wide=True),
)


class ListShardsSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl list-shards`."""


class RemoveShardSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl remove-shard`."""

    shard: str = Field(min_length=1, description="id of the shard")
    destroyed: bool = Field(
        default=False, description="confirm that the shard's process and disk are gone for good"
    )
    yes: bool = Field(default=False, description="remove the shard although it reported a moment ago")


def _list(settings: ListShardsSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import LIST_SHARDS
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "LeaderConnection") -> int:
        shards = (await ctl.call(LIST_SHARDS, pb.ListShardsRequest())).shards
        listing(
            console,
            settings,
            name="shards",
            columns=_COLUMNS,
            wire=[
                {
                    "shard_id": shard.shard_id,
                    "address": shard.address,
                    "registered_at_unix_ns": shard.registered_at_unix_ns,
                    "last_heartbeat_unix_ns": shard.last_heartbeat_unix_ns,
                }
                for shard in shards
            ],
            shown=[
                {
                    "shard": shard.shard_id,
                    "address": shard.address or None,
                    "registered": time_of(shard.registered_at_unix_ns),
                    "heartbeat": time_of(shard.last_heartbeat_unix_ns),
                    "age": age(shard.last_heartbeat_unix_ns, console.now(), shard.last_heartbeat_age_nanos),
                }
                for shard in shards
            ],
        )
        return ExitCode.DONE

    return run_with(settings, console, ask)


def _remove(settings: RemoveShardSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import REMOVE_SHARD
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "LeaderConnection") -> int:
        await _check_removal(ctl, settings, console)
        request = pb.RemoveShardRequest(shard_id=settings.shard, destroyed=settings.destroyed)
        await ctl.call(REMOVE_SHARD, request)
        wire = {"shard_id": settings.shard, "destroyed": settings.destroyed}
        done(console, settings, f"removed shard {settings.shard}", wire)
        return ExitCode.DONE

    return run_with(settings, console, ask)


async def _check_removal(ctl: "LeaderConnection", settings: RemoveShardSettings, console: Console) -> None:
    """Refuse to remove a live shard without a confirming flag, and warn about side effects."""
    from bigfleet.transport.coordinator import (
        LIST_DOMAIN_ASSIGNMENTS,
        LIST_SHARD_REPORTS,
        LIST_SHARDS,
    )
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    shards = (await ctl.call(LIST_SHARDS, pb.ListShardsRequest())).shards
    heard = next((row for row in shards if row.shard_id == settings.shard), pb.ShardRegistryEntry())
    heard_ns, age_ns = heard.last_heartbeat_unix_ns, heard.last_heartbeat_age_nanos
    since_s = age_ns / 1e9 if age_ns else console.now().timestamp() - heard_ns / 1e9
    if heard_ns and since_s <= _ALIVE_S and not (settings.yes or settings.destroyed):
        raise CommandError(
            f"shard {settings.shard} reported {max(0, since_s):.0f} s ago and would register again; use --yes to remove it, "
            "or --destroyed if its process and disk are gone",
            ExitCode.REFUSED,
        )
    assignments = (await ctl.call(LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest())).assignments
    lost = sum(row.shard_id == settings.shard for row in assignments)
    if lost:
        console.stderr.write(f"warning: {lost} domain rows of shard {settings.shard} are removed with it\n")
    request = pb.ListShardReportsRequest(shard_id=settings.shard)
    reports = (await ctl.call(LIST_SHARD_REPORTS, request)).reports
    if reports and reports[0].summary.partition_key and not settings.destroyed:
        console.stderr.write(
            f"warning: shard {settings.shard} shares its provider and leaves a ghost, which keeps domains from moving "
            "until the shard is back or is removed with --destroyed\n"
        )


LIST = CliCommand(
    ListShardsSettings,
    _list,
    """List the registered shards with their address and the time of their last report to the leader. A dash under
    LAST_HEARTBEAT means none since this leader was elected.""",
    ("bigfleetctl list-shards", "bigfleetctl shards list -o json"),
)
REMOVE = CliCommand(
    RemoveShardSettings,
    _remove,
    """Remove a shard with its domains and clusters. A live shard registers again with its next report, for example with a
    changed address; its domains must then be assigned again.

    --destroyed confirms that process and disk are gone, so that its machines can be given to other shards.""",
    (
        "bigfleetctl remove-shard --shard shard-3 --destroyed",
        "bigfleetctl shards remove --shard shard-3 --yes",
    ),
)
