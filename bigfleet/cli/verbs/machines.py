"""`bigfleet machines`: lists machines of a running shard; the shard filters, sorts and limits.

Must never: fetch what is not shown, since the fleet may be large.
Rules: `dashboard#own-routes`, `dashboard#insight-service`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import SHARD, Cli, Dial
from bigfleet.cli.framework.output import Column, Listing, table_text, time_of, write
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.cli.verbs.live_shard import ShardFlags, ask, cycle_line, message_document
from bigfleet.model.machine import MachineState

if TYPE_CHECKING:
    from bigfleet.aio.net import Channel
    from bigfleet.insight.v1 import insight_pb2


class MachinesSettings(ShardFlags, OutputFlags, env_prefix="BIGFLEET_MACHINES_"):
    """Flags of `bigfleet machines`."""

    shard: Annotated[Dial, SHARD] = Field(description="gRPC address of a running shard, host:port")
    state: tuple[str, ...] = Field(default=(), description="only machines in these states, such as Idle")
    cluster: tuple[str, ...] = Field(
        default=(), description="only machines of these clusters, including those on order for them"
    )
    free: bool = Field(default=False, description="only machines without a cluster")
    type: Annotated[tuple[str, ...], Cli(metavar="TYPE")] = Field(
        default=(), description="only machines of these instance types"
    )
    zone: tuple[str, ...] = Field(default=(), description="only machines in these zones")
    capacity: Annotated[tuple[str, ...], Cli(metavar="TYPE")] = Field(
        default=(), description="only machines of these capacity types, such as Spot"
    )
    id: str = Field(default="", description="only machines whose id contains this text")
    sort: Literal["id", "price", "state", "cluster", "type", "zone", "idle", "priority"] = Field(
        default="id", description="column to sort by"
    )
    descending: bool = Field(default=False, description="sort in descending order")
    limit: int = Field(default=200, ge=0, description="show at most this many; 0 shows all")


def _machines(settings: MachinesSettings, console: Console) -> int:
    for state in settings.state:
        if state not in _STATES:
            raise UsageError(f"--state: found {state!r}, allowed is one of {', '.join(_STATES)}")
    header, rows = ask(settings, settings.shard, console, lambda channel: _list(channel, settings))
    if settings.output in ("json", "yaml"):
        write(console, settings, Listing("machines", (), list(map(message_document, rows))))
        return ExitCode.DONE
    states = ", ".join(f"{count} {state}" for state, count in sorted(header.by_state.items()))
    parts = [f"{header.total} of {header.machines} machines"] + ([states] if states else [])
    if len(rows) < header.total:
        parts.append(f"{len(rows)} shown; --limit 0 shows all")
    console.print(cycle_line(console, header.cycle, *parts))
    if rows:
        listing = Listing("machines", _COLUMNS, list(map(_row, rows)))
        console.stdout.write("\n" + table_text(console, settings, listing))
    return ExitCode.DONE


async def _list(
    channel: "Channel", settings: MachinesSettings
) -> "tuple[insight_pb2.ListMachinesHeader, list[insight_pb2.MachineRow]]":
    from bigfleet.insight.v1 import insight_pb2 as pb
    from bigfleet.transport.shard_reading import LIST_MACHINES

    orders = pb.ListMachinesRequest.Order
    request = pb.ListMachinesRequest(
        states=settings.state,
        clusters=(*settings.cluster, *([""] if settings.free else [])),
        instance_types=settings.type,
        zones=settings.zone,
        capacity_types=settings.capacity,
        id_contains=settings.id,
        order=orders.Value(_ORDERS[settings.sort]),
        descending=settings.descending,
        page_size=settings.limit,
    )
    async with channel.server_stream(LIST_MACHINES, request, timeout_s=settings.timeout) as frames:
        header, *rows = [frame async for frame in frames]
    return header.header, [frame.machine for frame in rows]


_STATES = tuple(state.label for state in MachineState if state.value)
_ORDERS = {
    "id": "ORDER_UNSPECIFIED",
    "price": "ORDER_PRICE",
    "state": "ORDER_STATE",
    "cluster": "ORDER_CLUSTER",
    "type": "ORDER_INSTANCE_TYPE",
    "zone": "ORDER_ZONE",
    "idle": "ORDER_IDLE_SINCE",
    "priority": "ORDER_PRIORITY",
}


def _row(machine: "insight_pb2.MachineRow") -> dict[str, object]:
    from bigfleet.explain.amounts import readable

    bound = machine.assigned if machine.HasField("assigned") else None
    on_order = bound.cluster if bound is not None and not machine.cluster else ""
    return {
        "id": machine.id,
        "state": f"{machine.state}*" if machine.pending else machine.state,
        "cluster": machine.cluster or (f"for {on_order}" if on_order else None),
        "type": machine.instance_type or None,
        "zone": machine.zone or None,
        "capacity": machine.capacity_type,
        "size": readable(dict(sorted(machine.capacity.items()))) or None,
        "price": f"{machine.price_per_hour:g}",
        "risk": f"{machine.interruption_probability:g}",
        "priority": bound.priority if bound is not None else None,
        "idle": time_of(machine.idle_since_unix_nanos),
        "host": machine.host_ref or None,
        "held_off": _held_off(machine),
        "error": machine.last_error or machine.held_off_error or None,
    }


def _held_off(machine: "insight_pb2.MachineRow") -> str | None:
    """Why the shard leaves the machine alone for now, and until when."""
    from bigfleet.explain.durations import duration_text

    if not machine.held_off:
        return None
    words = {"stocked-out": "stocked out", "machine-back-off": "failed"}.get(
        machine.held_off, machine.held_off
    )
    left_s = machine.next_attempt_in_seconds
    return f"{words}, next attempt {f'in {duration_text(left_s)}' if left_s > 0 else 'due'}"


_COLUMNS = (
    Column("MACHINE", "id"),
    Column("STATE", "state"),
    Column("CLUSTER", "cluster"),
    Column("TYPE", "type"),
    Column("ZONE", "zone"),
    Column("CAPACITY", "capacity"),
    Column("SIZE", "size"),
    Column("$/H", "price"),
    Column("PRIORITY", "priority"),
    Column("HELD OFF", "held_off"),
    Column("ERROR", "error"),
    Column("RISK", "risk", wide=True),
    Column("IDLE SINCE", "idle", wide=True),
    Column("HOST", "host", wide=True),
)

MACHINES = CliCommand(
    MachinesSettings,
    _machines,
    """List the machines of a running shard as of its last cycle. The shard filters, sorts and limits, so that the command is
    quick on a large fleet. A star after the state means that an action of the machine is waiting or running. HELD OFF shows
    machines that the shard leaves alone for now, because their offering is stocked out or their last action failed.
    bigfleet explain --shard ADDRESS --machine ID explains the state of a machine.""",
    (
        "bigfleet machines --shard shard-0:7780 --state Idle --sort price",
        "bigfleet machines --shard shard-0:7780 --cluster train --type g8 -o wide",
        "bigfleet machines --shard shard-0:7780 --state Failed --limit 0 -o json",
    ),
)
