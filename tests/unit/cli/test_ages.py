"""Ages on the command line are those that the peer measured; its clock may differ from this host's."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bigfleet.cli.bigfleetctl.output import age
from bigfleet.cli.framework.console import Console
from bigfleet.cli.verbs.live_shard import cycle_line
from bigfleet.insight.v1 import insight_pb2 as pb

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def nanos(ago: timedelta) -> int:
    return round((NOW - ago).timestamp() * 1e9)


@pytest.mark.rule("shard#ages")
@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(), timedelta(hours=-1)])
def test_a_cycle_is_as_old_as_its_shard_says(ahead: timedelta) -> None:
    console = cast("Console", SimpleNamespace(now=lambda: NOW))
    cycle = pb.Cycle(number=7, shard_id="s", computed_at_unix_nanos=nanos(-ahead), age_seconds=12.2)
    assert cycle_line(console, cycle).endswith("(12 s ago)")


@pytest.mark.rule("shard#ages")
@pytest.mark.parametrize(
    ("measured", "shown"), [({"age_ns": 12 * 10**9}, "12s"), ({}, "30s")], ids=["measured", "older release"]
)
def test_a_report_is_as_old_as_its_leader_says(measured: Any, shown: str) -> None:
    assert age(nanos(timedelta(seconds=30)), NOW, **measured) == shown
