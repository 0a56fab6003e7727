"""`bigfleet certs`: a development CA, certificates for the four roles, and a description of any certificate.

Why: mutual TLS must work on a laptop without a company PKI; production uses its own CA.
Must never: overwrite a file, or print a key.
Rules: `packaging#other-commands`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from bigfleet.aio.identity import Identity, Role
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.output import OutputRecord, write
from bigfleet.cli.framework.settings import Flags, OutputFlags

if TYPE_CHECKING:  # cryptography takes longer to import than --help may
    from bigfleet.transport.dev_ca import CertificateInfo

_Directory = Annotated[Path, Cli(positional=True, metavar="DIR")]


class InitSettings(Flags, env_prefix="BIGFLEET_CERTS_INIT_"):
    """Flags of `bigfleet certs init`."""

    directory: _Directory = Field(description="directory of the new authority")
    days: int = Field(default=3650, ge=1, description="validity of the authority in days")


class IssueSettings(Flags, env_prefix="BIGFLEET_CERTS_ISSUE_"):
    """Flags of `bigfleet certs issue`."""

    directory: _Directory = Field(description="directory that `certs init` created")
    role: Literal["cluster", "shard", "admin", "readonly"] = Field(description="role of the holder")
    name: Annotated[str, Cli(metavar="ID")] = Field(
        min_length=1,
        description="id of the cluster or shard; for the other roles only the name of the directory",
    )
    dns: Annotated[tuple[str, ...], Cli(metavar="NAME")] = Field(
        default=(), description="additional DNS name or IP address besides localhost; repeatable"
    )
    days: int = Field(default=30, ge=1, description="validity of the certificate in days")


class ShowSettings(OutputFlags, env_prefix="BIGFLEET_CERTS_SHOW_"):
    """Flags of `bigfleet certs show`."""

    path: Annotated[Path, Cli(positional=True, metavar="PATH")] = Field(
        description="PEM file, or a directory that holds tls.crt"
    )


def _init(settings: InitSettings, console: Console) -> int:
    from bigfleet.transport.dev_ca import create_ca

    with _exit_codes():
        certificate = create_ca(settings.directory, now=console.now(), days=settings.days)
    console.print(f"created a development CA, certificate {certificate}, valid for {settings.days} days")
    return ExitCode.DONE


def _issue(settings: IssueSettings, console: Console) -> int:
    from bigfleet.transport.dev_ca import issue

    role = Role(settings.role)
    identity = Identity(role, settings.name if role.carries_id else "")
    with _exit_codes():
        target = issue(
            settings.directory,
            identity,
            name=settings.name,
            dns_names=settings.dns,
            days=settings.days,
            now=console.now(),
        )
    console.print(f"issued {identity}, valid for {settings.days} days, in {target}: tls.crt, tls.key, ca.crt")
    return ExitCode.DONE


def _show(settings: ShowSettings, console: Console) -> int:
    from bigfleet.transport.dev_ca import describe

    with _exit_codes():
        info = describe(settings.path, now=console.now())
    write(console, settings, OutputRecord(_fields(info)))
    return ExitCode.DONE


def _fields(info: "CertificateInfo") -> dict[str, object]:
    return {
        "subject": info.subject,
        "issuer": info.issuer,
        "role": info.role.value if info.role else None,
        "id": info.id or None,
        "uris": info.uris,
        "dns_names": info.dns_names,
        "ip_addresses": info.ip_addresses,
        "not_before": info.not_before,
        "not_after": info.not_after,
        "key_usages": info.key_usages,
        "is_ca": info.is_ca,
        "problems": info.problems,
    }


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn errors of certificate files into exit codes."""
    from bigfleet.transport.dev_ca import CertificateFileError, CertificateFileExistsError

    try:
        yield
    except CertificateFileExistsError as error:
        raise CommandError(str(error), ExitCode.EXISTS) from error
    except CertificateFileError as error:
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError):
            code = ExitCode.NOT_FOUND
        else:  # an I/O error, or wrong content
            code = ExitCode.FAILURE if isinstance(cause, OSError) else ExitCode.USAGE
        raise CommandError(str(error), code) from error


INIT = CliCommand(
    InitSettings,
    _init,
    """Create a certificate authority for development in a directory: ca.crt and ca.key. It never overwrites files.

    It has no revocation, and its key is on disk; use your own authority in production.""",
    ("bigfleet certs init ./pki",),
)
ISSUE = CliCommand(
    IssueSettings,
    _issue,
    """Sign a certificate for one member of the fleet. The files tls.crt, tls.key and ca.crt go to a directory of
    that name below the authority's, readable by the owner only; existing files are never overwritten.

    The identity is the single bigfleet:// URI in the certificate: bigfleet://cluster/ID, bigfleet://shard/ID, bigfleet://admin or
    bigfleet://readonly.""",
    (
        "bigfleet certs issue ./pki --role shard --name shard-0 --dns shard-0.example.org",
        "bigfleet certs issue ./pki --role admin --name alice --days 7",
    ),
)
SHOW = CliCommand(
    ShowSettings,
    _show,
    "Show a certificate: identity, names, validity, uses, and every problem for which BigFleet would refuse it.",
    ("bigfleet certs show ./pki/shard-0", "bigfleet certs show ./pki/ca.crt -o json"),
)
