"""Texts that are no document, or only look like one, are refused without a traceback."""

import json

import pytest

from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import read_situation


def refusal(data: bytes | str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read_situation(data)
    return caught.value


START = '{"version":1,"now":1,"machines":['
END = '],"needs":[]}'

TEXT_ROWS: list[tuple[bytes | str, str, str]] = [
    (b"", "document", "nothing"),
    ("", "document", "nothing"),
    (b"\xef\xbb\xbf", "document", "nothing"),
    (" \n\t ", "document", "nothing"),
    ("null", "document", "null"),
    ("[]", "document", "a list"),
    ("7", "document", "7"),
    ("NaN", "document", "NaN"),
    ("{", "document", "broken JSON at line 1 column 2 (Expecting property name enclosed in double quotes)"),
    ("{}\n{}", "document", "broken JSON at line 2 column 1 (Extra data)"),
    (
        "{'version': 1}",
        "document",
        "broken JSON at line 1 column 2 (Expecting property name enclosed in double quotes)",
    ),
    (b'{"version": 1, "now": "\xff"}', "document", "byte 0xff at offset 23"),
    ('{"version":1}'.encode("utf-16"), "document", "byte 0xff at offset 0"),
    ("[" * 100_000, "document", "objects or lists nested too deeply"),
    ('{"a":' * 100_000, "document", "objects or lists nested too deeply"),
    ('{"version":1,"version":1}', "version", "the key twice"),
    ('{"version":1,"now":' + "9" * 5000 + "}", "now", "a number of 5000 digits"),
    ('{"version":' + "9" * 5000 + "}", "version", "a number of 5000 digits"),
    ('{"version":-' + "9" * 5000 + "}", "version", "a number of 5000 digits"),
    (
        '{"version":' + "9" * 5000 + "]",
        "document",
        "broken JSON at line 1 column 5012 (Expecting ',' delimiter)",
    ),
    ('{"version":' + "9" * 5000 + ',"x":' + "[" * 100_000, "document", "objects or lists nested too deeply"),
    ('{"version":1,"now":1e999}', "now", "Infinity"),
    ('{"version":1,"now":NaN}', "now", "NaN"),
    ('{"version":1,"now":-Infinity}', "now", "-Infinity"),
    (START + '{"id":"a","id":"b","state":"Idle"}' + END, "machines[0].id", "the key twice"),
    (
        START + '{"id":"a","state":"Speculative","labels":{"k":"1","k":"1"}}' + END,
        "machines[0].labels[k]",
        "the key twice",
    ),
    (
        START + '{"id":"a","state":"Idle","host":{"ref":"1","ref":"1"}}' + END,
        "machines[0].host.ref",
        "the key twice",
    ),
    (
        START + '{"id":"a","state":"Speculative","x-a":{"b":1,"b":2}}' + END,
        "machines[0].x-a",
        "the key twice",
    ),
    ('{"x-\\ud800":1}', '["x-\\ud800"]', "a lone surrogate"),
]


@pytest.mark.parametrize(("data", "path", "found"), TEXT_ROWS, ids=[str(row[0])[:40] for row in TEXT_ROWS])
def test_a_text_that_is_no_document_is_refused(data: bytes | str, path: str, found: str) -> None:
    error = refusal(data)
    assert (error.field, error.found) == (path, found)


PLAIN = json.dumps({"version": 1, "now": 1, "machines": [], "needs": []})


@pytest.mark.parametrize(
    "data", ["\ufeff" + PLAIN, b"\xef\xbb\xbf" + PLAIN.encode(), PLAIN, f"\n {PLAIN}\r\n"]
)
def test_a_byte_order_mark_and_blanks_around_a_document_do_no_harm(data: bytes | str) -> None:
    assert read_situation(data) == read_situation(PLAIN.encode())


def test_a_long_number_is_found_even_among_keys_that_are_ignored() -> None:
    error = refusal(PLAIN[:-1] + ', "x-big": [' + "1" * 10_000 + "]}")
    assert (error.field, error.found) == ("x-big", "a number of 10000 digits")


def test_the_error_keeps_nothing_of_what_went_on_inside() -> None:
    for data in (b"\xff", "{", "[" * 100_000, '{"version":1,"now":{}}'):
        assert refusal(data).__suppress_context__
