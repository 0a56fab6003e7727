"""`bigfleetctl` against three real coordinators.

Rules: `coordinator#bigfleetctl`, `packaging#bigfleetctl`, `coordinator#archive`, `coordinator#status-verb`.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.coordinator.harness import Running, bigfleetctl, running

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three replicas with shards s-1 and s-2, which have reported."""
    with running(tmp_path_factory.mktemp("three")) as here:
        shortfall = pb.Shortfall(priority=7, age_cycles=9)
        shortfall.deficit.resources["gpu"] = "8"
        summary = pb.ShardSummary(total_machines=40, free_machines=4, provider_address="p:9000")
        here.report("s-1", 3, summary=summary, shortfalls=[shortfall])
        here.report("s-2", 1)
        yield here


@pytest.mark.rule("coordinator#bigfleetctl", "packaging#bigfleetctl", "packaging#output")
def test_every_verb_prints_its_line_or_columns_and_takes_global_flags_anywhere(three: Running) -> None:
    assigned = three.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1")
    assert (assigned.code, assigned.out) == (0, "assigned rack=r1 → s-1\n")
    assert three.ctl("domains", "assign", "--key", "rack", "--value", "r2", "--shard", "s-2").code == 0

    shards = three.ctl("list-shards")
    assert shards.out.splitlines()[0].split() == ["SHARD", "ADDRESS", "REGISTERED", "LAST_HEARTBEAT"]
    first = shards.out.splitlines()[1].split()
    assert first[:2] == ["s-1", "s-1:7780"]
    assert first[2].endswith("Z")
    assert first[2][10] == "T"
    assert three.ctl("shards", "list", "-o", "json").out == three.ctl("list-shards", "-o", "json").out
    assert three.ctl("shards", "list").out == three.ctl("list-shards").out
    assert three.ctl("shards", "list", "-o", "wide").out.splitlines()[0].split()[-1] == "AGE"
    as_json = bigfleetctl("list-shards", "--coordinator", three.addresses, "--timeout=20s", "-o", "json").json
    assert [set(row) for row in as_json["shards"]] == [
        {"shard_id", "address", "registered_at_unix_ns", "last_heartbeat_unix_ns"}
    ] * 2
    assert bigfleetctl("-o", "json", "--coordinator", three.addresses, "list-shards").json.keys() == {
        "shards"
    }

    domains = three.ctl("list-domain-assignments")
    assert domains.out.splitlines() == [
        "TOPOLOGY_KEY  TOPOLOGY_VALUE  SHARD",
        "rack          r1              s-1",
        "rack          r2              s-2",
    ]
    assert three.ctl("domains", "list").out == domains.out
    assert three.ctl("domains", "list", "--shard", "s-2", "-o", "json").json == {
        "assignments": [{"topology_key": "rack", "topology_value": "r2", "shard_id": "s-2"}]
    }
    assert three.ctl("list-domain-assignments", "--shard", "nobody").out.splitlines() == [
        "TOPOLOGY_KEY  TOPOLOGY_VALUE  SHARD"
    ]
    taken = three.ctl("unassign-domain", "--key", "rack", "--value", "r2")
    assert (taken.code, taken.out) == (0, "unassigned rack=r2\n")
    again = three.ctl("domains", "unassign", "--key", "rack", "--value", "r2", "-o", "json")
    assert again.json == {"topology_key": "rack", "topology_value": "r2"}

    reports = three.ctl("reports").out.splitlines()
    assert reports[0].split() == [
        "SHARD",
        "CYCLE",
        "AGE",
        "TOTAL",
        "FREE",
        "PROVIDER",
        "SHORTFALLS",
        "OLDEST",
    ]
    assert [reports[1].split()[n] for n in (0, 1, 3, 4, 5, 6, 7)] == [
        "s-1",
        "3",
        "40",
        "4",
        "p:9000",
        "1",
        "9",
    ]
    only = three.ctl("reports", "--shard", "s-1", "-o", "json").json["reports"]
    assert (only[0]["shard_id"], only[0]["cycle"], only[0]["summary"]["provider_address"]) == (
        "s-1",
        3,
        "p:9000",
    )
    assert three.ctl("reports", "--shard", "nobody").out == "no reports yet; the leader may be rebuilding\n"


@pytest.mark.rule("coordinator#status-verb")
def test_status_names_leader_term_replicas_lag_and_shards_on_one_screen(three: Running) -> None:
    shown = three.ctl("status")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert len(lines) < 24
    leader = three.wait(three.cluster.leader())
    assert any(line.startswith("leader:") and f"coordinator-{leader} at " in line for line in lines)
    at = next(n for n, line in enumerate(lines) if line.startswith("REPLICA"))
    assert lines[at].split() == ["REPLICA", "ADDRESS", "STATE", "MEMBERSHIP", "TERM", "INDEX", "LAG"]
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == [f"coordinator-{n}" for n in range(3)]
    # One address is enough: the replicas name each other.
    one = bigfleetctl("status", "--coordinator", three.cluster.members[0].grpc_address, "-o", "json").json
    assert sorted(replica["state"] for replica in one["replicas"]) == ["follower", "follower", "serving"]
    # Asking is an entry of its own; who is level must not seem to lag behind it. The third may be a moment late.
    assert sorted(replica["lag"] for replica in one["replicas"])[:2] == [0, 0]
    assert {shard["shard_id"] for shard in one["shards"]} == {"s-1", "s-2"}
    assert one["epoch"] == one["term"] > 0


@pytest.mark.rule("coordinator#bigfleetctl", "packaging#exit-codes")
def test_a_live_shard_is_removed_only_when_told_twice(three: Running) -> None:
    three.report("doomed")
    three.ctl("assign-domain", "--key", "rack", "--value", "r9", "--shard", "doomed")
    refused = three.ctl("remove-shard", "--shard", "doomed")
    assert refused.code == 3
    assert " s ago and would register again" in refused.err
    assert "--destroyed" in refused.err
    removed = three.ctl("shards", "remove", "--shard", "doomed", "--yes")
    assert (removed.code, removed.out) == (0, "removed shard doomed\n")
    assert removed.err == "warning: 1 domain rows of shard doomed are removed with it\n"
    three.report("doomed", 2)
    assert three.ctl("remove-shard", "--shard", "doomed", "--destroyed", "-o", "json").json == {
        "shard_id": "doomed",
        "destroyed": True,
    }


@pytest.mark.rule("coordinator#archive", "coordinator#bigfleetctl", "packaging#exit-codes")
def test_exit_codes_tell_what_happened_and_errors_are_one_line(three: Running, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    saved = three.ctl("snapshot", "save", archive)
    assert saved.code == 0
    assert saved.out.startswith("saved snapshot index=")
    assert f" to {archive}\nbytes={archive.stat().st_size} sha256=" in saved.out
    damaged = tmp_path / "damaged.tar"
    content = bytearray(archive.read_bytes())
    content[content.index(b'"shards"') + 2] ^= 1
    damaged.write_bytes(content)
    follower = (three.wait(three.cluster.leader()) + 1) % 3
    lone = three.cluster.members[follower].grpc_address
    runs = {
        1: three.ctl("snapshot", "save", archive / "b.tar"),  # there is a file where its directory would be
        2: three.ctl("assign-domain", "--key", "rack"),
        4: three.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "nobody"),
        7: bigfleetctl("list-shards", "--coordinator", "127.0.0.1:1", "--timeout", "500ms"),
        8: bigfleetctl("snapshot", "inspect", damaged),
    }
    assert three.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1").code == 0
    runs[5] = three.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-2")
    assert "unassign-domain takes it from its shard" in runs[5].err
    assert "bigfleetctl list-shards lists the registered ones" in runs[4].err
    assert "is --coordinator right?" in runs[7].err
    group = three.ctl("domains")
    assert (group.code, "a command is missing, allowed is one of" in group.err) == (2, True)
    for code, said in runs.items():
        assert said.code == code, said
        assert said.out == ""
        assert said.err.startswith("bigfleetctl: ")
        assert said.err.count("\n") == 1
    # A follower alone is followed to the leader by its hint.
    assert bigfleetctl("list-shards", "--coordinator", lone).code == 0


@pytest.mark.rule("coordinator#archive", "coordinator#restore", "packaging#bigfleetctl")
def test_inspect_and_restore_bring_back_every_row(three: Running, tmp_path: Path) -> None:
    archive = tmp_path / "b.tar"
    assert three.ctl("snapshot", "save", archive).code == 0
    seen = bigfleetctl("snapshot", "inspect", archive, "-o", "json").json
    assert seen["checksum"] == "good"
    assert seen["rows"]["shards"] >= 2
    assert seen["meta"]["bigfleet"]["voters"] == ["coordinator-0", "coordinator-1", "coordinator-2"]
    target = tmp_path / "data"
    restored = bigfleetctl(
        "snapshot", "restore", "--data-dir", target, "--id", "n-0", "--raft-advertise", "n-0.c:7791", archive
    )
    assert restored.code == 0, restored
    first, *steps = restored.out.splitlines()
    index, term = seen["meta"]["Index"], seen["meta"]["Term"]
    assert first == f"restored snapshot index={index} term={term} into {target} as single-voter n-0"
    assert steps[0] == "next:"
    extracted = tmp_path / "c.tar"
    assert bigfleetctl("snapshot", "extract", "--data-dir", target, extracted).code == 0
    again = bigfleetctl("snapshot", "inspect", extracted, "-o", "json").json
    assert again["rows"] == seen["rows"]
    # A directory in use, or with something in it, is left alone.
    refused = bigfleetctl("snapshot", "restore", "--data-dir", target, "--node-id", "n-0", archive)
    assert (refused.code, "--force" in refused.err) == (3, True)
    member = three.cluster.members[0]
    held = bigfleetctl(
        "snapshot", "restore", "--data-dir", member.data_dir, "--node-id", member.node_id, "--force", archive
    )
    assert (held.code, "stop the replica first" in held.err) == (3, True)
    wrong = bigfleetctl(
        "snapshot",
        "restore",
        "--data-dir",
        target,
        "--node-id",
        "n-0",
        "--raft-advertise",
        "x-1.c:1",
        archive,
    )
    assert (wrong.code, "begins with n-0." in wrong.err) == (2, True)


def test_a_context_names_address_and_files_and_flags_win_over_it(three: Running, tmp_path: Path) -> None:
    file = tmp_path / "bigfleet" / "contexts.yaml"
    file.parent.mkdir()
    file.write_text(f"contexts:\n  here:\n    coordinator: {three.addresses}\n  half: {{tls-cert: a}}\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert bigfleetctl("--context", "here", "list-shards", environ=environ).code == 0
    elsewhere = ("--coordinator", "127.0.0.1:1", "--timeout", "500ms")
    assert bigfleetctl("--context", "here", *elsewhere, "list-shards", environ=environ).code == 7
    for name, said in (("her", "did you mean here?"), ("half", "all three TLS files or none")):
        refused = bigfleetctl("--context", name, "list-shards", environ=environ)
        assert (refused.code, said in refused.err) == (2, True), refused
    missing = bigfleetctl("--context", "here", "list-shards", environ={"HOME": str(tmp_path / "nowhere")})
    assert missing.code == 2


@pytest.mark.rule("coordinator#status-verb", "coordinator#probes", "packaging#exit-codes")
def test_without_a_majority_status_says_what_it_found_and_ends_with_3(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        leader = here.wait(here.cluster.leader())
        left = (leader + 1) % 3
        here.wait(here.cluster.kill(*(n for n in range(3) if n != left)))

        async def settled() -> None:
            while True:
                facts = await here.cluster.facts(left)
                if facts is not None and facts.raft_state in ("follower", "candidate"):
                    return
                await asyncio.sleep(0.1)

        here.wait(settled())
        shown = here.ctl("status", "--timeout", "2s")
        assert shown.code == 3
        assert "leader:       none" in shown.out
        assert shown.out.count("unreachable") == 2
        assert shown.err == ""
        document = json.loads(here.ctl("status", "--timeout", "2s", "-o", "json").out)
        assert document["leader"] is None
        assert sorted(replica["state"] == "unreachable" for replica in document["replicas"]) == [
            False,
            True,
            True,
        ]
        refused = here.ctl("list-shards", "--timeout", "2s")
        assert (refused.code, refused.err.count("\n")) == (3, 1)
        assert here.http(left, "/healthz") == (200, "ok\n")
        assert here.http(left, "/readyz") == (503, "no leader is known\n")
