"""`bigfleet needs`: the needs of a running shard, and the status of each.

Why: shows which needs are short, since when, and why, without a dashboard.
Must never: show "no cycle yet" as "no demand".
Rules: `wire#inspection`, `shard#inspection`. Works with shards of the original too: they list all needs, and the filter
is applied here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import SHARD, Dial
from bigfleet.cli.framework.output import ALERT, Column, Listing, table_text, write
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.cli.verbs.live_shard import ShardFlags, ask, cycle_line, message_document

if TYPE_CHECKING:
    from bigfleet.aio.net import Channel
    from bigfleet.insight.v1 import insight_pb2
    from bigfleet.v1alpha1 import capacity_pb2, shardread_pb2


class NeedsSettings(ShardFlags, OutputFlags, env_prefix="BIGFLEET_NEEDS_"):
    """Flags of `bigfleet needs`."""

    shard: Annotated[Dial, SHARD] = Field(description="gRPC address of a running shard, host:port")
    cluster: str = Field(default="", description="only needs of this cluster")
    short: bool = Field(default=False, description="only needs that are short")
    limit: int = Field(default=0, ge=0, description="show at most this many; 0 shows all")


def _needs(settings: NeedsSettings, console: Console) -> int:
    answer = ask(settings, settings.shard, console, lambda channel: _fetch(channel, settings))
    if settings.output in ("json", "yaml"):
        write(console, settings, Listing("needs", (), list(map(message_document, answer.shown))))
        return ExitCode.DONE
    _print_tables(settings, console, answer)
    return ExitCode.DONE


class _Answer(NamedTuple):
    """The answer of a shard."""

    cycle: "insight_pb2.Cycle"
    needs: int
    """Needs of the selected cluster, or of all."""
    short: int
    """How many of them are short; known only with --short."""
    shown: "list[shardread_pb2.NeedView]"


async def _fetch(channel: "Channel", settings: NeedsSettings) -> _Answer:
    from bigfleet.aio.net import Code, RpcError

    if not settings.short:
        return await _inspected(channel, settings)
    try:
        return await _listed(channel, settings)
    except RpcError as error:
        if error.code is not Code.UNIMPLEMENTED:
            raise
        return await _inspected(channel, settings)


async def _listed(channel: "Channel", settings: NeedsSettings) -> _Answer:
    """List only needs that are short; the shard filters."""
    from bigfleet.insight.v1 import insight_pb2 as pb
    from bigfleet.transport.shard_reading import LIST_NEEDS

    clusters = [settings.cluster] if settings.cluster else []
    every_need = pb.ListNeedsRequest(clusters=clusters, page_size=1)
    async with channel.server_stream(LIST_NEEDS, every_need, timeout_s=settings.timeout) as frames:
        counted, *_ = [frame.header async for frame in frames]
    short = pb.ListNeedsRequest(
        clusters=clusters, status=pb.ListNeedsRequest.STATUS_SHORT, page_size=settings.limit
    )
    async with channel.server_stream(LIST_NEEDS, short, timeout_s=settings.timeout) as frames:
        first, *rows = [frame async for frame in frames]
    cycle = first.header.cycle
    cycle.shard_id = ""  # both calls print the same line
    return _Answer(cycle, counted.total, first.header.total, [frame.need for frame in rows])


async def _inspected(channel: "Channel", settings: NeedsSettings) -> _Answer:
    from bigfleet.insight.v1 import insight_pb2
    from bigfleet.transport.shard_reading import INSPECT_NEEDS
    from bigfleet.v1alpha1 import shardread_pb2 as pb

    # The shard may apply the limit only if nothing is filtered here.
    limit = 0 if settings.short else settings.limit
    request = pb.InspectNeedsRequest(cluster_id=settings.cluster, limit=limit)
    async with channel.server_stream(INSPECT_NEEDS, request, timeout_s=settings.timeout) as frames:
        first, *rest = [frame async for frame in frames]
    rows = [frame.need for frame in rest if not (settings.short and frame.need.satisfied)]
    header = first.header
    cycle = insight_pb2.Cycle(number=header.cycle, computed_at_unix_nanos=header.computed_at_unix_nanos)
    return _Answer(cycle, header.total_needs, len(rows), rows[: settings.limit] if settings.limit else rows)


def _print_tables(settings: NeedsSettings, console: Console, answer: _Answer) -> None:
    shown = answer.shown
    parts = ["1 need" if answer.needs == 1 else f"{answer.needs} needs"]
    if settings.short:
        parts.append(f"{answer.short} short")
    if len(shown) < (answer.short if settings.short else answer.needs):
        parts.append(f"{len(shown)} shown")
    console.print(cycle_line(console, answer.cycle, *parts))
    if shown:
        # Where not all needs are shown, another one may have the same short name.
        whole = len(shown) == answer.needs
        counts = Counter(map(_name, shown))
        rows = [_row(view, alone=whole and counts[_name(view)] == 1) for view in shown]
        listing = Listing("needs", _COLUMNS, rows)
        console.stdout.write("\n" + table_text(console, settings, listing))


def _name(view: "shardread_pb2.NeedView") -> str:
    return f"{view.cluster_id}/{view.need.group}" if view.need.group else view.cluster_id


def _row(view: "shardread_pb2.NeedView", *, alone: bool) -> dict[str, object]:
    """One need, by a name that bigfleet explain takes."""
    need, supply = view.need, view.matching_supply
    known = view.HasField("coverage")
    part = view.coverage
    missing = part.missing.resources if known else view.residual_deficit.resources
    short = not view.satisfied or bool(part.held_off)
    return {
        ALERT: short,
        "mark": "!" if short else " ",
        "need": _name(view) if alone or need.group else f"{_name(view)}:{need.priority}",
        "priority": need.priority,
        "total": ", ".join(filter(None, (_amounts(need.aggregate_resources), *_sort(need)))) or None,
        "running": part.running if known else None,
        "joining": part.joining if known else None,
        "on_order": part.on_order if known else None,
        "wanted": part.wanted if known else None,
        "missing": _amounts(missing) or None,
        "machines": view.claimed_machine_count,
        "domain": view.same_domain or None,
        "age": view.age_cycles_unmet or None,
        "reason": _why(view),
        "supply": None
        if view.satisfied
        else f"idle={supply.idle} speculative={supply.speculative} configured={supply.configured}"
        + ("+" if supply.capped else ""),
        "fingerprint": view.profile_fingerprint,
    }


def _amounts(texts: Mapping[str, str]) -> str:
    from bigfleet.explain.amounts import readable

    return readable(dict(sorted(texts.items())))


def _sort(need: "capacity_pb2.CapacityNeed") -> Iterator[str]:
    """What distinguishes a need from others of its profile, cluster and group."""
    from bigfleet.explain.amounts import units_text

    if need.max_units_per_machine:
        yield f"at most {units_text(need.max_units_per_machine)} per machine"
    if need.for_fragments:
        yield "for fragments"


def _why(view: "shardread_pb2.NeedView") -> str | None:
    """Why a need is not covered: what holds its machines off, and the verdict of the engine where it is short."""
    from bigfleet.explain.durations import duration_text
    from bigfleet.explain.hold_offs import hold_off_words, verdict_words
    from bigfleet.v1alpha1 import shardread_pb2 as pb

    part, reasons = view.coverage, []
    if part.held_off:
        waiting = f" (waiting {duration_text(part.waiting_seconds)})" if part.waiting_seconds else ""
        reasons.append(hold_off_words(part.held_off) + waiting)
    if not view.satisfied:
        name = pb.UnmetReason.Name(view.unmet_reason).removeprefix("UNMET_REASON_")
        parked = f" (parked {view.parked_age_cycles})" if view.acquisition_parked else ""
        reasons.append(verdict_words(name) + parked)
    if not reasons and part.wanted:
        reasons.append("being ordered")
    return "; ".join(reasons) or None


_COLUMNS = (
    Column("", "mark"),
    Column("NEED", "need"),
    Column("PRIORITY", "priority"),
    Column("DEMAND", "total"),
    Column("RUNNING", "running"),
    Column("JOINING", "joining"),
    Column("ON ORDER", "on_order"),
    Column("WANTED", "wanted"),
    Column("MISSING", "missing"),
    Column("WHY", "reason"),
    Column("DOMAIN", "domain", wide=True),
    Column("CYCLES SHORT", "age", wide=True),
    Column("MACHINES", "machines", wide=True),
    Column("MATCHING", "supply", wide=True),
    Column("PROFILE", "fingerprint", wide=True),
)

NEEDS = CliCommand(
    NeedsSettings,
    _needs,
    """List the needs of a running shard in order of precedence: what each requests, how many of its machines run, join its
    cluster, are on order at the provider or are wanted and not accepted yet, what is missing, and why. A mark shows the needs
    that are short. bigfleet explain --shard has the details of one need.

    A shard that has not completed a cycle is reported as such, which is not the same as no demand.""",
    (
        "bigfleet needs --shard shard-0:7780",
        "bigfleet needs --shard shard-0:7780 --short -o wide",
        "bigfleet needs --shard shard-0:7780 --cluster train -o json",
    ),
)
