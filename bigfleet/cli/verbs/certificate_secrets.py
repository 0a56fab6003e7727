"""`bigfleet certs secrets`: keeps the certificates of a fleet in Secrets of a namespace.

Why: the chart runs it where there is no cert-manager, before each installation and upgrade and then every day, so that an
installation without any preparation has mutual TLS.
Must never: change what is still good, write a Secret that it did not make, print a key, or need a right beyond the Secrets named.
Rules: `packaging#certificate-job`; ADR-0251, ADR-0252.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from bigfleet.aio.identity import Identity
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.output import Column, Listing, write
from bigfleet.cli.kubectl.flags import ClusterAccess, KubeFlags, ask
from bigfleet.model.errors import BigFleetError

if TYPE_CHECKING:  # cryptography takes longer to import than --help may
    from bigfleet.kube.tls_secrets import TlsSecret, TlsSecrets
    from bigfleet.transport.authority import Authority

_COLUMNS: Final = (
    Column("SECRET", "secret"),
    Column("IDENTITY", "identity"),
    Column("RESULT", "result"),
    Column("WHY", "why"),
    Column("UNTIL", "until"),
)


class SecretsSettings(KubeFlags, env_prefix="BIGFLEET_CERTS_SECRETS_"):
    """Flags of `bigfleet certs secrets`."""

    authority: Annotated[str, Cli(metavar="SECRET")] = Field(
        min_length=1, description="Secret with the authority: tls.crt and tls.key"
    )
    make_authority: bool = Field(
        default=True,
        description="make an authority when that Secret does not exist; otherwise end with an error",
    )
    authority_days: int = Field(default=3650, ge=1, description="validity of a new authority in days")
    certificate: Annotated[tuple[str, ...], Cli(metavar="'SECRET URI NAME…'")] = Field(
        default=(),
        description="a certificate to keep: its Secret, its bigfleet:// URI and the DNS names or addresses under which it is "
        "dialled, with spaces between; repeatable",
    )
    days: int = Field(default=90, ge=1, description="validity of a certificate in days")
    renew_before_days: int = Field(
        default=30, ge=0, description="sign again when fewer days are left; less than --days"
    )


@dataclass(frozen=True, slots=True)
class WantedCertificate:
    """One certificate that must be there."""

    secret: str
    identity: Identity
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "WantedCertificate":
        """Read the value of the flag."""
        words = text.split()
        if len(words) < 2:
            raise UsageError(
                f"--certificate: found {text!r}, allowed is 'SECRET URI NAME…', such as "
                "'bigfleet-shard-0-tls bigfleet://shard/bigfleet-shard-0 bigfleet-shard-0.example.org'"
            )
        secret, uri, *names = words
        return cls(secret, Identity.parse(uri), tuple(names))


def why_sign(
    held: "TlsSecret | None", wanted: WantedCertificate, authority: "Authority", *, latest: datetime
) -> str:
    """Return why a certificate has to be signed, empty when the one held is good beyond `latest`."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    from bigfleet.transport.authority import alternative_names

    if held is None:
        return "missing"
    try:
        leaf = x509.load_pem_x509_certificate(held.cert)
        key = serialization.load_pem_private_key(held.key, password=None)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return "unreadable"
    if key.public_key() != leaf.public_key():
        return "key of another"
    try:
        leaf.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return "other authority"
    if held.ca != authority.cert_pem:
        return "other authority"
    if names != alternative_names(wanted.identity, wanted.names):
        return "other names"
    return "ends soon" if leaf.not_valid_after_utc <= latest else ""


async def keep_certificates(
    secrets: "TlsSecrets",
    settings: SecretsSettings,
    wanted: Sequence[WantedCertificate],
    now: datetime,
    run: str,
) -> list[dict[str, object]]:
    """Make what is missing and sign what ends soon; return one row per Secret."""
    authority, row = await _authority(secrets, settings, now, run)
    return [row, *[await _keep(secrets, each, authority, settings, now) for each in wanted]]


async def _authority(
    secrets: "TlsSecrets", settings: SecretsSettings, now: datetime, run: str
) -> "tuple[Authority, dict[str, object]]":
    from bigfleet.kube.errors import ConflictError
    from bigfleet.kube.tls_secrets import TlsSecret
    from bigfleet.transport.authority import Authority

    name, result = settings.authority, "kept"
    found = await secrets.find(name)
    if found is None and settings.make_authority:
        made = Authority.create("bigfleet fleet CA", now=now, days=settings.authority_days)
        result = "made"
        try:
            await secrets.write_once(name, TlsSecret(made.cert_pem, made.key_pem, made.cert_pem), run)
        except ConflictError:
            result = "kept"  # another run was first; what it wrote is the authority
        found = await secrets.find(name)
    if found is None:
        raise CommandError(
            f"Secret {name}: missing, allowed is one with tls.crt and tls.key of the authority",
            ExitCode.NOT_FOUND,
        )
    try:
        authority = Authority.load(found.cert, found.key)
    except BigFleetError as error:
        raise CommandError(f"Secret {name}: {error}") from error
    return authority, _row(name, "authority", result, "", authority.certificate.not_valid_after_utc)


async def _keep(
    secrets: "TlsSecrets",
    wanted: WantedCertificate,
    authority: "Authority",
    settings: SecretsSettings,
    now: datetime,
) -> dict[str, object]:
    from cryptography import x509

    from bigfleet.kube.tls_secrets import MANAGER, TlsSecret

    held = await secrets.find(wanted.secret)
    if held is not None and not held.is_ours:
        raise CommandError(
            f"Secret {wanted.secret}: found one without the label app.kubernetes.io/managed-by={MANAGER}, allowed is a Secret "
            "made by this command; name a Secret of your own in the values of the chart, or delete it",
            ExitCode.EXISTS,
        )
    why = why_sign(held, wanted, authority, latest=now + timedelta(days=settings.renew_before_days))
    if why or held is None:
        leaf = authority.sign(
            wanted.identity, wanted.secret, dns_names=wanted.names, days=settings.days, now=now
        )
        held = TlsSecret(leaf.cert_pem, leaf.key_pem, authority.cert_pem)
        await secrets.write(wanted.secret, held)
    ends = x509.load_pem_x509_certificate(held.cert).not_valid_after_utc
    return _row(wanted.secret, str(wanted.identity), "signed" if why else "kept", why, ends)


def _row(secret: str, identity: str, result: str, why: str, until: datetime) -> dict[str, object]:
    return {
        "secret": secret,
        "identity": identity,
        "result": result,
        "why": why or None,
        "until": f"{until:%Y-%m-%dT%H:%M:%SZ}",
    }


def _run(settings: SecretsSettings, console: Console) -> int:
    wanted = [WantedCertificate.parse(text) for text in settings.certificate]
    if settings.renew_before_days >= settings.days:
        raise UsageError(
            f"--renew-before-days: found {settings.renew_before_days}, allowed is less than --days, {settings.days}"
        )
    names = [settings.authority, *(each.secret for each in wanted)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"--certificate: found the Secret {twice[0]} twice, allowed is each once")

    async def keep(access: ClusterAccess) -> list[dict[str, object]]:
        from bigfleet.aio.ids import SystemIds
        from bigfleet.kube.tls_secrets import TlsSecrets

        secrets = TlsSecrets(access.client, access.namespace)
        return await keep_certificates(secrets, settings, wanted, console.now(), SystemIds().session())

    rows = ask(settings, console, keep)
    write(console, settings, Listing("certificates", _COLUMNS, rows))
    return ExitCode.DONE


SECRETS = CliCommand(
    SecretsSettings,
    _run,
    """Keep the certificates of a fleet in Secrets of a namespace, of type kubernetes.io/tls with ca.crt. Makes the authority and
    every certificate that is missing; signs again what ends soon, has other names or comes from another authority; leaves the
    rest. The chart bigfleet runs it where there is no cert-manager.

    Needs the verbs get, create and patch for exactly these Secrets, and no other right. Never writes a Secret that it did not
    make. Whoever reads the Secret of the authority can be anyone in the fleet.""",
    (
        "bigfleet certs secrets -n bigfleet-system --authority bigfleet-ca "
        "--certificate 'bigfleet-operator-prod-1-tls bigfleet://cluster/prod-1'",
    ),
)
