"""How the in-memory API server says no, and the two checks that most refusals come from.

Must never: word a refusal otherwise than the real server where our code reads the words: reasons, causes, codes.
Rules: operator 7.4 and 15.4.
"""

from collections.abc import Iterable

from bigfleet.kube.resources import Resource
from bigfleet.kube.roles import RbacRole
from bigfleet.kube.transport import ApiResponse, Document


class RefusedError(Exception):
    """What the server answers instead; carried to the caller as an answer, never raised to it."""

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
    """No such kind is served; the one refusal that the real server words as plain text."""

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
    raise RefusedError(403, "Forbidden", message)


def check_preconditions(stored: Document, preconditions: Document) -> None:
    """Refuse to touch an object that is not the one meant."""
    for name, wanted in preconditions.items():
        if stored["metadata"].get(name) != wanted:
            message = f"Precondition failed: {name} in precondition: {wanted}, in object meta: {stored['metadata'].get(name)}"
            raise RefusedError(409, "Conflict", message)
