"""Names that tests on a shared cluster give to what they make."""

import re
from pathlib import Path

from tests.support.control_plane.pool import ClusterPool


def test_no_two_names_are_equal_and_all_are_fit_for_a_namespace() -> None:
    pool = ClusterPool(Path("/nowhere"), lambda _: None)
    names = [
        pool.new_name(f"test_A_node[{'x' * 80}-1]"),
        pool.new_name("test_a_node"),
        pool.new_name("test_a_node"),
    ]
    assert names[1:] == ["t2-a-node", "t3-a-node"]
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name) for name in names)


def test_a_pool_that_nobody_used_has_nothing_to_end() -> None:
    pool = ClusterPool(Path("/nowhere"), lambda _: None)
    assert pool.shared(0) == []
    pool.end()
    assert pool.running == ()
