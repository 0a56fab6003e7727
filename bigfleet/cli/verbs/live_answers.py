"""What commands take from a live shard: its snapshot document, and the line that says which cycle they show.

Must never: be imported before a command runs; it brings the messages.
Rules: dashboard 8, snapshot section 4.
"""

from datetime import UTC, datetime, timedelta

from bigfleet.aio.net import Channel
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.output import rfc3339
from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.transport.shard_reading import GET_SNAPSHOT

_EPOCH = datetime.fromtimestamp(0, UTC)


async def snapshot_document(channel: Channel, timeout_s: float) -> bytes:
    """The whole document; a stream that breaks off raises, and nothing of it is handed out."""
    async with channel.server_stream(GET_SNAPSHOT, pb.GetSnapshotRequest(), timeout_s=timeout_s) as frames:
        return b"".join([frame.data async for frame in frames])


def cycle_line(console: Console, cycle: pb.Cycle, *parts: str) -> str:
    """Which cycle an answer is about, and how old it is."""
    who = f"shard {cycle.shard_id}" if cycle.shard_id else "the shard"
    if not cycle.number:
        return f"{who} has completed no cycle yet"
    return ", ".join(
        [f"{who}, cycle {cycle.number} of {_when(console, cycle.computed_at_unix_nanos)}", *parts]
    )


def when(unix_nanos: int) -> datetime:
    """A time of the wire; the zero time means never, and is printed as a dash."""
    return _EPOCH + timedelta(microseconds=unix_nanos // 1000)


def _when(console: Console, unix_nanos: int) -> str:
    moment = when(unix_nanos)
    age = round((console.now() - moment).total_seconds())
    ago = f" ({age} s ago)" if age >= 0 else ""
    return rfc3339(moment.replace(microsecond=0)) + ago
