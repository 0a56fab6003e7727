"""Reading the API server's record of calls."""

import json

from tests.support.control_plane.audit import AuditEvent, read_events

RECORD = {
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/namespaces/x/pods/p/eviction",
    "verb": "create",
    "user": {"username": "operator"},
    "userAgent": "bigfleet",
    "objectRef": {"resource": "pods", "namespace": "x", "name": "p", "subresource": "eviction"},
    "responseStatus": {"code": 429},
}


def test_a_record_becomes_an_event() -> None:
    assert list(read_events(json.dumps(RECORD) + "\n")) == [
        AuditEvent(
            user="operator",
            verb="create",
            group="",
            resource="pods",
            subresource="eviction",
            namespace="x",
            name="p",
            code=429,
            stage="ResponseComplete",
            uri="/api/v1/namespaces/x/pods/p/eviction",
            user_agent="bigfleet",
        )
    ]


def test_a_call_that_names_no_object_has_empty_parts() -> None:
    (event,) = read_events('{"verb": "get", "requestURI": "/version"}\n')
    assert (event.resource, event.name, event.code) == ("", "", 0)


def test_a_line_that_is_still_being_written_waits_for_the_next_time() -> None:
    text = json.dumps(RECORD) + "\n"
    assert len(list(read_events(text + text[:40]))) == 1
    assert list(read_events("")) == []
