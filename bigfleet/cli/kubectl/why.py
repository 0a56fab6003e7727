"""`kubectl bigfleet why`: the state of one pod, and what to do about it.

Why: the answer is spread over the pod, its request, events and upcoming nodes, and only the shard knows the verdict.
Must never: call a shard without --shard: that needs a certificate, and a shard knows the demand of other clusters.
Rules: `operator#plugin-why`, `operator#kubectl-plugin`; ADR-0061.
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, Dial
from bigfleet.cli.framework.output import OutputRecord, write
from bigfleet.cli.framework.settings import TlsFlags
from bigfleet.cli.kubectl.flags import ClusterAccess, KubeFlags, ask

if TYPE_CHECKING:  # the client library takes longer to import than --help may
    from bigfleet.cli.kubectl.pod_report import PodFacts

Document = dict[str, Any]
_EVENTS = 5


class WhySettings(KubeFlags, TlsFlags, env_prefix="KUBECTL_BIGFLEET_"):
    """Flags of `kubectl bigfleet why`."""

    name: Annotated[str, Cli(positional=True, metavar="NAME")] = Field(
        min_length=1, description="a pod, or a CapacityRequest"
    )
    shard: Dial | None = Field(
        default=None, description="shard to ask for its verdict; with TLS this needs a readonly certificate"
    )
    cluster_id: str = Field(default="", description="id of the cluster at the shard, required with --shard")


def _why(settings: WhySettings, console: Console) -> int:
    from bigfleet.cli.kubectl.pod_report import describe_pod

    if settings.shard is not None and not settings.cluster_id:
        raise UsageError("--cluster-id: missing, allowed is the id that the operator uses with --shard")
    facts = ask(settings, console, lambda cluster: _facts(cluster, settings, console))
    write(console, settings, OutputRecord(_shown(describe_pod(facts, console.now()), settings.output)))
    return ExitCode.DONE


async def _facts(cluster: ClusterAccess, settings: WhySettings, console: Console) -> "PodFacts":
    from bigfleet.cli.kubectl.pod_report import PodFacts
    from bigfleet.cli.kubectl.verdict import verdicts
    from bigfleet.kube.client import Selection
    from bigfleet.kube.crds.capacity_request import OWNED_BY_POD
    from bigfleet.kube.resources import (
        CAPACITY_REQUESTS,
        EVENTS,
        PODS,
        UPCOMING_NODES,
        ObjectKey,
    )

    client, key = cluster.client, ObjectKey(cluster.namespace, settings.name)
    pod = await _find(cluster, PODS, key)
    request = None
    if pod is not None:
        label = f"{OWNED_BY_POD}={pod['metadata']['uid']}"
        owned = Selection(CAPACITY_REQUESTS, namespace=key.namespace, labels=label)
        request = next(iter(await client.list_all(owned)), None)
    else:
        request = await _find(cluster, CAPACITY_REQUESTS, key)
        if request is None:
            raise CommandError(
                f"{key}: found neither a pod nor a CapacityRequest of this name", ExitCode.NOT_FOUND
            )
        owner = next(iter(request["metadata"].get("ownerReferences") or ()), None)
        if owner is not None and owner.get("kind") == PODS.kind:
            pod = await _find(cluster, PODS, ObjectKey(key.namespace, owner["name"]))
    events: list[Document] = []
    for document in (pod, request):
        if document is not None:
            about = f"involvedObject.name={document['metadata']['name']}"
            events += await client.list_all(Selection(EVENTS, namespace=key.namespace, fields=about))
    events.sort(key=lambda event: event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
    said: tuple[str, ...] = ()
    if settings.shard is not None and request is not None:
        said = await verdicts(settings, settings.shard, settings.cluster_id, request, console)
    return PodFacts(pod, request, await client.list_all(Selection(UPCOMING_NODES)), events[-_EVENTS:], said)


async def _find(cluster: ClusterAccess, resource: Any, key: Any) -> Document | None:
    from bigfleet.kube.errors import NotFoundError

    try:
        return await cluster.client.get(resource, key)
    except NotFoundError:
        return None


def _shown(report: dict[str, object], form: str) -> dict[str, object]:
    """Return the report with lists as lines for a table; programs get the lists."""
    if form not in ("table", "wide"):
        return {key.replace(" ", "_"): value for key, value in report.items()}
    shown: dict[str, object] = {}
    for key, value in report.items():
        shown[key] = "\n  ".join(["", *map(str, value)]) if isinstance(value, list) else value
    return shown


WHY = CliCommand(
    WhySettings,
    _why,
    """Explain the state of one pod: what it requests, whether the operator has reported that, which upcoming nodes could serve
    it, and a conclusion. With --shard also the verdict of the last cycle: whether the need is covered, what is missing, and
    why; that needs a certificate with the readonly role.""",
    (
        "kubectl bigfleet why cart-0 -n shop",
        "kubectl bigfleet why cart-0 -n shop --shard shard-0:7780 --cluster-id eu-1 "
        "--tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
    ),
)
