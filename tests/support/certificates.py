"""Certificates for tests: good ones, and every kind of bad one that a gate or a handshake must refuse.

Why: tests of mutual TLS need certificates that `bigfleet.transport.dev_ca` rightly will not make.
Must never: be used outside tests; files are replaced at will.
Rules: `wire#identity`, `shard#tls`.
"""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bigfleet.aio.identity import Identity
from bigfleet.transport import dev_ca
from bigfleet.transport.tls import TlsFiles


class Authority:
    """A development CA in a directory of its own."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self._directory, self.now = directory, now
        dev_ca.create_ca(directory, now=now)

    def issue(self, identity: Identity, name: str | None = None) -> TlsFiles:
        """Return files with exactly the identity given."""
        return _files(dev_ca.issue(self._directory, identity, name=name, now=self.now))

    def issue_uris(
        self,
        name: str,
        uris: Sequence[str],
        addresses: Sequence[str] = ("127.0.0.1",),
        *,
        ends: timedelta = timedelta(days=1),
    ) -> TlsFiles:
        """Return files with any URI SANs, also none, several or nonsense, for any addresses and time; otherwise as good as others."""
        authority = x509.load_pem_x509_certificate((self._directory / dev_ca.CA_CERT).read_bytes())
        authority_key = serialization.load_pem_private_key(
            (self._directory / dev_ca.CA_KEY).read_bytes(), None
        )
        if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
            raise TypeError("the development CA signs with ECDSA")
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName("localhost"), *(x509.IPAddress(ip_address(each)) for each in addresses)]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = x509.CertificateBuilder().issuer_name(authority.subject).public_key(key.public_key())
        builder = builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(self.now - timedelta(minutes=5))
        builder = builder.not_valid_after(self.now + ends)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        certificate = builder.sign(authority_key, hashes.SHA256())
        target = self._directory / name
        target.mkdir()
        (target / dev_ca.LEAF_CERT).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (target / dev_ca.LEAF_KEY).write_bytes(key_pem)
        (target / dev_ca.CA_CERT).write_bytes((self._directory / dev_ca.CA_CERT).read_bytes())
        return _files(target)


def replace_pair(files: TlsFiles, by: TlsFiles) -> None:
    """Rotate: put another certificate and key in place of these, each file at once."""
    replace_file(files.key, by.key)
    replace_file(files.cert, by.cert)


def replace_file(path: Path, by: Path) -> None:
    """Put a copy of one file in place of another, at once."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(by.read_bytes())
    os.replace(fresh, path)


def _files(directory: Path) -> TlsFiles:
    return TlsFiles(directory / dev_ca.LEAF_CERT, directory / dev_ca.LEAF_KEY, directory / dev_ca.CA_CERT)
