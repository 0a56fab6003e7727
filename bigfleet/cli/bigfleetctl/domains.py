"""`bigfleetctl list-domain-assignments`, `assign-domain` and `unassign-domain`: which shard owns which domain.

Rules: coordinator 15, packaging 1.9.
"""

from typing import TYPE_CHECKING, Final

from pydantic import Field

from bigfleet.cli.bigfleetctl.output import done, listing
from bigfleet.cli.bigfleetctl.settings import CtlFlags
from bigfleet.cli.framework.command import Command
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import Column

if TYPE_CHECKING:  # gRPC is imported by the verbs as they run, so that --help stays quick
    from bigfleet.cli.bigfleetctl.client import Ctl

_COLUMNS: Final = (
    Column("TOPOLOGY_KEY", "topology_key"),
    Column("TOPOLOGY_VALUE", "topology_value"),
    Column("SHARD", "shard_id"),
)


class ListDomainsSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl list-domain-assignments`."""

    shard: str = Field(default="", description="only domains of this shard")


class UnassignSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl unassign-domain`."""

    key: str = Field(min_length=1, description="label key of the domain")
    value: str = Field(min_length=1, description="label value of the domain")


class AssignSettings(UnassignSettings, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl assign-domain`."""

    shard: str = Field(min_length=1, description="id of the shard that gets it")


def _list(settings: ListDomainsSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import LIST_DOMAIN_ASSIGNMENTS
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "Ctl") -> int:
        found = (await ctl.call(LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest())).assignments
        rows = [
            {
                "topology_key": row.topology_key,
                "topology_value": row.topology_value,
                "shard_id": row.shard_id,
            }
            for row in found
            if settings.shard in ("", row.shard_id)
        ]
        listing(console, settings, name="assignments", columns=_COLUMNS, wire=rows, shown=rows)
        return ExitCode.DONE

    return run_with(settings, console, ask)


def _assign(settings: AssignSettings, console: Console) -> int:
    from bigfleet.aio.net import Code
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import ASSIGN_DOMAIN
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "Ctl") -> int:
        wire = {
            "topology_key": settings.key,
            "topology_value": settings.value,
            "shard_id": settings.shard,
        }
        await ctl.call(ASSIGN_DOMAIN, pb.AssignDomainRequest(**wire))
        done(console, settings, f"assigned {settings.key}={settings.value} → {settings.shard}", wire)
        return ExitCode.DONE

    hints = {
        Code.NOT_FOUND: "a shard registers with its first report, bigfleetctl list-shards shows who has",
        Code.ALREADY_EXISTS: "bigfleetctl unassign-domain takes it from there",
    }
    return run_with(settings, console, ask, hints=hints)


def _unassign(settings: UnassignSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import UNASSIGN_DOMAIN
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "Ctl") -> int:
        wire = {"topology_key": settings.key, "topology_value": settings.value}
        await ctl.call(UNASSIGN_DOMAIN, pb.UnassignDomainRequest(**wire))
        done(console, settings, f"unassigned {settings.key}={settings.value}", wire)
        return ExitCode.DONE

    return run_with(settings, console, ask)


LIST = Command(
    ListDomainsSettings,
    _list,
    """List which shard owns which domain, by shard, key and value. A domain is all machines whose label has one value.""",
    ("bigfleetctl list-domain-assignments", "bigfleetctl domains list --shard shard-0 -o json"),
)
ASSIGN = Command(
    AssignSettings,
    _assign,
    """Give a domain to a shard. Again to its owner is fine; a domain of another shard is refused until it is unassigned. It
    changes no decision of a shard that owns its provider alone.""",
    ("bigfleetctl assign-domain --key topology.kubernetes.io/rack --value r17 --shard shard-0",),
)
UNASSIGN = Command(
    UnassignSettings,
    _unassign,
    """Take a domain from its owner. One that nobody owns is fine.""",
    ("bigfleetctl unassign-domain --key topology.kubernetes.io/rack --value r17",),
)
