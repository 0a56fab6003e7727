"""Each answer of the API server becomes the error that says what to do."""

import pytest

from bigfleet.kube import errors
from bigfleet.kube.errors import KubeError, error_of


@pytest.mark.parametrize(
    ("status", "reason", "kind", "temporary"),
    [
        (400, "BadRequest", errors.InvalidObjectError, False),
        (401, "Unauthorized", errors.UnauthorizedError, True),
        (403, "Forbidden", errors.ForbiddenError, False),
        (404, "NotFound", errors.NotFoundError, False),
        (409, "Conflict", errors.ConflictError, False),
        (409, "AlreadyExists", errors.AlreadyExistsError, False),
        (410, "Expired", errors.GoneError, False),
        (422, "Invalid", errors.InvalidObjectError, False),
        (429, "TooManyRequests", errors.ThrottledError, True),
        (500, "InternalError", errors.ServerError, True),
        (503, "ServiceUnavailable", errors.ServerError, True),
        (418, "", KubeError, False),
    ],
)
def test_a_status_has_its_own_error(status: int, reason: str, kind: type[KubeError], temporary: bool) -> None:
    error = error_of("GET /x", status, {"reason": reason, "message": "because"})
    assert type(error) is kind
    assert (error.status, error.reason, error.message, error.temporary) == (
        status,
        reason,
        "because",
        temporary,
    )
    assert str(error).startswith(f"GET /x: {status} ")


def test_already_exists_is_also_a_conflict() -> None:
    assert isinstance(error_of("x", 409, {"reason": "AlreadyExists"}), errors.ConflictError)


def test_an_expired_version_is_gone_whatever_the_number() -> None:
    assert type(error_of("watch", 500, {"reason": "Expired"})) is errors.GoneError


def test_causes_and_patience_are_read_from_the_details() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "none now", "field": ""}]
    error = error_of("x", 429, {"details": {"causes": causes, "retryAfterSeconds": 10}})
    assert error.has_cause("DisruptionBudget")
    assert not error.has_cause("NamespaceTerminating")
    assert error.retry_after_s == 10.0


def test_a_header_beats_the_details() -> None:
    assert error_of("x", 429, {"details": {"retryAfterSeconds": 10}}, 3.0).retry_after_s == 3.0


@pytest.mark.parametrize("body", [None, 7, [], {"details": 3}, {"details": {"causes": "x"}}, {"reason": 4}])
def test_a_body_of_any_shape_is_no_reason_to_fail(body: object) -> None:
    assert error_of("x", 500, body).causes == ()


def test_of_a_foreign_page_only_the_beginning_is_kept() -> None:
    error = error_of("x", 503, "<html>\n" + "long " * 1000)
    assert error.message.startswith("<html> long")
    assert len(error.message) <= 400
