"""The detail of a shard's `/readyz`."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bigfleet.app.shard.build import RunningShard
from bigfleet.app.shard.serve import _remarks


def running(problems: tuple[str, ...], remarks: tuple[str, ...], not_ready: tuple[str, ...]) -> RunningShard:
    shard = SimpleNamespace(remarks=lambda: remarks, not_ready=lambda: not_ready)
    readers = SimpleNamespace(problems=SimpleNamespace(lines=lambda: problems))
    made: Any = SimpleNamespace(shard=shard, readers=readers)  # Any: only what the detail reads
    return cast("RunningShard", made)


@pytest.mark.rule("shard#readiness", "shard#problems-in-one-look")
def test_problems_come_first_and_each_line_once() -> None:
    audit = "the audit log cannot be written; 3 records were lost"
    found = _remarks(running(("fenced", "provider away", audit), (audit, "dry run"), ("fenced",)))
    assert found == ("provider away", audit, "dry run")
