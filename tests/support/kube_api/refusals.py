"""The error responses of the in-memory API server, and the two checks that cause most of them.

Must never: differ from the real server where our code reads a refusal: reasons, causes, codes.
Rules: `operator#drain-rounds`, `operator#kube-errors`.
"""

from collections.abc import Iterable

from bigfleet.kube.resources import Resource
from bigfleet.kube.roles import RbacRole
from bigfleet.kube.transport import ApiResponse, Document


class ApiRefusedError(Exception):
    """An error response; returned to the caller as a response, never raised to it."""

    def __init__(
        self, status: int, reason: str, message: str, causes: Iterable[Document] = (), retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        details: Document = {"causes": list(causes)}
        if retry_after_s:
            details["retryAfterSeconds"] = retry_after_s
        self.headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
        self.status = status
        self.body: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": status,
            "reason": reason,
            "message": message,
            "details": details,
        }


class UnknownPathError(Exception):
    """The kind is not served; the only refusal that the real server sends as plain text."""

    answer = ApiResponse(404, "404 page not found\n")


def check_right(role: RbacRole | None, resource: Resource, subresource: str, verb: str) -> None:
    """Refuse what a role does not allow."""
    if role is None:
        return
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    for rule in (*role.cluster, *role.own_namespace):
        if rule.group == resource.group and name in rule.resources and verb in rule.verbs:
            return
    message = f'{role.name} cannot {verb} resource "{name}" in API group "{resource.group}"'
    raise ApiRefusedError(403, "Forbidden", message)


def check_preconditions(stored: Document, preconditions: Document) -> None:
    """Refuse an object whose uid or version is not the one in the preconditions."""
    for name, wanted in preconditions.items():
        if stored["metadata"].get(name) != wanted:
            message = f"Precondition failed: {name} in precondition: {wanted}, in object meta: {stored['metadata'].get(name)}"
            raise ApiRefusedError(409, "Conflict", message)
