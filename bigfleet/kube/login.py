"""Finds the API server of a cluster and keeps the credentials for it fresh.

Why: the token of a service account is replaced every hour, and its file is empty for a moment while that happens
(`operator#login`).
Must never: replace a good token by an empty one, put a secret into an error or a log, or read files at each call.
Rules: `operator#start-order`, `operator#login`, `operator#c7`, `operator#c8`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.disk import Disk, DiskError
from bigfleet.aio.given_files import MIB, UnfitFileError, read_given
from bigfleet.kube.errors import LoginError
from bigfleet.kube.kubeconfig import Kubeconfig, Material, Target, merge
from bigfleet.model.times import ns_of_iso8601

REREAD_S: Final = 60.0
EXPIRY_MARGIN_S: Final = 60.0
KUBECONFIG_BYTES: Final = 8 * MIB  # a thousand contexts, each with its certificates written into the file
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of one call; certificates are PEM."""

    token: str = field(default="", repr=False)
    ca: bytes = b""
    cert: bytes = b""
    key: bytes = field(default=b"", repr=False)


RunPlugin = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Runs a credential plugin by its section of the kubeconfig and returns the status it printed."""


def find_target(environ: Mapping[str, str], disk: Disk, *, kubeconfig: str = "", context: str = "") -> Target:
    """Return the target from the file named, else $KUBECONFIG, else ~/.kube/config, else the service account of the pod."""
    if kubeconfig:
        return read_kubeconfig(disk, kubeconfig).resolve(context)
    listed = [path for path in environ.get("KUBECONFIG", "").split(":") if path]
    home = environ.get("HOME", "")
    candidates = listed or ([f"{home}/.kube/config"] if home else [])
    files = [_read(disk, path) for path in candidates if disk.exists(path)]
    if files:
        return merge(files).resolve(context)
    if environ.get(_HOST) and environ.get(_PORT):
        return _in_cluster(environ, disk)
    tried = ", ".join(candidates) or "no file"
    raise LoginError(f"no way into a cluster: tried {tried}, and {_HOST} is not set as it would be in a pod")


def read_kubeconfig(disk: Disk, path: str) -> Kubeconfig:
    """Return one file with all its contexts; LoginError if it cannot be read."""
    return merge([_read(disk, path)])


class Login:
    """The credentials for one server, kept in step with their files."""

    def __init__(self, target: Target, disk: Disk, clock: Clock, run_plugin: RunPlugin | None = None) -> None:
        self.target = target
        self._disk, self._clock, self._run_plugin = disk, clock, run_plugin
        self._last: Credentials | None = None
        self._due_s = 0.0
        self._renewing = asyncio.Lock()
        self._renewals = 0

    async def credentials(self) -> Credentials:
        """Return the credentials, read again when they are due."""
        if self._last is None or monotonic_s(self._clock) >= self._due_s:
            return await self.renew()
        return self._last

    async def renew(self) -> Credentials:
        """Read the credentials; what cannot be read or is empty stays as it was. LoginError if there were none before.

        Concurrent callers share one read: a plugin is a process, and thirty calls may be refused at once.
        """
        before = self._renewals
        async with self._renewing:
            if self._last is None or self._renewals == before:
                self._last = await self._read_all()
                self._renewals += 1
            return self._last

    async def _read_all(self) -> Credentials:
        last = self._last or Credentials()
        fresh = replace(
            last,
            ca=self._material(self.target.ca, last.ca),
            cert=self._material(self.target.cert, last.cert),
            key=self._material(self.target.key, last.key),
            token=self._token(last.token),
        )
        self._due_s = monotonic_s(self._clock) + REREAD_S
        if self.target.exec_plugin is not None:
            fresh = await self._from_plugin(self.target.exec_plugin, fresh)
        return fresh

    def _material(self, material: Material, last: bytes) -> bytes:
        if not material.file:
            return material.data
        return self._content(material.file, last)

    def _token(self, last: str) -> str:
        if not self.target.token_file:
            return self.target.token.strip()
        # A token file may end in a newline, a header must not.
        token = self._content(self.target.token_file, last.encode()).decode(errors="replace").strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise LoginError(
                f"{self.target.token_file}: holds more than one line or word, allowed is one token"
            )
        return token

    def _content(self, path: str, last: bytes) -> bytes:
        try:
            content = read_given(self._disk, path)
        except (DiskError, UnfitFileError) as error:
            if last:
                return last
            raise LoginError(str(error)) from None
        if content.strip():
            return content
        if last:
            return last
        raise LoginError(f"{path}: empty, allowed is a token or certificate")

    async def _from_plugin(self, plugin: Mapping[str, Any], known: Credentials) -> Credentials:
        if self._run_plugin is None:
            raise LoginError("this program runs no credential plugins; allowed is a token or certificate")
        status = await self._run_plugin(plugin)
        expiry_ns = ns_of_iso8601(str(status.get("expirationTimestamp") or ""))
        if expiry_ns is None:
            # Valid until a 401, when the client renews it.
            self._due_s = float("inf")
        else:
            left_s = (expiry_ns - self._clock.wall_ns()) / 1e9 - EXPIRY_MARGIN_S
            self._due_s = monotonic_s(self._clock) + max(left_s, 1.0)
        token, cert = str(status.get("token") or ""), str(status.get("clientCertificateData") or "")
        if not token and not cert:
            raise LoginError(f"{plugin['command']}: gave neither a token nor a certificate")
        key = str(status.get("clientKeyData") or "")
        return replace(known, token=token.strip(), cert=cert.encode(), key=key.encode())


def _in_cluster(environ: Mapping[str, str], disk: Disk) -> Target:
    for name in ("token", "ca.crt"):
        if not disk.exists(f"{ACCOUNT}/{name}"):
            raise LoginError(f"{ACCOUNT}/{name}: not there; is automountServiceAccountToken off?")
    host, port = environ[_HOST], environ[_PORT]
    address = f"[{host}]" if ":" in host else host
    namespace = ""
    if disk.exists(f"{ACCOUNT}/namespace"):
        namespace = read_given(disk, f"{ACCOUNT}/namespace").decode(errors="replace").strip()
    return Target(
        server=f"https://{address}:{port}",
        namespace=namespace,
        ca=Material(file=f"{ACCOUNT}/ca.crt"),
        token_file=f"{ACCOUNT}/token",
    )


def _read(disk: Disk, path: str) -> tuple[str, str]:
    try:
        return path, read_given(disk, path, KUBECONFIG_BYTES).decode()
    except (DiskError, UnfitFileError) as error:
        raise LoginError(str(error)) from None
    except UnicodeDecodeError:
        raise LoginError(f"{path}: not readable as text") from None
