"""What the original's dashboard reads of our processes: four calls and the metrics.

One `bigfleet all-in-one` is asked, as a real coordinator and a real shard, by a client that knows the protocol files
without our additions.
Rules: `dashboard#original-calls`, `dashboard#metrics-contract`.
"""

import http.client
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.messages import old_peer_classes
from tests.support.ports import free_ports
from tests.support.program import RunningProgram

pytestmark = pytest.mark.integration
OLD = old_peer_classes()
PACKAGE = "bigfleet.v1alpha1"
LABELS = {
    "bigfleet_shard_cycle_duration_seconds_bucket": {"le"},
    "bigfleet_shard_cycle_phase_duration_seconds_bucket": {"le", "phase"},
    "bigfleet_shard_inventory_machines": {"state", "capacity_type", "interruption_penalty_bucket"},
    "bigfleet_shard_shortfalls": set[str](),
    "bigfleet_shard_active_sessions": set[str](),
    "bigfleet_shard_actions_total": {"kind"},
    "bigfleet_shard_phase1_occ_proposals_total": {"outcome"},
    "bigfleet_shard_demand_machines": {"interruption_penalty_bucket"},
    "bigfleet_coordinator_raft_term": set[str](),
    "bigfleet_coordinator_apply_total": {"outcome"},
    "bigfleet_coordinator_pending_instructions": {"shard"},
}
"""Every metric of `dashboard#metrics-contract`, as a scrape spells it, and its labels; the scraper adds `pod`."""


class FleetSources:
    """The program, and ways to ask it as the original's dashboard does."""

    def __init__(self, program: RunningProgram, ports: list[int]) -> None:
        self._program = program
        self._shard, self._coordinator, self.shard_metrics, self.coordinator_metrics = ports

    def wait(self, what: str, holds: Callable[[], Any]) -> Any:
        return self._program.wait(what, holds)

    def call(self, service: str, method: str, request: str, response: str) -> list[Any]:
        """All answers to an empty request, over a connection of its own."""
        port = self._shard if service == "ShardRead" else self._coordinator
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            path = f"/{PACKAGE}.{service}/{method}"
            how: dict[str, Any] = {
                "request_serializer": lambda message: message.SerializeToString(),
                "response_deserializer": OLD[f"{PACKAGE}.{response}"].FromString,
            }
            asked = OLD[f"{PACKAGE}.{request}"]()
            if service == "ShardRead":
                return list(channel.unary_stream(path, **how)(asked, timeout=20))
            return [channel.unary_unary(path, **how)(asked, timeout=20)]

    def metrics(self, port: int) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetSources]:
    directory: Path = tmp_path_factory.mktemp("fleet")
    shard, coordinator, shard_metrics, coordinator_metrics, raft = free_ports(5)
    with RunningProgram(
        "bigfleet",
        "all-in-one",
        f"--shard-listen=127.0.0.1:{shard}",
        f"--coordinator-listen=127.0.0.1:{coordinator}",
        f"--raft-bind=127.0.0.1:{raft}",
        f"--shard-metrics-addr=127.0.0.1:{shard_metrics}",
        f"--coordinator-metrics-addr=127.0.0.1:{coordinator_metrics}",
        "--dashboard-addr=0",
        "--cycle-interval=1s",
        f"--data-dir={directory / 'data'}",
        log=directory / "log",
        environ={},
    ) as program:
        fleet = FleetSources(program, [shard, coordinator, shard_metrics, coordinator_metrics])
        program.wait("it serves", lambda: "is connected" in program.text())
        serving = "\nbigfleet_coordinator_serving 1"
        program.wait("its coordinator leads", lambda: serving in fleet.metrics(coordinator_metrics))
        yield fleet


@pytest.mark.rule("dashboard#original-calls")
def test_the_four_calls_answer_a_client_that_knows_the_original_alone(fleet: FleetSources) -> None:
    def reports() -> list[Any]:
        return list(
            fleet.call(
                "Coordinator", "ListShardReports", "ListShardReportsRequest", "ListShardReportsResponse"
            )[0].reports
        )

    (report,) = fleet.wait("the shard has reported a cycle", lambda: [r for r in reports() if r.cycle])
    assert (report.shard_id, report.summary.total_machines) == ("shard-0", 96)
    assert report.received_at_unix_ns > 1_600_000_000 * 10**9
    assert sum(report.summary.per_instance_type_counts.values()) == 96
    assert sum(report.summary.per_zone_counts.values()) == 96
    (shards,) = fleet.call("Coordinator", "ListShards", "ListShardsRequest", "ListShardsResponse")
    (row,) = shards.shards
    assert (row.shard_id, bool(row.address)) == ("shard-0", True)
    assert 0 < row.registered_at_unix_ns <= row.last_heartbeat_unix_ns
    (domains,) = fleet.call(
        "Coordinator",
        "ListDomainAssignments",
        "ListDomainAssignmentsRequest",
        "ListDomainAssignmentsResponse",
    )
    assert list(domains.assignments) == []
    header, *rows = fleet.call("ShardRead", "InspectNeeds", "InspectNeedsRequest", "InspectNeedsResponse")
    assert header.header.cycle > 0
    assert len(rows) == header.header.total_needs > 0
    priorities = [frame.need.need.priority for frame in rows]
    assert priorities == sorted(priorities, reverse=True)
    assert {frame.need.cluster_id for frame in rows} <= {"web", "train", "batch"}


@pytest.mark.rule("dashboard#original-calls")
def test_the_address_of_the_provider_is_field_7() -> None:
    fields = OLD[f"{PACKAGE}.ShardSummary"].DESCRIPTOR.fields_by_name
    assert fields["provider_address"].number == 7


def series_of(text: str) -> dict[str, set[str]]:
    """Names of series and the labels that any of them has."""
    found = dict[str, set[str]]()
    for line in text.splitlines():
        named = re.match(r"(bigfleet_\w+)(?:\{(.*)\})? \S+$", line)
        if named:
            labels = re.findall(r'(\w+)="', named[2] or "")
            found.setdefault(named[1], set()).update(labels)
    return found


@pytest.mark.rule("dashboard#metrics-contract")
def test_a_real_process_exports_every_metric_with_its_labels_and_only_a_shard_the_inventory(
    fleet: FleetSources,
) -> None:
    def missing() -> dict[str, set[str]]:
        reply = series_of(fleet.metrics(fleet.shard_metrics)) | series_of(
            fleet.metrics(fleet.coordinator_metrics)
        )
        return {name: labels for name, labels in LABELS.items() if reply.get(name) != labels}

    fleet.wait("every metric is there", lambda: not missing())
    coordinator = series_of(fleet.metrics(fleet.coordinator_metrics))
    assert not [name for name in coordinator if name.startswith("bigfleet_shard_")]
    shard = fleet.metrics(fleet.shard_metrics)
    assert 'outcome="committed"' in shard
    assert 'outcome="conflict"' in shard
