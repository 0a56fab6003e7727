"""Signs the certificates of a fleet, in memory: an authority, and leaves that carry one identity each.

Why: `bigfleet certs` signs into a directory and into Secrets of Kubernetes; what is signed is the same.
Must never: touch a file, ask the time (it is an argument), or sign a certificate that our own gates would refuse.
Rules: `packaging#certs`, `packaging#certificate-job`, `wire#identity`. Keys are ECDSA P-256.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bigfleet.aio.identity import Identity
from bigfleet.model.errors import BigFleetError, InvalidFieldError

LABEL_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")
_ORGANISATION: Final = "bigfleet development"
_SKEW: Final = timedelta(minutes=5)  # a container's clock may lag behind the one that signed
_USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")
"""Every leaf is valid for loopback, where tools in the same pod dial the process."""


class NotACertificateError(BigFleetError):
    """Bytes that should be a certificate are none."""


class NotItsKeyError(BigFleetError):
    """Bytes that should be the key of a certificate are none, or are another key."""


@dataclass(frozen=True, slots=True)
class SignedLeaf:
    """A certificate and its key, as PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that may sign others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, name: str, *, now: datetime, days: int) -> Self:
        """Return a new authority."""
        _check_days(days)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        builder = _builder(subject, subject, key.public_key(), now, now + timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(ca=True), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, cert_pem: bytes, key_pem: bytes) -> Self:
        """Return the authority of two PEM texts; `NotACertificateError` or `NotItsKeyError` when they are none."""
        try:
            certificate = x509.load_pem_x509_certificate(cert_pem)
        except ValueError as error:
            raise NotACertificateError("is not a PEM certificate") from error
        try:
            key = serialization.load_pem_private_key(key_pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise NotItsKeyError("is not a PEM private key without a password") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise NotItsKeyError("is not the key of the certificate, or no ECDSA key")
        return cls(certificate, key)

    @property
    def cert_pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM, without a password."""
        return _key_pem(self.key)

    def sign(
        self,
        identity: Identity,
        label: str,
        *,
        dns_names: Sequence[str],
        days: int,
        now: datetime,
    ) -> SignedLeaf:
        """Return a certificate with one identity, valid for loopback and the given names."""
        _check_days(days)
        not_after = now + timedelta(days=days)
        if not_after > self.certificate.not_valid_after_utc:
            raise InvalidFieldError(
                "days",
                days,
                f"an end before that of the CA, {self.certificate.not_valid_after_utc:%Y-%m-%d %H:%M}Z",
            )
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(label), self.certificate.subject, key.public_key(), now, not_after)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(ca=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(_USAGES), critical=False)
        builder = builder.add_extension(alternative_names(identity, dns_names), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
        )
        certificate = builder.sign(self.key, hashes.SHA256())
        return SignedLeaf(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def alternative_names(identity: Identity, dns_names: Sequence[str]) -> x509.SubjectAlternativeName:
    """Return the names that a leaf with this identity carries; `InvalidFieldError` for a name that is none."""
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(str(identity))]
    for text in (*_OWN_NAMES, *dns_names):
        try:
            general: x509.GeneralName = x509.IPAddress(ip_address(text))
        except ValueError:
            general = _dns_name(text)
        if general not in names:
            names.append(general)
    return x509.SubjectAlternativeName(names)


def _dns_name(text: str) -> x509.DNSName:
    if not text or not set(text) <= LABEL_CHARACTERS | {"*"}:
        raise InvalidFieldError("dns_names", text, "DNS names or IP addresses")
    return x509.DNSName(text)


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


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
