"""Flags and cluster access of the verbs of `kubectl bigfleet`.

Why: a plugin finds its cluster and names its flags as kubectl does.
Must never: write to a cluster, or need more than the user's own rights.
Rules: `operator#plugin-why`, `operator#start-order`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import Field

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, OptionalPath
from bigfleet.cli.framework.settings import OutputFlags

if TYPE_CHECKING:  # the client library takes longer to import than --help may
    from bigfleet.kube.client import KubeClient
    from bigfleet.kube.errors import KubeError

T = TypeVar("T")


class KubeFlags(OutputFlags):
    """Flags of every verb."""

    kubeconfig: OptionalPath = Field(
        default=None, description="kubeconfig of the cluster; default: $KUBECONFIG or the user's own file"
    )
    context: str = Field(default="", description="context of the kubeconfig; default: the current one")
    namespace: Annotated[str, Cli(short="n")] = Field(
        default="", description="namespace to read; default: that of the context, else default"
    )


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """A client of the cluster, and the namespace to read."""

    client: "KubeClient"
    namespace: str


def ask(settings: KubeFlags, console: Console, question: Callable[[ClusterAccess], Awaitable[T]]) -> T:
    """Run a query against the cluster and return its result; API errors become an exit code and one line."""
    import asyncio
    from os import fspath

    from bigfleet.aio.clock import SystemClock
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.kube.client import KubeClient
    from bigfleet.kube.errors import KubeError
    from bigfleet.kube.http_transport import HttpTransport, run_plugin
    from bigfleet.kube.limiter import RateLimiter
    from bigfleet.kube.login import Login, find_target

    clock, disk = SystemClock(), SystemDisk()
    target = find_target(
        console.environ, disk, kubeconfig=fspath(settings.kubeconfig or ""), context=settings.context
    )

    async def answer() -> T:
        client = KubeClient(HttpTransport(Login(target, disk, clock, run_plugin)), RateLimiter(clock))
        try:
            return await question(ClusterAccess(client, settings.namespace or target.namespace or "default"))
        finally:
            await client.close()

    try:
        return asyncio.run(answer())
    except KubeError as error:
        raise CommandError(str(error), _code(error)) from error


def _code(error: "KubeError") -> ExitCode:
    from bigfleet.kube.errors import ForbiddenError, NotFoundError, UnauthorizedError

    if isinstance(error, ForbiddenError | UnauthorizedError):
        return ExitCode.PERMISSION
    if isinstance(error, NotFoundError):
        return ExitCode.NOT_FOUND
    return ExitCode.UNAVAILABLE if error.temporary else ExitCode.FAILURE
