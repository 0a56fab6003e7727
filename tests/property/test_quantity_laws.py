"""Laws of quantities and resource vectors, against rational arithmetic."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from bigfleet.model.quantity import NANO, format_quantity, parse_quantity
from bigfleet.model.resources import Resources

SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60), "e3": Fraction(1000), "E-2": Fraction(1, 100), "e+1": Fraction(10),
}  # fmt: skip

NUMBERS = st.from_regex(
    r"[+-]?([0-9]{1,12}(\.[0-9]{0,14})?|\.[0-9]{1,14})", fullmatch=True, alphabet="0123456789.+-"
)


@given(NUMBERS, st.sampled_from(sorted(SUFFIXES)))
def test_reading_equals_rational_arithmetic_rounded_away_from_zero(number: str, suffix: str) -> None:
    exact = Fraction(number) * SUFFIXES[suffix] * NANO
    expected = math.ceil(exact) if exact >= 0 else math.floor(exact)
    assert parse_quantity(number + suffix) == expected


@given(st.integers(min_value=-(10**39), max_value=10**39))
def test_what_is_written_reads_back_the_same(nano: int) -> None:
    text = format_quantity(nano)
    assert Fraction(text) == Fraction(nano, NANO)
    assert parse_quantity(text) == nano


NAMES = st.sampled_from(["cpu", "memory", "gpu", "disk"])
VECTORS = st.dictionaries(NAMES, st.integers(min_value=0, max_value=10**24)).map(Resources)


@given(VECTORS, VECTORS)
def test_vector_arithmetic_is_that_of_fractions_per_dimension(one: Resources, other: Resources) -> None:
    for name in ("cpu", "memory", "gpu", "disk"):
        left, right = Fraction(one.amount(name), NANO), Fraction(other.amount(name), NANO)
        assert Fraction((one + other).amount(name), NANO) == left + right
        assert Fraction((one - other).amount(name), NANO) == max(Fraction(0), left - right)
        assert Fraction(one.maximum(other).amount(name), NANO) == max(left, right)
        assert Fraction(one.scaled(3).amount(name), NANO) == left * 3


@given(VECTORS, VECTORS)
def test_cover_means_nothing_is_left_to_want(one: Resources, other: Resources) -> None:
    assert one.covers(other) == (other - one).is_zero


@given(VECTORS, VECTORS)
def test_subtracting_never_goes_below_zero_and_adding_back_covers(one: Resources, other: Resources) -> None:
    assert ((one - other) + other).covers(one)


@given(VECTORS)
def test_a_vector_written_as_text_reads_back_equal(vector: Resources) -> None:
    assert Resources.parse(vector.texts()) == vector


@given(VECTORS)
def test_zero_dimensions_do_not_matter(vector: Resources) -> None:
    padded = Resources({**vector, "zero": 0})
    assert padded == vector
    assert hash(padded) == hash(vector)
