"""The seam to an API server: one call and its answer, or one call and the lines that follow.

Why: everything above it (errors, retries, reflector, lease) is the same over a real connection and over the in-memory API
server of the test kit and the simulator; so all of it runs in virtual time too.
The real form is `bigfleet.kube.http_transport`.
Must never: retry, interpret a status, or wait longer than the call says.
Rules: simulator 2.2, operator 15.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

# Any: objects of the API server are JSON documents; each reader checks what it takes out.
Document = dict[str, Any]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request, without credentials; those are the transport's."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Document | None = None
    content_type: str = JSON
    deadline_s: float = 30.0

    @property
    def title(self) -> str:
        """The words by which an error names the call."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """What came back, whatever the status; the body is decoded JSON where it was JSON, else text."""

    status: int
    body: object
    headers: Mapping[str, str] = field(default_factory=dict)


class WatchLines(Protocol):
    """The answer to a watch: its status first, then the lines as they come."""

    @property
    def answer(self) -> ApiResponse:
        """Status and headers; the body is only there when the status is not 200."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Give each line, without its end, until the server closes; UnreachableError when the connection breaks."""


class ApiTransport(Protocol):
    """A way to one API server."""

    async def send(self, call: ApiCall) -> ApiResponse:
        """Make a call; UnreachableError when no whole answer came within its deadline."""

    def open(self, call: ApiCall) -> AbstractAsyncContextManager[WatchLines]:
        """Make a call whose answer has no end; leaving the context gives the connection back."""

    async def renew_login(self) -> None:
        """Read the credentials anew, since they were refused; the last good ones stay where there are no better ones."""

    async def close(self) -> None:
        """Give all connections back."""
