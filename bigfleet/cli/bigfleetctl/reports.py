"""`bigfleetctl reports`: the last report of each shard.

Must never: present an empty list as no demand: a new leader has no reports until shards send them again.
Rules: `coordinator#bigfleetctl`.
"""

from typing import TYPE_CHECKING, Final

from pydantic import Field

from bigfleet.cli.bigfleetctl.output import age, for_programs, listing
from bigfleet.cli.bigfleetctl.settings import CtlFlags
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import Column

if TYPE_CHECKING:  # gRPC takes longer to import than --help may
    from bigfleet.cli.bigfleetctl.client import LeaderConnection
    from bigfleet.v1alpha1.coordinator_pb2 import ShardReportSnapshot

NOTHING: Final = "no reports yet; the leader may be rebuilding"
_COLUMNS: Final = tuple(
    Column(title, title.lower())
    for title in ("SHARD", "CYCLE", "AGE", "TOTAL", "FREE", "PROVIDER", "SHORTFALLS", "OLDEST")
)


class ReportsSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl reports`."""

    shard: str = Field(default="", description="show only the report of this shard")


def _reports(settings: ReportsSettings, console: Console) -> int:
    from google.protobuf.json_format import MessageToDict

    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import LIST_SHARD_REPORTS
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "LeaderConnection") -> int:
        request = pb.ListShardReportsRequest(shard_id=settings.shard)
        reports = (await ctl.call(LIST_SHARD_REPORTS, request)).reports
        if not reports and not for_programs(settings):
            console.print(NOTHING)
            return ExitCode.DONE
        listing(
            console,
            settings,
            name="reports",
            columns=_COLUMNS,
            wire=[
                {
                    **MessageToDict(report, preserving_proto_field_name=True),
                    "cycle": report.cycle,  # protobuf would write these two as strings
                    "received_at_unix_ns": report.received_at_unix_ns,
                }
                for report in reports
            ],
            shown=[_row(report, console) for report in reports],
        )
        return ExitCode.DONE

    return run_with(settings, console, ask)


def _row(report: "ShardReportSnapshot", console: Console) -> dict[str, object]:
    return {
        "shard": report.shard_id,
        "cycle": report.cycle,
        "age": age(report.received_at_unix_ns, console.now(), report.received_age_nanos),
        "total": report.summary.total_machines,
        "free": report.summary.free_machines,
        "provider": report.summary.provider_address or None,
        "shortfalls": len(report.shortfalls),
        "oldest": max((item.age_cycles for item in report.shortfalls), default=None),
    }


REPORTS = CliCommand(
    ReportsSettings,
    _reports,
    """Show the last report of each shard: its machines, its provider, how many profiles it could not serve, and for how many
    cycles the oldest of them has been short. After a failover there are none until shards report again.""",
    ("bigfleetctl reports", "bigfleetctl reports --shard shard-0 -o json"),
)
