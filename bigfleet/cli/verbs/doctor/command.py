"""`bigfleet doctor`: checks a deployment from inside, one line per check.

Why: most first installations fail at a name, a port, a certificate or a permission.
Must never: change anything, print a key, or stop at the first problem.
Rules: `packaging#other-commands`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, Dial
from bigfleet.cli.framework.output import Column, Listing, write
from bigfleet.cli.framework.settings import TlsFlags
from bigfleet.cli.kubectl.flags import KubeFlags

if TYPE_CHECKING:  # cryptography and the HTTP client take longer to import than --help may
    from bigfleet.cli.verbs.doctor.findings import Finding
    from bigfleet.kube.transport import ApiTransport

_COLUMNS: Final = (Column("RESULT", "result"), Column("CHECK", "check"), Column("SEEN", "seen"))
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class DoctorSettings(KubeFlags, TlsFlags, env_prefix="BIGFLEET_DOCTOR_"):
    """Flags of `bigfleet doctor`."""

    role: Literal["cluster", "shard", "admin", "readonly"] | None = Field(
        default=None, description="role that the certificate must have; default: any of the four"
    )
    shard_addr: Annotated[tuple[Dial, ...], Cli(aliases=("shard",))] = Field(
        default=(), description="shard that must be reachable; repeatable"
    )
    coordinator_addr: tuple[Dial, ...] = Field(
        default=(), description="coordinator that must be reachable; repeatable"
    )
    provider_addr: tuple[Dial, ...] = Field(
        default=(), description="provider that must be reachable; repeatable"
    )
    ready: Annotated[tuple[str, ...], Cli(metavar="URL")] = Field(
        default=(), description="process that must be ready, such as http://host:8780; repeatable"
    )
    program: Literal["operator", "pod-controller"] | None = Field(
        default=None, description="program whose cluster is checked: definitions, permissions, clock"
    )
    leader_elect: bool = Field(default=False, description="whether the program runs with --leader-elect")


def _run(settings: DoctorSettings, console: Console) -> int:
    import asyncio

    for url in settings.ready:
        if not url.startswith("http://"):
            raise UsageError(f"--ready: found {url!r}, allowed is http://HOST:PORT")
    findings = asyncio.run(_findings(settings, console))
    if not findings:
        raise UsageError(
            "nothing to check, allowed is at least one of --shard-addr, --coordinator-addr, --provider-addr, --ready, "
            "--program and the TLS flags"
        )
    rows = [{"result": "ok" if f.is_good else "FAIL", "check": f.what, "seen": f.seen} for f in findings]
    write(console, settings, Listing("checks", _COLUMNS, rows))
    return ExitCode.DONE if all(finding.is_good for finding in findings) else ExitCode.FAILURE


async def _findings(settings: DoctorSettings, console: Console) -> "list[Finding]":
    import asyncio

    from bigfleet.aio.identity import Role
    from bigfleet.cli.verbs.doctor.probes import own_certificate, reachable, ready

    files = settings.tls_files()
    found: list[Finding] = []
    if files is not None:
        found += own_certificate(files, Role(settings.role) if settings.role else None, console.now())
    dialled = (
        *((address, Role.ADMIN) for address in settings.coordinator_addr),
        *((address, Role.SHARD) for address in settings.shard_addr),
        *((address, None) for address in settings.provider_addr),
    )
    for several in await asyncio.gather(*(reachable(address, files, role) for address, role in dialled)):
        found += several
    found += await asyncio.gather(*map(ready, settings.ready))
    if settings.program is not None:
        found += await _ask_cluster(settings, console)
    return found


async def _ask_cluster(settings: DoctorSettings, console: Console) -> "list[Finding]":
    from os import fspath

    from bigfleet.aio.clock import SystemClock
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.cli.verbs.doctor.findings import bad
    from bigfleet.kube.errors import KubeError
    from bigfleet.kube.http_transport import HttpTransport, run_plugin
    from bigfleet.kube.login import Login, find_target

    disk = SystemDisk()
    try:
        target = find_target(
            console.environ, disk, kubeconfig=fspath(settings.kubeconfig or ""), context=settings.context
        )
        transport = HttpTransport(Login(target, disk, SystemClock(), run_plugin))
        try:
            namespace = settings.namespace or target.namespace or "default"
            return await cluster_findings(transport, settings, namespace, console)
        finally:
            await transport.close()
    except KubeError as error:
        return [bad("API server", str(error))]


async def cluster_findings(
    transport: "ApiTransport", settings: DoctorSettings, namespace: str, console: Console
) -> "list[Finding]":
    """Return the results of the checks of a cluster."""
    from bigfleet.cli.verbs.doctor.findings import (
        bad,
        clock_finding,
        definition_finding,
        good,
        right_name,
        rights,
    )
    from bigfleet.kube.crds.definitions import DEFINITIONS
    from bigfleet.kube.roles import LEADER_ELECT, OPERATOR, POD_CONTROLLER, POD_EVENTS
    from bigfleet.kube.transport import ApiCall

    version = await transport.send(ApiCall("GET", "/version"))
    headers = {name.lower(): value for name, value in version.headers.items()}
    found = [clock_finding(headers.get("date", ""), console.now())]
    for definition in DEFINITIONS:
        answer = await transport.send(ApiCall("GET", f"{_CRDS}/{definition.name}"))
        if answer.status in (401, 403):
            continue  # no permission to read definitions; the permission checks below still work
        stored: Any = answer.body if answer.status == 200 else None
        found.append(definition_finding(definition, stored))
    role = OPERATOR if settings.program == "operator" else POD_CONTROLLER
    flags = {POD_EVENTS} | ({LEADER_ELECT} if settings.leader_elect else set())
    missing = []
    for attributes in rights(role, namespace, frozenset(flags)):
        spec = {"resourceAttributes": attributes}
        body: Any = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": spec,
        }
        review: Any = (await transport.send(ApiCall("POST", _REVIEWS, body=body))).body
        if not (isinstance(review, dict) and review.get("status", {}).get("allowed")):
            missing.append(right_name(attributes))
    if missing:
        found += [bad(f"right to {name}", f"is missing; the role {role.name} has it") for name in missing]
    else:
        found.append(good("rights", f"all of the role {role.name}"))
    return found


DOCTOR = CliCommand(
    DoctorSettings,
    _run,
    """Check a deployment from inside, one line per check: names resolve, ports are open, certificates are valid and have the
    right role, processes are ready, and in a cluster: the clock differs by less than 30 s, the definitions are installed in
    this version, and a program has its permissions. Ends with 1 if any check fails. Changes nothing.

    Run it with the certificate and the account of the program to be checked.""",
    (
        "bigfleet doctor --coordinator-addr coordinator:7790 --shard-addr shard-0:7780 --ready http://shard-0:8780",
        "bigfleet doctor --program operator --shard-addr shard-0:7780 --role cluster --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
        "bigfleet doctor --program pod-controller --kubeconfig cluster.yaml -o json",
    ),
)
