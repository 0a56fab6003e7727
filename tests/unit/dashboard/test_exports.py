"""No cell of an export begins a formula, in whatever way a spreadsheet splits cells (`dashboard#exports`)."""

import csv
import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.dashboard.exports import TABLES, as_csv

_PIECES = st.sampled_from(
    [
        "=",
        "+",
        "-",
        "@",
        ";",
        "\t",
        "\n",
        "\r",
        " ",
        "\xa0",
        "\u200b",
        "\x00",
        "'",
        '"',
        ",",
        "a",
        "\uff1d",
        "|",
    ]
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.text(_PIECES, max_size=8),
    st.lists(st.text(_PIECES, max_size=4), max_size=3),
    st.dictionaries(st.text(_PIECES, max_size=4), st.text(_PIECES, max_size=4), max_size=3),
)


@pytest.mark.rule("dashboard#exports")
@given(VALUES)
def test_no_cell_begins_a_formula(value: Any) -> None:
    row = dict.fromkeys(TABLES["shortfalls"], "x") | {"reason": value}
    text = as_csv("shortfalls", [row])
    (_, cells) = csv.reader(io.StringIO(text, newline=""))
    found = cells[TABLES["shortfalls"].index("reason")]
    assert not re.search("[\x00-\x08\x0b-\x1f\u200b]", found)
    for part in re.split(r"[;\t\n]", found):
        assert not re.match(r"[=+\-@|\uff1d]", part.strip()), found


def test_numbers_and_plain_texts_stay_as_they_are() -> None:
    row = {
        "shardId": "shard-0",
        "priority": -5,
        "priorityClass": "batch",
        "deficit": {"cpu": "4", "nvidia.com/gpu": "8"},
        "ageCycles": 3,
        "reason": "PRIORITY_STARVED",
        "clusters": ["web", "batch-7"],
        "fingerprint": "rack=r-1",
    }
    (line,) = list(csv.DictReader(io.StringIO(as_csv("shortfalls", [row]))))
    assert line == {
        "shardId": "shard-0",
        "priority": "-5",
        "priorityClass": "batch",
        "deficit": "cpu=4; nvidia.com/gpu=8",
        "ageCycles": "3",
        "reason": "PRIORITY_STARVED",
        "clusters": "web; batch-7",
        "fingerprint": "rack=r-1",
    }
