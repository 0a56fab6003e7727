"""Reads the `bigfleet://` identity out of a certificate.

Why: gRPC hands over the peer's certificate as PEM next to a flattened list of properties, in which a DNS name may look
like a URI; only an X.509 reader tells them apart.
Must never: pick one of several identities, or fall back to a common name.
Rules: `wire#identity`, `shard#tls`.
"""

from typing import Final

from cryptography import x509

from bigfleet.aio.clock import nanoseconds
from bigfleet.aio.identity import ADMIN, READONLY, SCHEME, Identity, Role
from bigfleet.aio.net import Peer
from bigfleet.model.errors import InvalidFieldError

__all__ = ["ADMIN", "READONLY", "Identity", "Role", "bigfleet_uris", "peer_of_certificate", "sole_identity"]

_TLS_FLOOR: Final = "TLSv1.3"


def bigfleet_uris(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return every URI SAN of our scheme, in the order of the certificate, other URIs left out."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    # Schemes are case-insensitive to URI readers; an odd spelling counts here so that parsing refuses it.
    return tuple(uri for uri in uris if uri.lower().startswith(SCHEME))


def sole_identity(certificate: x509.Certificate) -> Identity:
    """Return the one identity of a certificate; none, several or a malformed one is refused."""
    uris = bigfleet_uris(certificate)
    if len(uris) != 1:
        raise InvalidFieldError("URI SANs of the certificate", list(uris), "exactly one bigfleet:// URI")
    return Identity.parse(uris[0])


def peer_of_certificate(address: str, pem: bytes, tls_version: str = _TLS_FLOOR, *, now_ns: int = 0) -> Peer:
    """Describe the far end of a TLS connection; what is not exactly one identity becomes a problem, never a guess.

    A certificate that was good when the connection was made may have ended since; from then on it is a problem too.

    The version is looked at although the handshake has a floor of its own: that floor depends on which library was
    imported first (see `bigfleet.transport`), this check does not.
    """
    if tls_version != _TLS_FLOOR:
        return Peer(
            address, secured=True, problem=f"the connection speaks {tls_version}, the floor is {_TLS_FLOOR}"
        )
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        ends = certificate.not_valid_after_utc
        ends_ns = nanoseconds(ends.timestamp())
        if now_ns > ends_ns:
            return Peer(
                address, secured=True, problem=f"a certificate that ended at {ends:%Y-%m-%dT%H:%M:%SZ}"
            )
        identity = sole_identity(certificate)
        return Peer(address, secured=True, identity=identity, certificate_ends_ns=ends_ns)
    except InvalidFieldError as error:
        return Peer(address, secured=True, problem=str(error))
    except ValueError:  # also what cryptography raises for two SAN extensions or an unreadable one
        return Peer(address, secured=True, problem="no readable client certificate")
