"""The runbooks of the coordinator, their commands as typed, on three real replicas.

Rules: `coordinator#restore`, `coordinator#relearn`, `coordinator#disaster-cases`, `coordinator#restored-term`,
`coordinator#relearn-ownership`, `coordinator#quorum-lost`, `coordinator#old-snapshot-restored`, `packaging#pages-run`.
"""

from pathlib import Path

import pytest

from tests.integration.coordinator.harness import Running, running
from tests.integration.runbooks.blocks import Page

pytestmark = pytest.mark.integration


def type_in(page: Page, title: str, here: Running, directory: Path) -> str:
    """Run one block of a page unchanged."""
    variables = {
        "COORDINATOR": here.addresses,
        "EXPORTS": directory / "exports",
        **{f"DATA_{member.ordinal}": member.data_dir for member in here.cluster.members},
    }
    return page.type_in(title, directory, variables)


def stop(here: Running, *ordinals: int) -> None:
    here.wait(here.cluster.kill(*ordinals))


def start(here: Running) -> None:
    here.cluster.start_all()
    here.wait(here.cluster.formed())


def domains(here: Running) -> set[str]:
    rows = here.ctl("domains", "list", "-o", "json").json["assignments"]
    return {row["topology_value"] for row in rows}


def cluster_id(here: Running) -> str:
    return str(here.ctl("status", "-o", "json").json["cluster_id"])


@pytest.mark.rule(
    "coordinator#restore",
    "coordinator#restored-term",
    "coordinator#relearn-ownership",
    "coordinator#disaster-cases",
    "coordinator#old-snapshot-restored",
    "packaging#runbooks",
)
def test_every_row_of_the_runbook_works_as_typed(tmp_path: Path) -> None:
    page = Page("restore")
    flags = ["--snapshot-export-dir", str(tmp_path / "exports"), "--snapshot-export-interval", "500ms"]
    with running(tmp_path, flags=flags) as here:
        first_id = cluster_id(here)
        here.report("s-1")
        here.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1")

        stop(here, 0)
        type_in(page, "one disk", here, tmp_path)
        start(here)
        assert (domains(here), cluster_id(here)) == ({"r1"}, first_id)

        here.ctl("assign-domain", "--key", "rack", "--value", "r2", "--shard", "s-1")
        seen_term = here.report("s-1", 2).coordinator_term
        stop(here, 0, 1, 2)
        assert "unreachable" in type_in(page, "look", here, tmp_path)
        said = type_in(page, "two disks", here, tmp_path)
        assert "extracted snapshot index=" in said
        assert "as single-voter coordinator-2" in said
        start(here)
        assert (domains(here), cluster_id(here)) == ({"r1", "r2"}, first_id)
        # A shard refuses terms below its mark: the restored coordinator is far above, whatever elections were held.
        restored_term = here.report("s-1", 3).coordinator_term
        assert restored_term > seen_term + 1_000_000

        wanted = here.ctl("status", "-o", "json").json["last_export_unix_ns"]
        here.ctl("assign-domain", "--key", "rack", "--value", "r3", "--shard", "s-1")
        _await_export(here, wanted)
        stop(here, 0, 1, 2)
        said = type_in(page, "all disks", here, tmp_path)
        assert "checksum:     good" in said
        start(here)
        assert (domains(here), cluster_id(here)) == ({"r1", "r2", "r3"}, first_id)
        assert here.report("s-1", 4).coordinator_term > restored_term + 1_000_000
        said = type_in(page, "check", here, tmp_path)
        assert "relearn" in said
        assert all(value in said for value in ("r1", "r2", "r3"))

        stop(here, 0, 1, 2)
        type_in(page, "nothing left", here, tmp_path)
        start(here)
        assert (domains(here), cluster_id(here) != first_id) == (set(), True)
        assert here.ctl("list-shards", "-o", "json").json == {"shards": []}
        here.report("s-1", 5)
        assert here.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1").code == 0
    assert page.left_out == set()


def _await_export(here: Running, before_ns: int) -> None:
    """Wait until two exports were made after now: the second one began after our last write."""
    for _ in range(2):
        while True:
            now_ns = here.ctl("status", "-o", "json").json["last_export_unix_ns"]
            if now_ns > before_ns:
                before_ns = now_ns
                break


@pytest.mark.rule("packaging#runbooks")
def test_a_lost_quorum_comes_back_by_itself_once_two_replicas_do(tmp_path: Path) -> None:
    page = Page("lost-quorum")
    with running(tmp_path) as here:
        here.report("s-1")
        here.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1")
        stop(here, 1, 2)
        said = type_in(page, "look", here, tmp_path)
        assert said.count("unreachable") == 2
        assert "leader:" in said
        start(here)
        said = type_in(page, "check", here, tmp_path)
        assert "serving" in said
        assert "r1" in said
    assert page.left_out == set()
