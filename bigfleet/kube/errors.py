"""The errors of calls to an API server.

Why: the client library raises four unrelated families of errors. Above this room there is one, and the type says what to do.
Must never: carry a token, a header other than Retry-After, or the body of a request.
Rules: `operator#raw-json`, `operator#kube-errors`.

    KubeError                   status 0 to 599, the text of the answer
    ├── UnreachableError        no answer, a cut or silent connection
    ├── MalformedAnswerError    an answer that is not from an API server
    ├── UnauthorizedError       401: log in again
    ├── ForbiddenError          403: a role lacks a right, or the namespace is being deleted
    ├── NotFoundError           404: the object, or its kind, does not exist
    ├── ConflictError           409: the object has changed
    │   └── AlreadyExistsError  409: the name is taken
    ├── GoneError               410: the version is too old to resume from
    ├── InvalidObjectError      400, 413 or 422: invalid, whenever it is sent
    ├── ThrottledError          429: later
    └── ServerError             5xx: later
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bigfleet.model.errors import BigFleetError

_SHOWN = 400  # characters of a body that is not JSON; enough to recognise a gateway's page


class LoginError(BigFleetError):
    """No usable credentials for a cluster; the text names the file or variable at fault."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause in the details of an answer: reason, field and message."""

    reason: str
    field: str
    message: str


class KubeError(BigFleetError):
    """The API server did not do what was asked."""

    temporary: ClassVar[bool] = False
    """Whether the same call may succeed later."""

    def __init__(
        self,
        call: str,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: Sequence[Cause] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(
            f"{call}: {f'{status} ' if status else ''}{f'{reason}: ' if reason else ''}{message}"
        )
        self.call, self.message, self.status, self.reason = call, message, status, reason
        self.causes, self.retry_after_s = tuple(causes), retry_after_s

    def has_cause(self, reason: str) -> bool:
        """Return whether one of the causes has this reason."""
        return any(cause.reason == reason for cause in self.causes)


class UnreachableError(KubeError):
    """No complete answer came; the call may or may not have taken effect."""

    temporary = True


class MalformedAnswerError(KubeError):
    """The answer is not from an API server, for example a gateway's error page."""

    temporary = True


class UnauthorizedError(KubeError):
    """The credentials are not accepted."""

    temporary = True


class ForbiddenError(KubeError):
    """The account may not do this."""


class NotFoundError(KubeError):
    """The object, or its kind, does not exist."""


class ConflictError(KubeError):
    """The object has changed since it was read, or has another uid."""


class AlreadyExistsError(ConflictError):
    """An object of this name exists."""


class GoneError(KubeError):
    """The version or the list token is too old; list again."""


class InvalidObjectError(KubeError):
    """The object is invalid; the causes name the fields."""


class ThrottledError(KubeError):
    """The API server is busy, or a disruption budget allows no eviction now."""

    temporary = True


class ServerError(KubeError):
    """The API server, or a proxy before it, failed."""

    temporary = True


_BY_STATUS: Mapping[int, type[KubeError]] = {
    400: InvalidObjectError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: InvalidObjectError,
    422: InvalidObjectError,
    429: ThrottledError,
}


def error_of(call: str, status: int, body: object, retry_after_s: float | None = None) -> KubeError:
    """Return the error for an answer; the body is the decoded Status, or the text that came instead."""
    document: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    reason = _text(document.get("reason"))
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else KubeError)
    if status == 409 and reason == "AlreadyExists":
        kind = AlreadyExistsError
    if status == 410 or reason in ("Expired", "Gone"):
        kind = GoneError
    raw_details = document.get("details")
    details: Mapping[str, Any] = raw_details if isinstance(raw_details, Mapping) else {}
    if retry_after_s is None and isinstance(seconds := details.get("retryAfterSeconds"), int):
        retry_after_s = float(seconds)
    message = _text(document.get("message")) or _foreign(body)
    return kind(
        call,
        message,
        status=status,
        reason=reason,
        causes=_causes(details.get("causes")),
        retry_after_s=retry_after_s,
    )


def _causes(found: object) -> tuple[Cause, ...]:
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        return ()
    documents = (entry for entry in found if isinstance(entry, Mapping))
    return tuple(
        Cause(_text(entry.get("reason")), _text(entry.get("field")), _text(entry.get("message")))
        for entry in documents
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _foreign(body: object) -> str:
    shown = " ".join(body.split()) if isinstance(body, str) else ""
    return shown[:_SHOWN] or "no further details"
