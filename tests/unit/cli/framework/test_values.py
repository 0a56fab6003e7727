"""Texts of flags, variables and files, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.cli.framework.errors import UnreadableValueError
from bigfleet.cli.framework.values import (
    format_byte_size,
    format_duration,
    parse_boolean,
    parse_byte_size,
    parse_dial_address,
    parse_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("10s", 10.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("100ms", 0.1),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("7ns", 7e-9),
        ("1h2m3.5s", 3723.5),
    ],
)
def test_a_go_style_duration_is_read_as_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "s", "10 s", "-5s", "1d", "10S", "1h-5m", "nan", "1e3s", "999999999h"]
)
def test_a_text_without_unit_or_meaning_is_no_duration(text: str) -> None:
    with pytest.raises(UnreadableValueError, match="a duration such as"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**15))
def test_a_duration_reads_back_as_what_was_written(nanoseconds: int) -> None:
    assert round(parse_duration(format_duration(nanoseconds / 10**9)) * 10**9) == round(
        nanoseconds / 10**9 * 10**9
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0"), (10.0, "10s"), (300.0, "5m"), (5400.0, "1h30m"), (0.1, "100ms"), (90.5, "1m30.5s")],
)
def test_a_duration_is_written_in_its_shortest_form(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("65536", 65536), ("64KiB", 65536), ("100MiB", 104857600), ("10MB", 10**7), ("1 GiB", 2**30)],
)
def test_a_byte_size_has_a_binary_or_decimal_unit_or_none(text: str, size: int) -> None:
    assert parse_byte_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1.5MiB", "-1", "10mib", "10 parsecs"])
def test_other_texts_are_no_byte_size(text: str) -> None:
    with pytest.raises(UnreadableValueError, match="a number of bytes"):
        parse_byte_size(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_a_byte_size_reads_back_as_what_was_written(size: int) -> None:
    assert parse_byte_size(format_byte_size(size)) == size


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("t", True), ("TRUE", True), ("0", False), ("f", False), ("False", False)],
)
def test_booleans_are_spelt_as_go_spells_them(text: str, value: bool) -> None:
    assert parse_boolean(text) is value


@pytest.mark.parametrize("text", ["yes", "on", "", "tRUE", "2"])
def test_other_words_are_no_boolean(text: str) -> None:
    with pytest.raises(UnreadableValueError, match="true or false"):
        parse_boolean(text)


@pytest.mark.parametrize("text", ["shard-0.example.org:7780", "127.0.0.1:1", "[::1]:7780"])
def test_an_address_to_dial_has_host_and_port(text: str) -> None:
    assert parse_dial_address(text) == text


@pytest.mark.parametrize("text", ["", ":7780", "host", "host:0", "host:65536", "::1:7780", "a b:1"])
def test_an_address_without_host_or_port_cannot_be_dialled(text: str) -> None:
    with pytest.raises(UnreadableValueError, match="host:port"):
        parse_dial_address(text)
