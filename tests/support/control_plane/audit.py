"""The API server's own record of who called what.

Why: "this program makes no call that its role forbids" is proved by the server, not by what the program says of itself.
Must never: guess: a record is written after its answer was sent, so a test waits for the record it expects.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One answered call; a watch has two, one when it starts and one when it ends."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    stage: str
    uri: str
    user_agent: str


def read_events(text: str, user: str | None = None) -> Iterator[AuditEvent]:
    """Yield the records of an audit log, of all users or of one; a last line that is still being written is left out."""
    for line in text.splitlines(keepends=True):
        # A log of many tests is mostly about others; a line that does not even name the user is not worth reading.
        if line.endswith("\n") and (user is None or user in line):
            event = _event(json.loads(line))
            if user in (None, event.user):
                yield event


def _event(record: dict[str, object]) -> AuditEvent:
    user, target, status = _part(record, "user"), _part(record, "objectRef"), _part(record, "responseStatus")
    code = status.get("code", 0)
    return AuditEvent(
        user=_text(user, "username"),
        verb=_text(record, "verb"),
        group=_text(target, "apiGroup"),
        resource=_text(target, "resource"),
        subresource=_text(target, "subresource"),
        namespace=_text(target, "namespace"),
        name=_text(target, "name"),
        code=code if isinstance(code, int) else 0,
        stage=_text(record, "stage"),
        uri=_text(record, "requestURI"),
        user_agent=_text(record, "userAgent"),
    )


def _part(record: dict[str, object], key: str) -> dict[str, object]:
    part = record.get(key)
    return part if isinstance(part, dict) else {}


def _text(record: dict[str, object], key: str) -> str:
    return str(record.get(key, ""))
