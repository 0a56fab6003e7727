"""TLS contexts of the Raft port, renewed when the certificate files change.

Why: the standard library reads certificates from files only, and a rotation must not need a restart.
Must never: leave a key on the disk, accept less than TLS 1.3, or trust a certificate for its CA alone: the peer must be a
replica, which carries the admin role.
Rules: `coordinator#identity-gates`, `coordinator#raft-port`, `wire#identity`, `coordinator#raft-tls`, `shard#tls`.
"""

import os
import ssl

from cryptography import x509

from bigfleet.aio.identity import ADMIN
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.identity import sole_identity
from bigfleet.transport.tls import TlsPair, TlsStore


class RaftTls:
    """TLS contexts for both directions, from one store of certificates."""

    def __init__(self, store: TlsStore) -> None:
        self._store = store
        self._pair: TlsPair | None = None
        self._contexts = self._fresh(store.pair())

    def server(self) -> ssl.SSLContext:
        """Return the context for incoming connections."""
        return self._current()[0]

    def client(self) -> ssl.SSLContext:
        """Return the context for connections to a peer, which checks its name."""
        return self._current()[1]

    def _current(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        pair = self._store.pair()
        if pair is not self._pair:
            self._contexts = self._fresh(pair)
        return self._contexts

    def _fresh(self, pair: TlsPair) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        self._pair = pair
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (server, client):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(cadata=self._store.ca_pem.decode())
            context.verify_mode = ssl.CERT_REQUIRED
            _load(context, pair)
        return server, client


def replica_problem(connection: ssl.SSLObject | None) -> str:
    """Return why the peer of a connection is no replica; empty if it is one."""
    certificate = None if connection is None else connection.getpeercert(binary_form=True)
    if certificate is None:
        return "no certificate"
    try:
        identity = sole_identity(x509.load_der_x509_certificate(certificate))
    except InvalidFieldError as error:
        return str(error)
    except ValueError:
        return "an unreadable certificate"
    return "" if identity == ADMIN else f"it is {identity}, a replica is {ADMIN}"


def _load(context: ssl.SSLContext, pair: TlsPair) -> None:
    # A file in memory, gone when it is closed.
    descriptor = os.memfd_create("bigfleet-raft-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pair.key_pem + b"\n" + pair.cert_pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
