"""`kubectl bigfleet why`: what is happening for one pod, and what somebody may do about it.

Why: the answer is spread over the pod, its request, events and upcoming nodes, and the last part of it only the shard knows.
Must never: ask a shard unless told to: that takes a certificate of its own, and a shard knows other clusters' demand.
Rules: decision O5, operator 13, ADR-0061.
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from bigfleet.cli.framework.command import Command
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, Dial
from bigfleet.cli.framework.output import Record, write
from bigfleet.cli.framework.settings import TlsFlags
from bigfleet.cli.kubectl.flags import Cluster, KubeFlags, ask

if TYPE_CHECKING:  # the client library takes longer to import than --help may
    from bigfleet.cli.kubectl.story import Case

Document = dict[str, Any]
_EVENTS = 5


class WhySettings(KubeFlags, TlsFlags, env_prefix="KUBECTL_BIGFLEET_"):
    """Flags of `kubectl bigfleet why`."""

    name: Annotated[str, Cli(positional=True, metavar="NAME")] = Field(
        min_length=1, description="a pod, or a CapacityRequest"
    )
    shard: Dial | None = Field(
        default=None, description="shard to ask for its verdict; under TLS with a readonly certificate"
    )
    cluster_id: str = Field(default="", description="the cluster's id at the shard; needed with --shard")


def _why(settings: WhySettings, console: Console) -> int:
    from bigfleet.cli.kubectl.story import tell

    if settings.shard is not None and not settings.cluster_id:
        raise UsageError(
            "--cluster-id: missing, allowed is the id under which the operator speaks to --shard"
        )
    case = ask(settings, console, lambda cluster: _look(cluster, settings, console))
    write(console, settings, Record(_shown(tell(case, console.now()), settings.output)))
    return ExitCode.DONE


async def _look(cluster: Cluster, settings: WhySettings, console: Console) -> "Case":
    from bigfleet.cli.kubectl.story import Case
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
    return Case(pod, request, await client.list_all(Selection(UPCOMING_NODES)), events[-_EVENTS:], said)


async def _find(cluster: Cluster, resource: Any, key: Any) -> Document | None:
    from bigfleet.kube.errors import NotFoundError

    try:
        return await cluster.client.get(resource, key)
    except NotFoundError:
        return None


def _shown(story: dict[str, object], form: str) -> dict[str, object]:
    """Return the story for a table with its lists as lines of their own; programs get the lists."""
    if form not in ("table", "wide"):
        return {key.replace(" ", "_"): value for key, value in story.items()}
    shown: dict[str, object] = {}
    for key, value in story.items():
        shown[key] = "\n  ".join(["", *map(str, value)]) if isinstance(value, list) else value
    return shown


WHY = Command(
    WhySettings,
    _why,
    """Tell what is happening for one pod: what it asks for, whether that was reported, which nodes on their way could serve
    it, and what it comes to. With --shard the verdict of the last cycle is asked for as well: is the need covered, what is
    missing, and why; that takes a certificate with the readonly role.""",
    (
        "kubectl bigfleet why cart-0 -n shop",
        "kubectl bigfleet why cart-0 -n shop --shard shard-0:7780 --cluster-id eu-1 "
        "--tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
    ),
)
