"""Quantity text: what is read, what is refused, how it is written."""

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.quantity import NANO, format_quantity, parse_amount, parse_quantity


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("96", 96 * NANO), ("500m", NANO // 2), ("768Gi", 768 * 2**30 * NANO), ("0.5", NANO // 2), (".5", NANO // 2),
        ("5.", 5 * NANO), ("+1", NANO), ("-1", -NANO), ("1E", 10**18 * NANO), ("1E3", 1000 * NANO),
        ("1e3", 1000 * NANO), ("1e-3", NANO // 1000), ("2e+2", 200 * NANO), ("1n", 1), ("1u", 1000), ("1k", 1000 * NANO),
        ("1M", 10**6 * NANO), ("1G", 10**9 * NANO), ("1T", 10**12 * NANO), ("1P", 10**15 * NANO),
        ("1Ki", 2**10 * NANO), ("1Mi", 2**20 * NANO), ("1Ti", 2**40 * NANO), ("1Pi", 2**50 * NANO), ("8Ei", 2**63 * NANO),
        ("0", 0), ("-0", 0), ("0.5Ki", 512 * NANO),
    ],
)  # fmt: skip
def test_readable(text: str, nano: int) -> None:
    assert parse_quantity(text) == nano


@pytest.mark.parametrize(
    ("text", "nano"), [("0.1n", 1), ("-0.1n", -1), ("1.0000000001", NANO + 1), ("0n", 0)]
)
def test_finer_than_a_billionth_is_rounded_away_from_zero(text: str, nano: int) -> None:
    assert parse_quantity(text) == nano


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 ", " 1", "x", "12x", "1K", "1ki", "1kk", "1Kim", "--1", "1e", "1e1.5", ".", "+", "1_000", "٣", "1,5",
     "0x10", "NaN", "inf", "1e41", "1e-41", "9" * 65, "1e40", "1\n"],
)  # fmt: skip
def test_unreadable_or_beyond_bounds_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        parse_quantity(text, "min_unit[cpu]")
    assert refused.value.field == "min_unit[cpu]"


def test_an_amount_is_never_negative() -> None:
    with pytest.raises(InvalidFieldError, match="not negative"):
        parse_amount("-1")


@pytest.mark.parametrize(
    ("nano", "text"),
    [(8 * NANO, "8"), (NANO // 2, "0.5"), (32 * 2**30 * NANO, "34359738368"), (-1, "-0.000000001")],
)
def test_written_as_exact_decimal_text(nano: int, text: str) -> None:
    assert format_quantity(nano) == text
