"""`bigfleetctl status`: the state of the coordinator on one screen, with or without a leader.

Why: it must work when nothing else does, so it asks every replica about itself, which needs no leader.
Must never: fail because one replica is unreachable, or end with 0 without a leader.
Rules: `coordinator#bigfleetctl`, `packaging#bigfleetctl`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from bigfleet.cli.bigfleetctl.output import age, for_programs
from bigfleet.cli.bigfleetctl.settings import CtlFlags
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import Column, Listing, OutputRecord, table_text, write

if TYPE_CHECKING:  # gRPC takes longer to import than --help may
    from bigfleet.cli.bigfleetctl.client import LeaderConnection
    from bigfleet.transport.coordinator import ReplicaFacts

_REPLICA: Final = tuple(
    Column(title, title.lower())
    for title in ("REPLICA", "ADDRESS", "STATE", "MEMBERSHIP", "TERM", "INDEX", "LAG")
)
_SHARD: Final = (
    Column("SHARD", "shard_id"),
    Column("ADDRESS", "address"),
    Column("AGE", "age"),
    Column("MACHINES", "total_machines"),
    Column("FREE", "free_machines"),
    Column("SHORTFALLS", "shortfalls"),
)
SERVING: Final = "serving"
UNREACHABLE: Final = "unreachable"


class CtlStatusSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl status`."""


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    """The answer of one replica; `problem` is why there was none."""

    target: tuple[str, str]
    facts: "ReplicaFacts"
    shards: Any = None  # the listing of shards, from the leader
    problem: str = ""

    @property
    def address(self) -> str:
        return self.target[0]

    @property
    def state(self) -> str:
        return self.facts.raft_state or UNREACHABLE


def _status(settings: CtlStatusSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with

    async def ask(ctl: "LeaderConnection") -> int:
        asked = await _ask_all(ctl)
        leader = next((one for one in asked if one.state == SERVING and one.shards is not None), None)
        if leader is not None:
            asked = await _ask_followers_again(ctl, asked)
        reports = await _reports(ctl) if leader is not None else {}
        document = _document(asked, leader, reports)
        if for_programs(settings):
            write(console, settings, OutputRecord(document))
        else:
            _print(console, settings, document)
        return ExitCode.DONE if leader is not None else ExitCode.REFUSED

    return run_with(settings, console, ask)


async def _ask_all(ctl: "LeaderConnection") -> list[ReplicaAnswer]:
    """Ask every address of the name, then every known peer that has not answered."""
    found = list(await asyncio.gather(*(_ask(ctl, target) for target in await ctl.leader.targets())))
    heard = {one.facts.node for one in found if one.facts.node}
    peers = dict(pair for one in found for pair in one.facts.peers)
    asked = {one.address for one in found}
    missing = [(node, address) for node, address in sorted(peers.items()) if node not in heard]
    found += await asyncio.gather(
        *(_ask(ctl, (address, ""), node) for node, address in missing if address not in asked)
    )
    unique = {one.facts.node or one.address: one for one in found}
    return sorted(unique.values(), key=lambda one: (one.facts.node or one.address, one.address))


async def _ask_followers_again(
    ctl: "LeaderConnection", asked: Sequence[ReplicaAnswer]
) -> list[ReplicaAnswer]:
    """Ask the followers again: the leader's answer is itself a log entry, behind which they would seem to lag."""
    later = await asyncio.gather(
        *(
            _ask(ctl, one.target, one.facts.node)
            for one in asked
            if one.facts.raft_state and one.shards is None
        )
    )
    newer = {one.target: one for one in later if one.facts.raft_state}
    return [newer.get(one.target, one) for one in asked]


async def _ask(ctl: "LeaderConnection", target: tuple[str, str], node: str = "") -> ReplicaAnswer:
    from bigfleet.aio.net import Code, RpcError
    from bigfleet.transport.coordinator import LIST_SHARDS, facts_of
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    answer = await ctl.leader.ask_one(target, LIST_SHARDS, pb.ListShardsRequest(), timeout_s=ctl.timeout_s)
    facts = facts_of(answer.trailing)
    named = replace(facts, node=facts.node or node)
    if not isinstance(answer, RpcError):
        return ReplicaAnswer(target, named, answer.message)
    if answer.code is Code.PERMISSION_DENIED:
        raise answer
    problem = "" if facts.raft_state else answer.detail or answer.code.name
    return ReplicaAnswer(target, named, problem=problem)


async def _reports(ctl: "LeaderConnection") -> dict[str, Any]:
    from bigfleet.transport.coordinator import LIST_SHARD_REPORTS
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    found = await ctl.call(LIST_SHARD_REPORTS, pb.ListShardReportsRequest())
    return {report.shard_id: report for report in found.reports}


def _document(
    asked: Sequence[ReplicaAnswer], leader: ReplicaAnswer | None, reports: Mapping[str, Any]
) -> dict[str, object]:
    newest = max((one.facts.last_index for one in asked), default=0)
    standard = leader.facts.last_index if leader is not None else newest
    cluster = next((one.facts.cluster_id for one in asked if one.facts.cluster_id), "")
    return {
        "cluster_id": cluster,
        "leader": None if leader is None else leader.facts.node or leader.address,
        "leader_address": None if leader is None else leader.facts.leader or leader.address,
        "membership": None if leader is None else leader.facts.membership,
        "term": max((one.facts.last_term for one in asked), default=0),
        "epoch": max((one.facts.epoch for one in asked), default=0),
        "command_level": 0 if leader is None else leader.facts.raised_level,
        "last_export_unix_ns": 0 if leader is None else leader.facts.last_export_ns,
        "blocked_by": [] if leader is None else list(leader.facts.blocked_by),
        "replicas": [
            {
                "replica": one.facts.node or None,
                "address": one.address,
                "state": one.state,
                "membership": one.facts.membership or None,
                "term": one.facts.last_term if one.facts.raft_state else None,
                "index": one.facts.last_index if one.facts.raft_state else None,
                "lag": max(0, standard - one.facts.last_index) if one.facts.raft_state else None,
                "command_level": one.facts.command_level or None,
                "problem": one.problem or None,
            }
            for one in asked
        ],
        "shards": [] if leader is None else [_shard(row, reports) for row in leader.shards.shards],
    }


def _shard(row: Any, reports: Mapping[str, Any]) -> dict[str, object]:
    report = reports.get(row.shard_id)
    return {
        "shard_id": row.shard_id,
        "address": row.address or None,
        "last_heartbeat_unix_ns": row.last_heartbeat_unix_ns,
        "last_heartbeat_age_ns": row.last_heartbeat_age_nanos,
        "total_machines": None if report is None else report.summary.total_machines,
        "free_machines": None if report is None else report.summary.free_machines,
        "shortfalls": None if report is None else len(report.shortfalls),
    }


def _print(console: Console, settings: CtlStatusSettings, document: Mapping[str, Any]) -> None:
    now = console.now()
    leader = document["leader"]
    head: dict[str, object] = {
        "cluster": document["cluster_id"] or None,
        "leader": f"{leader} at {document['leader_address']}" if leader else "none",
        "membership": document["membership"],
        "term": document["term"],
        "epoch": document["epoch"],
        "commands": levels(document),
        "last export": age(document["last_export_unix_ns"], now),
    }
    if document["blocked_by"]:
        head["blocked by"] = document["blocked_by"]
    write(console, settings, OutputRecord(head))
    console.print("")
    console.stdout.write(table_text(console, settings, Listing("replicas", _REPLICA, document["replicas"])))
    for replica in document["replicas"]:
        if replica["problem"]:
            console.print(f"  {replica['address']}: {replica['problem']}")
    if leader:
        shards = [
            {
                **shard,
                "age": age(shard["last_heartbeat_unix_ns"], now, shard["last_heartbeat_age_ns"]),
            }
            for shard in document["shards"]
        ]
        console.print("")
        console.stdout.write(table_text(console, settings, Listing("shards", _SHARD, shards)))


def levels(document: Mapping[str, Any]) -> str | None:
    """Return the command level in use, and which replicas must be upgraded before it can rise."""
    known = {row["replica"] or row["address"]: row["command_level"] or 0 for row in document["replicas"]}
    highest = max(known.values(), default=0)
    level = document["command_level"]
    if not level:
        return None
    behind = sorted(name for name, knows in known.items() if knows < highest)
    if level >= highest:
        return f"level {level}"
    waits = f", waiting for {', '.join(behind)}" if behind else ""
    return f"level {level}, to be raised to {highest}{waits}"


STATUS = CliCommand(
    CtlStatusSettings,
    _status,
    """Show the status of the coordinator: the leader, the state and lag of each replica, each shard with the time since its
    last report, the time of the last export, and which shard blocks moves of domains of shared providers.

    Works without a leader too, and then ends with 3.""",
    ("bigfleetctl status", "bigfleetctl status --coordinator 10.0.0.1:7790,10.0.0.2:7790 -o json"),
)
