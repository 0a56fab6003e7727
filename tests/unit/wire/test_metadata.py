"""The assignment as the provider keeps it: all keys written, each key read by itself."""

import math

import pytest
from hypothesis import given

from bigfleet.model.machine import UNASSIGNED, Assignment
from bigfleet.wire import metadata
from bigfleet.wire.metadata import assignment_from_metadata, assignment_to_metadata
from tests.support.builders import assigned
from tests.support.records import ASSIGNMENTS


@given(ASSIGNMENTS)
def test_what_is_written_reads_back_equal(stamp: Assignment) -> None:
    assert assignment_from_metadata(assignment_to_metadata(stamp, "s0")) == (stamp, ())


def test_every_key_is_written_even_when_there_is_nothing_to_say() -> None:
    assert assignment_to_metadata(UNASSIGNED, "shard-0") == {
        "bigfleet.lucy.sh/assigned-priority": "0",
        "bigfleet.lucy.sh/assigned-interruption-penalty-dollars": "0",
        "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars": "0",
        "bigfleet.lucy.sh/assigned-need-fingerprint": "",
        "bigfleet.lucy.sh/assigned-group": "",
        "bigfleet.lucy.sh/owner-shard": "shard-0",
    }


@pytest.mark.parametrize(
    ("text", "dollars"),
    [
        ("8192", 8192),
        ("0.5", 0.5),
        ("1.048576e+06", 1048576),
        ("+Inf", math.inf),
        ("Inf", math.inf),
        ("inf", math.inf),
    ],
)
def test_the_originals_floats_are_read(text: str, dollars: float) -> None:
    stamp, skipped = assignment_from_metadata({metadata.INTERRUPTION_PENALTY: text})
    assert (stamp.interruption_penalty, skipped) == (dollars, ())


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (metadata.PRIORITY, "high"),
        (metadata.PRIORITY, "2147483648"),
        (metadata.PRIORITY, "1_0"),
        (metadata.INTERRUPTION_PENALTY, "NaN"),
        (metadata.INTERRUPTION_PENALTY, "-1"),
        (metadata.RECLAMATION_PENALTY, "1,5"),
        (metadata.RECLAMATION_PENALTY, ""),
    ],
)
def test_an_unreadable_value_is_skipped_and_the_rest_still_counts(key: str, text: str) -> None:
    full = assignment_to_metadata(assigned(9, 5, 1, fingerprint="p=9", group="g"), "s")
    stamp, skipped = assignment_from_metadata({**full, key: text, "foreign": "x"})
    assert skipped == (key,)
    assert (stamp.fingerprint, stamp.group) == ("p=9", "g")


def test_the_inventory_of_an_old_shard_knows_no_stamp() -> None:
    assert assignment_from_metadata({}) == (UNASSIGNED, ())
