"""Secrets of one namespace that hold a certificate, its key and its authority.

Why: `bigfleet certs secrets` keeps the certificates of a fleet in them; the names in their data are those that every program mounts.
Must never: create by POST, which cannot be allowed for single names; put a key into an error or a text form.
Rules: `packaging#certificate-job`; ADR-0252.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import NotFoundError
from bigfleet.kube.resources import SECRETS, ObjectKey

MANAGER: Final = "bigfleet-certs"
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_TYPE: Final = "kubernetes.io/tls"
_CERT, _KEY, _CA = "tls.crt", "tls.key", "ca.crt"


@dataclass(frozen=True, slots=True)
class TlsSecret:
    """What a Secret holds; a part that is missing is empty."""

    cert: bytes
    key: bytes = field(repr=False)
    ca: bytes = b""
    is_ours: bool = True
    """Whether it was written here, and not by a person or another program."""


class TlsSecrets:
    """The Secrets of one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def find(self, name: str) -> TlsSecret | None:
        """Return a Secret, None when there is none of this name."""
        try:
            found = await self._client.get(SECRETS, ObjectKey(self._namespace, name))
        except NotFoundError:
            return None
        data = found.get("data") or {}
        labels = found["metadata"].get("labels") or {}
        return TlsSecret(
            _bytes(data, _CERT), _bytes(data, _KEY), _bytes(data, _CA), labels.get(_MANAGED_BY) == MANAGER
        )

    async def write(self, name: str, secret: TlsSecret) -> None:
        """Create a Secret, or replace what it holds."""
        await self._apply(name, secret, MANAGER, force=True)

    async def write_once(self, name: str, secret: TlsSecret, writer: str) -> None:
        """Create a Secret; ConflictError when another writer was first. `writer` must differ from run to run."""
        await self._apply(name, secret, f"{MANAGER}-{writer}", force=False)

    async def _apply(self, name: str, secret: TlsSecret, manager: str, *, force: bool) -> None:
        parts = {_CERT: secret.cert, _KEY: secret.key, _CA: secret.ca}
        document: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {_MANAGED_BY: MANAGER},
            },
            "type": _TYPE,
            "data": {key: base64.b64encode(value).decode() for key, value in parts.items()},
        }
        await self._client.apply(SECRETS, document, manager=manager, force=force)


def _bytes(data: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(str(data.get(key) or ""), validate=True)
    except ValueError:  # also for text that is not ASCII
        return b""
