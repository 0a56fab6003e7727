"""`kubectl bigfleet upcoming`: the machines that join or leave this cluster.

Must never: call anything but the API server.
Rules: `operator#upcoming-node`, `operator#kubectl-plugin`.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.output import Column, Listing, write
from bigfleet.cli.kubectl import formatting
from bigfleet.cli.kubectl.flags import ClusterAccess, KubeFlags, ask

Document = dict[str, Any]
_COLUMNS: Final = (
    Column("NAME", "name"),
    Column("PHASE", "phase"),
    Column("NODE", "node"),
    Column("TYPE", "instance_type"),
    Column("ZONE", "zone"),
    Column("AGE", "age"),
    Column("ERROR", "error"),
    Column("RESOURCES", "resources", wide=True),
    Column("PROVIDER ID", "provider_id", wide=True),
)


class UpcomingSettings(KubeFlags, env_prefix="KUBECTL_BIGFLEET_"):
    """Flags of `kubectl bigfleet upcoming`."""

    every: Annotated[bool, Cli(short="a")] = Field(
        default=False, description="also show nodes that are Ready, not only those that join or leave"
    )


def upcoming(nodes: Iterable[Document], now: datetime, *, every: bool) -> list[dict[str, object]]:
    """Return one row per machine, by phase, then by name."""
    from bigfleet.kube.crds.upcoming_node import PHASES
    from bigfleet.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY

    rows = []
    for node in nodes:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        phase = status.get("phase") or PHASES[0]
        if phase == "Ready" and not every:
            continue
        labels = spec.get("labels") or {}
        rows.append(
            {
                "name": node["metadata"]["name"],
                "phase": phase,
                "node": (status.get("nodeRef") or {}).get("name"),
                "instance_type": labels.get(INSTANCE_TYPE_KEY),
                "zone": labels.get(ZONE_KEY),
                "age": formatting.age(
                    status.get("provisioningStartTime") or node["metadata"]["creationTimestamp"], now
                ),
                "error": status.get("lastError"),
                "resources": formatting.amounts(spec.get("resources") or {}),
                "provider_id": status.get("providerID"),
            }
        )
    return sorted(rows, key=lambda row: (PHASES.index(row["phase"]), row["name"]))


def _upcoming(settings: UpcomingSettings, console: Console) -> int:
    from bigfleet.kube.client import Selection
    from bigfleet.kube.resources import UPCOMING_NODES

    async def nodes(cluster: ClusterAccess) -> list[Document]:
        return await cluster.client.list_all(Selection(UPCOMING_NODES))

    rows = upcoming(ask(settings, console, nodes), console.now(), every=settings.every)
    write(console, settings, Listing("upcoming", _COLUMNS, rows))
    if not rows:
        hint = "" if settings.every else "; -a also shows those that are Ready"
        console.print_error(f"no machine is joining or leaving this cluster{hint}")
    return ExitCode.DONE


UPCOMING = CliCommand(
    UpcomingSettings,
    _upcoming,
    """List the machines that are joining or leaving this cluster, by phase. A machine that is Failed after a reclaim could not
    be drained in time: its node is still cordoned and needs attention.""",
    ("kubectl bigfleet upcoming", "kubectl bigfleet upcoming -a -o wide"),
)
