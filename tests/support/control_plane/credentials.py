"""Keys and certificates of one test cluster, made in memory.

Why: the API server would make an RSA certificate of its own, which costs up to a second of its start and which strict
verifiers refuse as a trust anchor.
Must never: be used outside tests, or ask the time; it is an argument.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE: Final = timedelta(days=2)
_SKEW: Final = timedelta(minutes=5)
_SERVER_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_NO_USAGE: Final = {
    "content_commitment": False,
    "key_encipherment": False,
    "data_encipherment": False,
    "key_agreement": False,
    "encipher_only": False,
    "decipher_only": False,
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM texts: the authority, the server's pair, and the key that signs service account tokens."""

    ca: bytes
    server_cert: bytes
    server_key: bytes
    service_account_key: bytes


def make_credentials(now: datetime) -> Credentials:
    """Return fresh credentials for a server on 127.0.0.1."""
    ca_key, server_key, token_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    ca = _sign(_ca_builder(ca_key, now), ca_key)
    server = _sign(_server_builder(server_key, ca, now), ca_key)
    return Credentials(
        ca=ca.public_bytes(serialization.Encoding.PEM),
        server_cert=server.public_bytes(serialization.Encoding.PEM),
        server_key=_pem(server_key),
        service_account_key=_pem(token_key),
    )


def _ca_builder(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    name = _name("testbed CA")
    usage = x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **_NO_USAGE)
    return (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _server_builder(
    key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, now: datetime
) -> x509.CertificateBuilder:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVER_NAMES]
    names.append(x509.IPAddress(ip_address("127.0.0.1")))
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **_NO_USAGE)
    authority = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder(_name("kube-apiserver"), ca.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority), critical=False
        )
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _sign(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return builder.sign(key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
