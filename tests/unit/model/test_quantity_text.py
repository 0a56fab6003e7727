"""Canonical texts of quantities."""

import pytest

from bigfleet.model.quantity import parse_quantity
from bigfleet.model.quantity_text import canonical_text, parse_with_family


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000", "1k"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0", "0"),
        ("0Gi", "0"),
        ("1e3", "1k"),
        ("0.0000015", "1500n"),
        ("2500u", "2500u"),
        ("1E", "1E"),
        ("1023", "1023"),
        ("-1.5", "-1500m"),
        ("1000000000000000000000000", "1000000E"),
        ("0.1Ki", "102400m"),
    ],
)
def test_a_quantity_in_canonical_form(given: str, canonical: str) -> None:
    nano, binary = parse_with_family(given)
    assert canonical_text(nano, binary=binary) == canonical
    assert parse_quantity(canonical) == nano
