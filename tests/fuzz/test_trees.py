"""Changes of trees: what is read is written again as it was, a seed of randomness gives one input, the form is kept.

Rules: `testing#fuzzing`.
"""

import json
from random import Random

import pytest

from tests.fuzz.targets import BY_NAME, TARGETS, Target, field_of
from tests.fuzz.trees import JSON, WIRE, YAML, Form, changed, words_of

pytestmark = pytest.mark.rule("testing#fuzzing")
SHAPED = [target for target in TARGETS if target.form is not None]
MESSAGES = [target for target in SHAPED if target.form is WIRE]


def of(target: Target) -> Form:
    assert target.form is not None
    return target.form


def test_a_message_is_written_as_it_was_read() -> None:
    message = (
        field_of(1, b"m-1") + b"\x10\x96\x01" + b"\x39" + bytes(8) + field_of(11, field_of(2, b"\x08\x01"))
    )
    assert WIRE.write(WIRE.read(message)) == message


@pytest.mark.parametrize("target", MESSAGES, ids=lambda target: target.name)
def test_a_message_that_was_written_is_read_as_the_same_tree(target: Target) -> None:
    written = [WIRE.write(WIRE.read(data)) for data in target.seeds() if _read(WIRE, data)]
    assert written
    assert [WIRE.write(WIRE.read(data)) for data in written] == written


@pytest.mark.parametrize("text", ['{"a": [1, null, "é\\n"], "a": {}}', "[true, 1.5, -0.0]"])
def test_a_document_is_written_as_it_was_read_with_a_key_that_comes_twice(text: str) -> None:
    assert json.loads(JSON.write(JSON.read(text.encode())), object_pairs_hook=list) == json.loads(
        text, object_pairs_hook=list
    )


@pytest.mark.parametrize(
    "data", [b"\x0a\x05ab", b"\x00", b"\x0b", b"\x80" * 11, b"\x09\x01"], ids=lambda data: data.hex()
)
def test_what_is_no_message_is_no_tree(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 the words are for the reader of the code
        WIRE.read(data)


@pytest.mark.parametrize("data", [b"a: &b {c: *b}", b"1", b"a: [", b"? {a: b}\n: c", b"[" * 5000])
def test_what_has_aliases_or_is_no_document_is_no_tree(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 the words are for the reader of the code
        YAML.read(data)


@pytest.mark.parametrize("target", SHAPED, ids=lambda target: target.name)
def test_changed_trees_differ_from_the_seed_keep_the_form_and_follow_from_the_number_alone(
    target: Target,
) -> None:
    form, words = of(target), words_of(of(target), target.seeds())

    def inputs() -> list[bytes]:
        return [
            changed(data, form, words, Random(number), bytes.upper)
            for data in target.seeds()
            if _read(form, data)
            for number in range(40)
        ]

    made = inputs()
    assert inputs() == made
    assert len(set(made) - set(target.seeds())) > len(made) / 2
    assert sum(_read(form, data) for data in made) > len(made) * 0.8


def test_bytes_of_another_form_are_changed_as_bytes() -> None:
    assert changed(b"}", JSON, words_of(JSON, ()), Random(1), lambda data: data + b"!") == b"}!"


def test_words_of_the_seeds_are_put_into_trees() -> None:
    words = words_of(JSON, BY_NAME["snapshot"].seeds())
    assert {"machines", "needs"} <= set(words.labels)
    made = b"".join(changed(b'{"a": 1}', JSON, words, Random(number), bytes) for number in range(500))
    assert all(json.dumps(label).encode() in made for label in ("machines", "needs"))


def _read(form: Form, data: bytes) -> bool:
    try:
        form.read(data)
    except ValueError:
        return False
    return True
