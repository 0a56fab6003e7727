"""Plain calls to the API server of a test cluster, as one user.

Why: tests arrange and look at objects; that must not rest on the client library which is itself under test.
Must never: retry, cache, or hide a status.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.support.control_plane.errors import ApiRefusedError, UnreachableError

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_DEADLINE_S: Final = 15


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said; `body` is decoded JSON, or the text as it came."""

    status: int
    body: Any  # objects of any kind, read by tests field by field

    @property
    def ok(self) -> bool:
        """Whether it was a yes."""
        return 200 <= self.status < 300


class Api:
    """One user's way to the API server."""

    def __init__(self, url: str, ca_file: Path, token: str, *, deadline_s: float = _DEADLINE_S) -> None:
        self._url = url
        self._address = urlsplit(url).netloc
        self._token = token
        self._deadline_s = deadline_s
        self._tls = ssl.create_default_context(cafile=str(ca_file))

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Answer:
        """Return whatever the server answers; raise only when it does not."""
        connection = http.client.HTTPSConnection(self._address, context=self._tls, timeout=self._deadline_s)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, "Accept": JSON}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            is_json = JSON in answer.headers.get("Content-Type", "")
            status, text = answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(self._url, str(error) or type(error).__name__) from error
        finally:
            connection.close()
        return Answer(status, json.loads(text) if is_json else text)

    def get(self, path: str) -> Any:
        """Return an object or a list."""
        return self._must("GET", path)

    def find(self, path: str) -> Any | None:
        """Return an object, or None when there is none."""
        answer = self.call("GET", path)
        return None if answer.status == http.HTTPStatus.NOT_FOUND else _body("GET", path, answer)

    def post(self, path: str, body: object) -> Any:
        """Create an object and return it as stored."""
        return self._must("POST", path, body)

    def put(self, path: str, body: object) -> Any:
        """Replace an object and return it as stored."""
        return self._must("PUT", path, body)

    def patch(self, path: str, body: object, *, content_type: str = MERGE_PATCH) -> Any:
        """Change an object and return it as stored."""
        return self._must("PATCH", path, body, content_type)

    def delete(self, path: str) -> Any:
        """Delete an object; it need not be gone yet."""
        return self._must("DELETE", path)

    def _must(self, method: str, path: str, body: object = None, content_type: str = JSON) -> Any:
        return _body(method, path, self.call(method, path, body, content_type=content_type))


def _body(method: str, path: str, answer: Answer) -> Any:
    if answer.ok:
        return answer.body
    if isinstance(answer.body, dict):
        reason, message = str(answer.body.get("reason", "")), str(answer.body.get("message", ""))
    else:
        reason, message = "", str(answer.body)
    raise ApiRefusedError(method, path, answer.status, reason, message)
