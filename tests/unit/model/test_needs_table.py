"""What a change of demand is, and what it is not."""

from dataclasses import replace

import pytest

from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.profile import Profile
from tests.support.builders import amounts


def row(cpu: int, arrival_ns: int, cluster: str = "a") -> Need:
    return Need(cluster, Profile(priority=1), amounts(cpu=cpu), arrival_ns=arrival_ns)


def test_a_roll_up_that_differs_only_in_its_time_changes_nothing_and_keeps_its_place() -> None:
    table = NeedsTable()
    assert table.replace("a", [row(1, 10)]) is True
    assert table.replace("b", [row(1, 20, "b")]) is True
    assert table.replace("a", [row(1, 30)]) is False
    assert [(need.cluster, need.arrival_ns) for need in table.snapshot()] == [("a", 10), ("b", 20)]
    assert table.replace("a", [row(2, 30)]) is True
    assert table.replace("a", [row(2, 30), row(2, 30)]) is True
    assert table.replace("a", []) is True
    assert table.replace("a", []) is False


def test_a_row_that_differs_in_its_limit_or_in_fragments_is_a_change() -> None:
    table = NeedsTable()
    table.replace("a", [row(1, 10)])
    assert table.replace("a", [replace(row(1, 10), max_units=1)]) is True
    assert table.replace("a", [replace(row(1, 10), max_units=2)]) is True
    assert table.replace("a", [replace(row(1, 10), max_units=2, for_fragments=True)]) is True
    assert table.replace("a", [replace(row(1, 20), max_units=2, for_fragments=True)]) is False


def test_an_unchanged_table_hands_out_the_same_order_again() -> None:
    table = NeedsTable()
    table.replace("a", [row(1, 10)])
    first, version = table.snapshot(), table.version
    table.replace("a", [row(1, 10)])
    assert table.snapshot() is first
    assert table.version == version


def test_a_row_of_another_cluster_is_refused_and_nothing_changes() -> None:
    table = NeedsTable()
    table.replace("a", [row(1, 10)])
    with pytest.raises(ValueError, match="a row of cluster 'b' cannot stand among those of 'a'"):
        table.replace("a", [row(2, 10), row(2, 10, "b")])
    assert table.of_cluster("a") == (row(1, 10),)


def test_a_changed_part_is_made_aside_and_changes_nothing_until_it_is_put() -> None:
    table = NeedsTable()
    rows = (row(1, 1), row(2, 1))
    part = table.changed_part("a", rows)
    assert part is not None
    assert (len(table), table.version) == (0, 0)
    table.put(part)
    assert (table.of_cluster("a"), table.version) == (rows, 1)
    assert table.changed_part("a", rows) is None
