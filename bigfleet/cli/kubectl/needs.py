"""`kubectl bigfleet needs`: what the pods of a namespace or cluster request, equal demand in one row.

Why: ten thousand requests are a few dozen needs, which is what a shard decides on and a person can read.
Must never: say whether a need is met; only the shard knows, see `why`.
Rules: `operator#aggregation`, `operator#kubectl-plugin`.
"""

import json
from collections.abc import Iterable, Mapping
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
from bigfleet.model.errors import InvalidFieldError

Document = dict[str, Any]
_COLUMNS: Final = (
    Column("REQUESTS", "requests"),
    Column("ACKNOWLEDGED", "acknowledged"),
    Column("PRIORITY", "priority"),
    Column("RESOURCES", "resources"),
    Column("NODES WITH", "requirements"),
    Column("TOGETHER IN", "together"),
    Column("OLDEST", "oldest"),
    Column("NOT REPORTED", "not_reported"),
    Column("SPREAD OVER", "spread", wide=True),
    Column("PER MACHINE", "max_per_machine", wide=True),
    Column("INTERRUPTION", "interruption_penalty", wide=True),
    Column("RECLAMATION", "reclamation_penalty", wide=True),
    Column("NAMESPACES", "namespaces", wide=True),
)


class KubectlNeedsSettings(KubeFlags, env_prefix="KUBECTL_BIGFLEET_"):
    """Flags of `kubectl bigfleet needs`."""

    all_namespaces: Annotated[bool, Cli(short="A")] = Field(default=False, description="read all namespaces")


def needs(requests: Iterable[Document], now: datetime) -> list[dict[str, object]]:
    """Return the needs of the requests: highest priority first, then the largest number of requests."""
    groups: dict[str, list[Document]] = {}
    for request in requests:
        groups.setdefault(_key(request), []).append(request)
    rows = [_row(members, now) for _, members in sorted(groups.items())]
    return sorted(rows, key=lambda row: (-int(str(row["priority"])), -int(str(row["requests"]))))


def _key(request: Document) -> str:
    """Return the key of a request's row; with co-location it includes the scope."""
    spec = {name: value for name, value in request["spec"].items() if name != "resources"}
    scope = ""
    if spec.get("coLocation"):
        annotations: Mapping[str, str] = request["metadata"].get("annotations") or {}
        scope = annotations.get("bigfleet.lucy.sh/co-location-scope") or request["metadata"]["namespace"]
    return json.dumps([spec, scope], sort_keys=True)


def _row(members: list[Document], now: datetime) -> dict[str, object]:
    from bigfleet.kube.crds.capacity_request import ACKNOWLEDGED, REPORTED
    from bigfleet.model.quantity_text import canonical_text, parse_with_family

    spec = members[0]["spec"]
    totals: dict[str, tuple[int, bool]] = {}
    unreadable: set[str] = set()
    for member in members:
        for name, text in member["spec"]["resources"].items():
            try:
                nano, binary = parse_with_family(str(text))
            except InvalidFieldError:
                unreadable.add(name)  # the operator leaves such a request out, with a condition on it
                continue
            before, was_binary = totals.get(name, (0, True))
            totals[name] = (before + nano, was_binary and (binary or not nano))
    phases = [(member.get("status") or {}).get("phase") for member in members]
    refused = [formatting.condition(member, REPORTED) for member in members]
    oldest = min(member["metadata"]["creationTimestamp"] for member in members)
    return {
        "requests": len(members),
        "acknowledged": phases.count(ACKNOWLEDGED),
        "priority": spec["priority"],
        "resources": formatting.amounts(
            dict.fromkeys(sorted(unreadable), "?")
            | {name: canonical_text(nano, binary=binary) for name, (nano, binary) in totals.items()}
        ),
        "requirements": formatting.requirements(spec.get("requirements") or ()),
        "together": (spec.get("coLocation") or {}).get("topologyKey"),
        "spread": [item["topologyKey"] for item in spec.get("topologySpread") or ()] or None,
        "max_per_machine": spec.get("maxPerMachine"),
        "interruption_penalty": spec.get("interruptionPenalty"),
        "reclamation_penalty": spec.get("reclamationPenalty"),
        "namespaces": sorted({member["metadata"]["namespace"] for member in members}),
        "oldest": formatting.age(oldest, now),
        "not_reported": sum(found.get("status") == "False" for found in refused) or None,
    }


def _needs(settings: KubectlNeedsSettings, console: Console) -> int:
    from bigfleet.kube.client import Selection
    from bigfleet.kube.resources import CAPACITY_REQUESTS

    async def requests(cluster: ClusterAccess) -> list[Document]:
        namespace = "" if settings.all_namespaces else cluster.namespace
        return await cluster.client.list_all(Selection(CAPACITY_REQUESTS, namespace=namespace))

    rows = needs(ask(settings, console, requests), console.now())
    write(console, settings, Listing("needs", _COLUMNS, rows))
    if not rows:
        console.print_error("found no CapacityRequest; -A reads all namespaces, -n one")
    return ExitCode.DONE


NEEDS = CliCommand(
    KubectlNeedsSettings,
    _needs,
    """List what pods request, equal demand in one row: the number of requests, how many of them the operator has reported,
    and their total resources. NOT REPORTED counts requests that are left out because they are invalid; kubectl bigfleet why
    shows what is wrong with one.""",
    (
        "kubectl bigfleet needs -n shop",
        "kubectl bigfleet needs -A -o wide",
        "kubectl bigfleet needs -A -o json",
    ),
)
