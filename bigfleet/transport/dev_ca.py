"""A certificate authority for laptops, compose files and tests: one directory, no server, no revocation.

Why: mutual TLS with identity in a URI SAN is the normal way to run the fleet, and a person must be able to try it
without a company's PKI. Production brings its own CA.
Must never: overwrite a file, write a key that others may read, ask the time (it is an argument), or sign a certificate
that our own gates would refuse.
Rules: `packaging#other-commands`, `wire#identity`. Keys are ECDSA P-256.
"""

import os
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bigfleet.aio.disk import DiskError
from bigfleet.aio.given_files import UnfitFileError, read_given
from bigfleet.aio.identity import Identity, Role
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.transport.identity import bigfleet_uris, sole_identity

CA_CERT: Final = "ca.crt"
CA_KEY: Final = "ca.key"
LEAF_CERT: Final = "tls.crt"
LEAF_KEY: Final = "tls.key"
_ORGANISATION: Final = "bigfleet development"
_SKEW: Final = timedelta(minutes=5)  # a container's clock may lag behind the one that signed
_LABEL_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")
_USAGES: Final = {ExtendedKeyUsageOID.SERVER_AUTH: "server", ExtendedKeyUsageOID.CLIENT_AUTH: "client"}


class CertificateFileError(BigFleetError):
    """A certificate or key file is missing, unreadable, or in the way."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


class CertificateFileExistsError(CertificateFileError):
    """A file that would be written exists already; nothing was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "exists already and is not overwritten")


@dataclass(frozen=True, slots=True)
class CertificateInfo:
    """What a person wants to know about a certificate; `problems` is empty when the fleet would accept it."""

    subject: str
    issuer: str
    role: Role | None
    id: str
    uris: tuple[str, ...]
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    key_usages: tuple[str, ...]
    is_ca: bool
    problems: tuple[str, ...]


def create_ca(directory: Path, *, now: datetime, days: int = 3650) -> Path:
    """Make a new authority in a directory and return the path of its certificate."""
    _check_days(days)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("bigfleet development CA")
    builder = _builder(name, name, key.public_key(), now, now + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(ca=True), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    _write_all(directory, {CA_CERT: _pem(certificate), CA_KEY: _key_pem(key)})
    return directory / CA_CERT


def issue(
    directory: Path,
    identity: Identity,
    *,
    name: str | None = None,
    dns_names: Sequence[str] = (),
    days: int = 30,
    now: datetime,
) -> Path:
    """Sign a certificate for one identity, valid for loopback and the given names; return the directory of its files."""
    _check_days(days)
    label = name if name is not None else identity.id or identity.role.value
    if not label or label in {".", ".."} or not set(label) <= _LABEL_CHARACTERS:
        raise InvalidFieldError("name", label, "a directory name of A-Z a-z 0-9 . _ -")
    authority, authority_key = _load_ca(directory)
    not_after = now + timedelta(days=days)
    if not_after > authority.not_valid_after_utc:
        raise InvalidFieldError(
            "days", days, f"an end before that of the CA, {authority.not_valid_after_utc:%Y-%m-%d %H:%M}Z"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(label), authority.subject, key.public_key(), now, not_after)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(ca=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(list(_USAGES)), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(_names(identity, dns_names)), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    certificate = builder.sign(authority_key, hashes.SHA256())
    target = directory / label
    _write_all(target, {LEAF_CERT: _pem(certificate), LEAF_KEY: _key_pem(key), CA_CERT: _pem(authority)})
    return target


def describe(path: Path, *, now: datetime | None = None) -> CertificateInfo:
    """Describe a certificate (a PEM file, or a directory that holds `tls.crt`) says, and what is wrong with it.

    A key named `tls.key` beside it is checked for fit. Without `now` nothing is said about expiry.
    """
    file = path / LEAF_CERT if path.is_dir() else path
    certificate = _load_certificate(file)
    uris = bigfleet_uris(certificate)
    is_ca = _is_ca(certificate)
    problems: list[str] = []
    identity: Identity | None = None
    if not is_ca:
        try:
            identity = sole_identity(certificate)
        except InvalidFieldError as error:
            problems.append(str(error))
    usages = _extended_usages(certificate)
    if not is_ca:
        problems += [
            f"extended key usage lacks {usage} authentication"
            for usage in _USAGES.values()
            if usage not in usages
        ]
    key_file = file.with_name(LEAF_KEY)
    if file.name == LEAF_CERT and key_file.exists() and not _fits(key_file, certificate):
        problems.append(f"{key_file} is not the key of this certificate")
    if now is not None and now < certificate.not_valid_before_utc:
        problems.append("not valid yet")
    if now is not None and now > certificate.not_valid_after_utc:
        problems.append("expired")
    names = _alternative_names(certificate)
    return CertificateInfo(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        role=identity.role if identity else None,
        id=identity.id if identity else "",
        uris=uris,
        dns_names=tuple(names.get_values_for_type(x509.DNSName)) if names else (),
        ip_addresses=tuple(str(ip) for ip in names.get_values_for_type(x509.IPAddress)) if names else (),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        key_usages=usages,
        is_ca=is_ca,
        problems=tuple(problems),
    )


def _check_days(days: int) -> None:
    if days < 1:
        raise InvalidFieldError("days", days, "1 or more")


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION),
            x509.NameAttribute(
                NameOID.COMMON_NAME, common_name[:64]
            ),  # the limit of X.520; identity is the URI
        ]
    )


def _names(identity: Identity, dns_names: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(str(identity))]
    for text in ("localhost", "127.0.0.1", "::1", *dns_names):
        try:
            general: x509.GeneralName = x509.IPAddress(ip_address(text))
        except ValueError:
            general = _dns_name(text)
        if general not in names:
            names.append(general)
    return names


def _dns_name(text: str) -> x509.DNSName:
    if not text or not set(text) <= _LABEL_CHARACTERS | {"*"}:
        raise InvalidFieldError("dns_names", text, "DNS names or IP addresses")
    return x509.DNSName(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(not_after)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _extended_usages(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(_USAGES.get(usage, usage.dotted_string) for usage in usages)


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _fits(key_file: Path, certificate: x509.Certificate) -> bool:
    try:
        key = serialization.load_pem_private_key(_content(key_file), password=None)
    except (CertificateFileError, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return key.public_key() == certificate.public_key()


def _load_certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_content(file))
    except ValueError as error:
        raise CertificateFileError(file, "is not a PEM certificate") from error


def _content(file: Path) -> bytes:
    try:
        return read_given(SystemDisk(), file)
    except DiskError as error:
        # The system's own error, by which the command chooses its exit code.
        raise CertificateFileError(file, error.reason) from error.__cause__ or error
    except UnfitFileError as error:
        raise CertificateFileError(file, f"is {error.found}, allowed is {error.allowed}") from error


def _load_ca(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate = _load_certificate(directory / CA_CERT)
    key_file = directory / CA_KEY
    try:
        key = serialization.load_pem_private_key(_content(key_file), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateFileError(key_file, "is not a PEM private key without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CertificateFileError(key_file, f"is not the key of {directory / CA_CERT}")
    return certificate, key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_all(directory: Path, files: dict[str, bytes]) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CertificateFileError(directory, error.strerror or "cannot be made") from error
    for name in files:
        # Looked at beforehand, so that a refusal leaves nothing half written.
        if (directory / name).exists():
            raise CertificateFileExistsError(directory / name)
    for name, content in files.items():
        try:
            descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise CertificateFileExistsError(directory / name) from error
        except OSError as error:
            raise CertificateFileError(directory / name, error.strerror or "cannot be written") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
