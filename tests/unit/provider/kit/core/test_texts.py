import pytest

from bigfleet.provider.kit.core.texts import one_line, without_secret


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("  two\nlines\t and \x00 a bell\x07 ", "two lines and a bell"),
        ("https://user:secret@host/path", "https://****@host/path"),
        ("line\u2028break", "line break"),
        ("\n", ""),
    ],
)
def test_an_error_is_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_long_error_is_cut_at_a_character() -> None:
    cut = one_line("é" * 2000)
    assert len(cut.encode()) == 1024
    assert set(cut) == {"é"}
    assert len(one_line("x" + "é" * 2000).encode()) == 1023


def test_a_lone_surrogate_cannot_break_the_record() -> None:
    assert one_line("bad \udc80 text") == "bad ? text"


SECRET = b"#!/bin/sh\nexport JOIN=abcdef0123456789\nkubeadm join\n"


@pytest.mark.parametrize(
    "text",
    [
        f"ssh failed: {SECRET.decode()}",
        "stderr: export JOIN=abcdef0123456789: not found",
        f"called with {SECRET!r}",
    ],
)
def test_a_secret_that_an_error_quotes_is_masked(text: str) -> None:
    masked = one_line(without_secret(text, SECRET))
    assert "abcdef0123456789" not in masked
    assert "****" in masked


def test_words_that_are_too_short_to_be_a_secret_stay() -> None:
    assert without_secret("if it fails", b"if\nfi\n") == "if it fails"
    assert without_secret("anything", b"") == "anything"
