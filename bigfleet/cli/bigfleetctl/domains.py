"""`bigfleetctl list-domain-assignments`, `assign-domain` and `unassign-domain`: which shard owns which domain.

Rules: `coordinator#bigfleetctl`, `packaging#bigfleetctl`.
"""

from typing import TYPE_CHECKING, Final

from pydantic import Field

from bigfleet.cli.bigfleetctl.output import done, listing
from bigfleet.cli.bigfleetctl.settings import CtlFlags
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import Column

if TYPE_CHECKING:  # gRPC takes longer to import than --help may
    from bigfleet.cli.bigfleetctl.client import LeaderConnection

_COLUMNS: Final = (
    Column("TOPOLOGY_KEY", "topology_key"),
    Column("TOPOLOGY_VALUE", "topology_value"),
    Column("SHARD", "shard_id"),
)


class ListDomainsSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl list-domain-assignments`."""

    shard: str = Field(default="", description="list only the domains of this shard")


class UnassignSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl unassign-domain`."""

    key: str = Field(min_length=1, description="label key of the domain")
    value: str = Field(min_length=1, description="label value of the domain")


class AssignSettings(UnassignSettings, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl assign-domain`."""

    shard: str = Field(min_length=1, description="id of the shard that gets the domain")


def _list(settings: ListDomainsSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import LIST_DOMAIN_ASSIGNMENTS
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "LeaderConnection") -> int:
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

    async def ask(ctl: "LeaderConnection") -> int:
        wire = {
            "topology_key": settings.key,
            "topology_value": settings.value,
            "shard_id": settings.shard,
        }
        await ctl.call(ASSIGN_DOMAIN, pb.AssignDomainRequest(**wire))
        done(console, settings, f"assigned {settings.key}={settings.value} → {settings.shard}", wire)
        return ExitCode.DONE

    hints = {
        Code.NOT_FOUND: "a shard registers with its first report; bigfleetctl list-shards lists the registered ones",
        Code.ALREADY_EXISTS: "bigfleetctl unassign-domain takes it from its shard",
    }
    return run_with(settings, console, ask, hints=hints)


def _unassign(settings: UnassignSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.transport.coordinator import UNASSIGN_DOMAIN
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    async def ask(ctl: "LeaderConnection") -> int:
        wire = {"topology_key": settings.key, "topology_value": settings.value}
        await ctl.call(UNASSIGN_DOMAIN, pb.UnassignDomainRequest(**wire))
        done(console, settings, f"unassigned {settings.key}={settings.value}", wire)
        return ExitCode.DONE

    return run_with(settings, console, ask)


LIST = CliCommand(
    ListDomainsSettings,
    _list,
    """List which shard owns which domain, by shard, key and value. A domain is the set of machines with one label value.""",
    ("bigfleetctl list-domain-assignments", "bigfleetctl domains list --shard shard-0 -o json"),
)
ASSIGN = CliCommand(
    AssignSettings,
    _assign,
    """Assign a domain to a shard. Repeating an assignment is allowed; a domain of another shard is refused until it is
    unassigned. Assignments have no effect on a shard that does not share its provider.""",
    ("bigfleetctl assign-domain --key topology.kubernetes.io/rack --value r17 --shard shard-0",),
)
UNASSIGN = CliCommand(
    UnassignSettings,
    _unassign,
    """Take a domain from its shard. A domain without a shard is not an error.""",
    ("bigfleetctl unassign-domain --key topology.kubernetes.io/rack --value r17",),
)
