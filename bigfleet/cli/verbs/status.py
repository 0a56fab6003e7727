"""`bigfleet status` and `bigfleet watch`: the status of a running shard, once or after every cycle.

Must never: call the shard more often than it completes cycles.
Rules: `dashboard#first-screen`, `dashboard#insight-service`, `packaging#other-commands`.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import SHARD, Dial
from bigfleet.cli.framework.output import ALERT, Column, Listing, OutputRecord, table_text, write, yaml_text
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.cli.verbs.live_shard import ShardFlags, ask, cycle_line, message_document

if TYPE_CHECKING:
    from bigfleet.aio.net import Channel
    from bigfleet.insight.v1 import insight_pb2

_MACHINES: Final = (
    Column("STATE", "state"),
    Column("CAPACITY", "capacity_type"),
    Column("MACHINES", "count"),
    Column("$/H", "price"),
)
_CLUSTERS: Final = (
    Column("CLUSTER", "cluster"),
    Column("SESSION", "session"),
    Column("RUNNING", "running"),
    Column("JOINING", "joining"),
    Column("ON ORDER", "on_order"),
    Column("WANTED", "wanted"),
    Column("MISSING", "missing"),
    Column("ROWS", "rows", wide=True),
    Column("MACHINES", "machines", wide=True),
    Column("HELD ROLL-UPS", "held", wide=True),
)
_SHORTFALLS: Final = (
    Column("SHORT", "deficit"),
    Column("CLUSTERS", "clusters"),
    Column("PRIORITY", "priority"),
    Column("WHY", "reason"),
    Column("CYCLES", "age"),
)
_CLEAR: Final = "\x1b[H\x1b[2J"
_SHOWN: Final = 10


class StatusSettings(ShardFlags, OutputFlags, env_prefix="BIGFLEET_STATUS_"):
    """Flags of `bigfleet status`."""

    shard: Annotated[Dial, SHARD] = Field(description="gRPC address of a running shard, host:port")


class WatchSettings(ShardFlags, OutputFlags, env_prefix="BIGFLEET_WATCH_"):
    """Flags of `bigfleet watch`."""

    shard: Annotated[Dial, SHARD] = Field(description="gRPC address of a running shard, host:port")
    cycles: int = Field(default=0, ge=0, description="end after this many cycles; 0 continues until Ctrl-C")


def _status(settings: StatusSettings, console: Console) -> int:
    status, shortfalls = ask(
        settings, settings.shard, console, lambda channel: _look(channel, settings.timeout)
    )
    if settings.output in ("json", "yaml"):
        write(console, settings, OutputRecord(_document(status, shortfalls)))
    else:
        console.stdout.write(_text(settings, console, status, shortfalls))
    return ExitCode.FAILURE if _is_wrong(status) else ExitCode.DONE


def _is_wrong(status: "insight_pb2.GetStatusResponse") -> bool:
    """Whether anything is wrong; an older shard reports no problems, so its shortfalls count."""
    return (
        bool(status.problems)
        or not status.ready
        or (not status.HasField("provider") and status.shortfalls > 0)
    )


def _watch(settings: WatchSettings, console: Console) -> int:
    with suppress(KeyboardInterrupt):  # Ctrl-C ends it
        ask(settings, settings.shard, console, lambda channel: _follow(channel, settings, console))
    return ExitCode.DONE


async def _look(
    channel: "Channel", timeout_s: float
) -> "tuple[insight_pb2.GetStatusResponse, insight_pb2.ListShortfallsResponse]":
    from bigfleet.insight.v1 import insight_pb2 as pb
    from bigfleet.transport.shard_reading import GET_STATUS, LIST_SHORTFALLS

    status = (await channel.unary(GET_STATUS, pb.GetStatusRequest(), timeout_s=timeout_s)).message
    shortfalls = (
        await channel.unary(LIST_SHORTFALLS, pb.ListShortfallsRequest(), timeout_s=timeout_s)
    ).message
    return status, shortfalls


async def _follow(channel: "Channel", settings: WatchSettings, console: Console) -> None:
    seen = shown = 0
    async for number in _cycles(channel):
        if number <= shown:
            continue  # the last answer already included this cycle
        status, shortfalls = await _look(channel, settings.timeout)
        shown = status.cycle.number
        if settings.output == "json":
            from json import dumps

            console.print_now(dumps(_document(status, shortfalls), ensure_ascii=False))
        elif settings.output == "yaml":
            console.print_now(f"---\n{yaml_text(_document(status, shortfalls))}".rstrip("\n"))
        else:
            clear = _CLEAR if console.stdout.isatty() else ""
            console.print_now(f"{clear}{_text(settings, console, status, shortfalls)}")
        seen += 1
        if seen == settings.cycles:
            return


async def _cycles(channel: "Channel") -> AsyncIterator[int]:
    from bigfleet.insight.v1 import insight_pb2 as pb
    from bigfleet.transport.shard_reading import WATCH_CYCLES

    async with channel.server_stream(WATCH_CYCLES, pb.WatchCyclesRequest(), timeout_s=None) as notices:
        async for notice in notices:
            yield notice.cycle.number


def _text(
    settings: OutputFlags,
    console: Console,
    status: "insight_pb2.GetStatusResponse",
    shortfalls: "insight_pb2.ListShortfallsResponse",
) -> str:
    parts = [_state(status), f"{status.queue_depth} actions waiting, {status.in_flight} running"]
    if status.HasField("provider") and status.provider.last_listing_age_seconds >= 0:
        parts.append(f"provider listed {round(status.provider.last_listing_age_seconds)} s ago")
    problems = [problem.text for problem in status.problems]
    lines = [
        *_first_lines(status),
        cycle_line(console, status.cycle, *parts),
        *(f"note: {note}" for note in status.notes if note not in problems),
    ]
    listings = (listing for listing in _listings(status, shortfalls) if listing.rows)
    tables = (table_text(console, settings, listing) for listing in listings)
    return "\n".join(["\n".join(lines) + "\n", *tables])


def _first_lines(status: "insight_pb2.GetStatusResponse") -> list[str]:
    """The verdict, once there is a cycle, and every problem."""
    from bigfleet.explain.verdict_line import ProblemLine, status_lines, verdict_line

    problems = [ProblemLine(item.kind, item.text, item.for_seconds) for item in status.problems]
    covered = status.needs_covered if status.HasField("coverage") else status.needs - status.needs_short
    verdict = ""
    if status.cycle.number:
        verdict = verdict_line(
            needs=status.needs, covered=covered, short=status.needs_short, problems=problems
        )
    return status_lines(verdict, problems)


def _state(status: "insight_pb2.GetStatusResponse") -> str:
    if status.self_paused:
        return "fenced, has stopped itself"
    if status.actuation_paused:
        return "paused"
    if status.dry_run:
        return "dry run"
    return "ready" if status.ready else "not ready"


def _listings(
    status: "insight_pb2.GetStatusResponse", shortfalls: "insight_pb2.ListShortfallsResponse"
) -> Iterator[Listing]:
    machines = [
        {
            "state": row.state,
            "capacity_type": row.capacity_type,
            "count": row.count,
            "price": f"{row.price_per_hour:.2f}",
        }
        for row in status.machines
    ]
    yield Listing("machines", _MACHINES, machines)
    clusters = [
        {
            "cluster": row.cluster,
            "session": "connected" if row.connected else "none",
            **_split(row),
            "rows": row.rows,
            "machines": row.machines,
            "held": row.held_rollups,
        }
        for row in status.clusters
    ]
    yield Listing("clusters", _CLUSTERS, clusters)
    yield Listing("shortfalls", _SHORTFALLS, [_shortfall(row) for row in shortfalls.shortfalls[:_SHOWN]])


def _split(row: "insight_pb2.ClusterStatus") -> dict[str, object]:
    """How far the machines of a cluster are; an older shard does not say so."""
    from bigfleet.explain.amounts import readable

    if not row.HasField("coverage"):
        return {}
    part = row.coverage
    missing = readable(dict(sorted(part.missing.resources.items()))) or None
    return {
        "running": part.running,
        "joining": part.joining,
        "on_order": part.on_order,
        "wanted": part.wanted,
        "missing": missing,
        ALERT: missing is not None,
    }


def _shortfall(row: "insight_pb2.ShortfallRow") -> dict[str, object]:
    from bigfleet.explain.amounts import readable

    return {
        "deficit": readable(dict(sorted(row.deficit.items()))),
        "clusters": list(row.clusters),
        "priority": row.priority,
        "reason": row.reason.lower().replace("_", " "),
        "age": row.age_cycles,
    }


def _document(
    status: "insight_pb2.GetStatusResponse", shortfalls: "insight_pb2.ListShortfallsResponse"
) -> dict[str, Any]:  # Any: JSON
    rows = message_document(shortfalls)["shortfalls"]
    return {**message_document(status), "shortfall_rows": rows}


STATUS = CliCommand(
    StatusSettings,
    _status,
    """Show the status of a running shard: first whether all needs are covered and what is wrong, then machines by state with
    their price, clusters with their sessions and how far their machines are, and needs that cannot be served. Ends with exit
    code 1 when anything is wrong: a problem is listed, or the shard is not ready.""",
    ("bigfleet status --shard 127.0.0.1:7780", "bigfleet status --shard 127.0.0.1:7780 -o json"),
)
WATCH = CliCommand(
    WatchSettings,
    _watch,
    """Show the status of a running shard after each of its cycles, until Ctrl-C. With -o json one line per cycle, with
    -o yaml one document.""",
    ("bigfleet watch --shard 127.0.0.1:7780", "bigfleet watch --shard 127.0.0.1:7780 --cycles 1 -o json"),
)
