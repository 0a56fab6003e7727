"""The runbook of lost disks, its commands as typed, on three real replicas (coordinator 10.4, 10.5; acceptance 40, 41, 42; failure row 25)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.coordinator.harness import Running, running

pytestmark = pytest.mark.integration

PAGE = Path(__file__).resolve().parents[3] / "docs" / "coordinator.md"
BLOCKS = dict(re.findall(r"```bash\n# ([a-z ]+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))


def type_in(title: str, here: Running, directory: Path) -> str:
    """Run one block of the page as it stands there."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "EXPORTS": str(directory / "exports"),
        **{f"DATA_{member.ordinal}": str(member.data_dir) for member in here.cluster.members},
    }
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", BLOCKS[title]],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


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


def test_every_row_of_the_runbook_works_as_typed(tmp_path: Path) -> None:
    flags = ["--snapshot-export-dir", str(tmp_path / "exports"), "--snapshot-export-interval", "500ms"]
    with running(tmp_path, flags=flags) as here:
        first_id = cluster_id(here)
        here.report("s-1")
        here.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1")

        stop(here, 0)
        type_in("one disk", here, tmp_path)
        start(here)
        assert (domains(here), cluster_id(here)) == ({"r1"}, first_id)

        here.ctl("assign-domain", "--key", "rack", "--value", "r2", "--shard", "s-1")
        seen_term = here.report("s-1", 2).coordinator_term
        stop(here, 0, 1, 2)
        said = type_in("two disks", here, tmp_path)
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
        said = type_in("all disks", here, tmp_path)
        assert "checksum:     good" in said
        start(here)
        assert (domains(here), cluster_id(here)) == ({"r1", "r2", "r3"}, first_id)
        assert here.report("s-1", 4).coordinator_term > restored_term + 1_000_000
        assert here.ctl("status", "-o", "json").json["blocked_by"] == ["relearn"]

        stop(here, 0, 1, 2)
        type_in("nothing left", here, tmp_path)
        start(here)
        assert (domains(here), cluster_id(here) != first_id) == (set(), True)
        assert here.ctl("list-shards", "-o", "json").json == {"shards": []}
        here.report("s-1", 5)
        assert here.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1").code == 0


def _await_export(here: Running, before_ns: int) -> None:
    """Wait until two exports were made after now: the second one began after our last write."""
    for _ in range(2):
        while True:
            now_ns = here.ctl("status", "-o", "json").json["last_export_unix_ns"]
            if now_ns > before_ns:
                before_ns = now_ns
                break


def test_the_page_has_a_block_for_every_row() -> None:
    assert set(BLOCKS) == {"one disk", "two disks", "all disks", "nothing left"}
