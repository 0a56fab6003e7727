"""YAML as people type it, without the traps of YAML; and refusals that say where."""

import pytest

from bigfleet.document.edits import read_edits
from bigfleet.document.errors import DocumentError
from bigfleet.document.yaml_text import parse_text


def refusal_of(data: bytes | str) -> str:
    with pytest.raises(DocumentError) as caught:
        read_edits(data)
    return str(caught.value)


def test_a_date_is_a_text_and_a_byte_order_mark_is_ignored() -> None:
    assert parse_text("\ufeffa: 2026-01-01\nb: [1, 1.5, true, null, x]") == {
        "a": "2026-01-01",
        "b": [1, 1.5, True, None, "x"],
    }


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "document: found nothing"),
        (b"# only a comment", "document: found nothing"),
        (b"\xff", "document: found byte 0xff at offset 0"),
        (b"edits: [", "document: found broken YAML at line "),
        (b"edits: []\n\tx: 1", "document: found broken YAML at line 2 column 1"),
        (b"edits: []\n--- \nedits: []", "document: found broken YAML at line 2 column 1"),
        (b"edits: &a []\nx-b: *a", "document: found broken YAML at line 2 column "),
        (b"1: x", "document: found broken YAML at line 1 column 1 (a key that is no text"),
        (b"edits: !!python/object:os.system []", "document: found broken YAML at line 1 column 8"),
        (b"edits: []\nedits: []", "edits: found the key twice"),
        (b"edits:\n- edit: pass_time\n  seconds: 1\n  seconds: 2", "edits[0].seconds: found the key twice"),
        (b"edits:\n- {edit: pass_time, seconds: .inf}", "edits[0].seconds: found Infinity"),
        (
            b"edits:\n- {edit: pass_time, seconds: " + b"9" * 5000 + b"}",
            "edits[0].seconds: found a number of 5000 digits",
        ),
        (b"- edit: pass_time", "document: found a list, allowed is an object"),
        (b"edits: {}", "edits: found an object, allowed is a list"),
        (b"version: 2\nedits: []", "version: found 2"),
        (b"edit: []", "edit: found an unknown field"),
        (b'{"edits": [}', "document: found broken JSON at line 1"),
        (b"a: " + b"[" * 600, "document: found "),
    ],
)
def test_what_is_no_file_of_edits_is_refused_with_its_place(data: bytes, found: str) -> None:
    assert refusal_of(data).startswith(found)
