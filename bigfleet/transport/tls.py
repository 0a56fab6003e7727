"""Certificate, key and CA of a process, read again when the files change.

Why: certificates live for hours and are replaced in place; neither a restart nor a half-written file may cost a session.
Must never: hand out a pair that does not fit, raise once the first load has succeeded, or put key material into an
error or a log.
Rules: `shard#tls`, `wire#identity`: modification times are looked at, unreadable or mismatched files keep the last good
pair and are tried again next time, the CA bundle is read once; `packaging#given-files`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from bigfleet.aio.disk import DiskError
from bigfleet.aio.given_files import UnfitFileError, open_to_others, read_given
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.model.errors import BigFleetError, InvalidFieldError


class PartialTlsError(InvalidFieldError):
    """Some of the three TLS flags are set and some are not."""


class TlsMaterialError(BigFleetError):
    """A TLS file cannot be read, or what is in the files does not belong together."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The three files of mutual TLS; one certificate serves both directions."""

    cert: Path
    key: Path
    ca: Path

    @classmethod
    def from_flags(cls, cert: str, key: str, ca: str) -> Self | None:
        """Return None when no flag is set, `PartialTlsError` naming the missing ones when only some are."""
        flags = {"--tls-cert": cert, "--tls-key": key, "--tls-ca": ca}
        missing = [flag for flag, value in flags.items() if not value]
        if len(missing) == len(flags):
            return None
        if missing:
            raise PartialTlsError(
                ", ".join(missing), "", "all of --tls-cert, --tls-key, --tls-ca, or none of them"
            )
        return cls(Path(cert), Path(key), Path(ca))


@dataclass(frozen=True, slots=True)
class TlsPair:
    """A certificate chain and the key that fits it, as PEM."""

    cert_pem: bytes
    key_pem: bytes
    not_after: datetime

    def __repr__(self) -> str:  # the generated one would print the key
        return f"TlsPair(not_after={self.not_after:%Y-%m-%dT%H:%M:%SZ})"


_Stamp = tuple[tuple[int, int, int], ...]


class TlsStore:
    """The newest pair that was good, and the CA bundle of the start."""

    def __init__(
        self,
        files: TlsFiles,
        on_problem: Callable[[str], None],
        on_warning: Callable[[str], None] = lambda _warning: None,
    ) -> None:
        """Load everything once; what cannot be used at start raises `TlsMaterialError`.

        `on_warning` hears once that every user of the host may read the key.
        """
        self._files = files
        self._on_problem = on_problem
        self._lock = threading.Lock()  # handshakes ask from the library's threads, channels from the loop
        self._stamp = _stamp(files)
        self._pair = _load_pair(files)
        self._ca_pem = read_ca(files.ca)
        self._reported = ""
        if warning := open_to_others(SystemDisk(), files.key):
            on_warning(warning)

    @property
    def files(self) -> TlsFiles:
        return self._files

    @property
    def ca_pem(self) -> bytes:
        """The CA bundle as it was at start."""
        return self._ca_pem

    def fresh_ca_pem(self) -> bytes:
        """The CA bundle as it is now; the one of the start when the file is unusable."""
        try:
            return read_ca(self._files.ca)
        except TlsMaterialError as error:
            self._report(str(error))
            return self._ca_pem

    def pair(self) -> TlsPair:
        """Return the newest good pair, looking at the files' modification times first."""
        with self._lock:
            try:
                stamp = _stamp(self._files)
                if stamp != self._stamp:
                    # The stamp is kept only with a good pair, so a bad one is tried again at the next call.
                    self._pair, self._stamp = _load_pair(self._files), stamp
                    self._reported = ""
            except TlsMaterialError as error:
                self._report(str(error))
            return self._pair

    def _report(self, problem: str) -> None:
        # Once per problem: a handshake may come a thousand times a second.
        if problem != self._reported:
            self._reported = problem
            self._on_problem(problem)


def read_ca(path: Path) -> bytes:
    """Return a CA bundle after checking that it holds certificates."""
    pem = _read(path)
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise TlsMaterialError(f"{path}: no PEM certificates in it") from error
    return pem


def _load_pair(files: TlsFiles) -> TlsPair:
    cert_pem, key_pem = _read(files.cert), _read(files.key)
    try:
        leaf = x509.load_pem_x509_certificates(cert_pem)[0]
    except ValueError as error:
        raise TlsMaterialError(f"{files.cert}: no PEM certificates in it") from error
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without its cause: the library's text may quote what it read.
        raise TlsMaterialError(f"{files.key}: no PEM private key without a password in it") from None
    if key.public_key() != leaf.public_key():
        raise TlsMaterialError(f"{files.key} is not the key of {files.cert}")
    return TlsPair(cert_pem, key_pem, leaf.not_valid_after_utc)


def _read(path: Path) -> bytes:
    try:
        return read_given(SystemDisk(), path)
    except DiskError as error:
        raise TlsMaterialError(f"{path}: {error.reason}") from error
    except UnfitFileError as error:
        raise TlsMaterialError(str(error)) from error


def _stamp(files: TlsFiles) -> _Stamp:
    try:
        stats = (files.cert.stat(), files.key.stat())
    except OSError as error:
        raise TlsMaterialError(f"{error.filename}: {error.strerror or 'cannot be read'}") from error
    # Inode and size besides the time: a mounted secret is swapped whole, often within one tick of the file clock.
    return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)
