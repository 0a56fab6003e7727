"""The transport to an API server: a call and its response, or a call and a stream of lines.

Why: everything above it (errors, retries, reflector, lease) is the same over HTTP and over the in-memory API server of the
tests, so all of it runs in virtual time too. The HTTP form is `bigfleet.kube.http_transport`.
Must never: retry, interpret a status, or wait longer than the deadline of the call.
Rules: `testing#constructor-seams`, `operator#kubernetes-client`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

# Any: objects of the API server are JSON documents; each reader checks what it takes out.
Document = dict[str, Any]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is YAML


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request, without credentials; the transport adds them."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Document | None = None
    content_type: str = JSON
    deadline_s: float = 30.0

    @property
    def title(self) -> str:
        """How an error names the call."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """The response with any status; the body is decoded JSON if it was JSON, else text."""

    status: int
    body: object
    headers: Mapping[str, str] = field(default_factory=dict)


class WatchLines(Protocol):
    """The response to a watch: its status first, then the lines as they arrive."""

    @property
    def answer(self) -> ApiResponse:
        """Status and headers; there is a body only if the status is not 200."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield each line, without its end, until the server closes; UnreachableError if the connection breaks."""


class ApiTransport(Protocol):
    """Sends calls to one API server."""

    async def send(self, call: ApiCall) -> ApiResponse:
        """Make a call; UnreachableError if no complete response came within its deadline."""

    def open(self, call: ApiCall) -> AbstractAsyncContextManager[WatchLines]:
        """Make a call with a streaming response; leaving the context closes the connection."""

    async def renew_login(self) -> None:
        """Read the credentials again after a 401; the last good ones stay if there are no newer ones."""

    async def close(self) -> None:
        """Close all connections."""
