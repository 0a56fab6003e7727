"""Reading from a running shard: flags, connection, and error texts that say what to do next.

Must never: change anything, or present a part of an answer as the whole.
Rules: `wire#codes`, `wire#identity`, `packaging#exit-codes`, `packaging#bigfleetctl`, `packaging#other-commands`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import Field

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import SHARD_VARIABLE, Duration
from bigfleet.cli.framework.output import rfc3339, time_of
from bigfleet.cli.framework.settings import TlsFlags
from bigfleet.cli.verbs.documents import DocumentFlags, read_file

if TYPE_CHECKING:  # gRPC takes longer to import than --help may
    from google.protobuf.message import Message

    from bigfleet.aio.net import Channel, RpcError
    from bigfleet.insight.v1 import insight_pb2

T = TypeVar("T")


class ShardFlags(TlsFlags):
    """Flags for reading from a shard; the certificate needs the role readonly or admin."""

    group_title: ClassVar[str] = "Shard flags"

    timeout: Duration = Field(default=60.0, description="longest time to wait for the shard")


class SnapshotFlags(ShardFlags, DocumentFlags):
    """Flags for a snapshot from a file or from a shard."""

    group_title: ClassVar[str] = "Document flags"


def ask(
    settings: ShardFlags, address: str, console: Console, question: "Callable[[Channel], Awaitable[T]]"
) -> T:
    """Run a query against the shard at an address; RPC errors become a CommandError."""
    import asyncio

    return asyncio.run(_ask(settings, address, console, question))


def read_snapshot(settings: SnapshotFlags, file: Path | None, address: str | None, console: Console) -> bytes:
    """Return the snapshot document from a file or from the last cycle of a running shard; exactly one must be given.

    A file takes precedence over a shard that only the environment names.
    """
    if file is not None and address == console.environ.get(SHARD_VARIABLE):
        address = None
    if (file is None) == (address is None):
        found = "neither" if file is None else "both"
        raise UsageError(f"SNAPSHOT, --shard: found {found}, allowed is one of the two")
    if file is not None:
        return read_file(file, console, settings.max_document)
    return ask(settings, address or "", console, lambda channel: snapshot_document(channel, settings.timeout))


async def _ask(
    settings: ShardFlags, address: str, console: Console, question: "Callable[[Channel], Awaitable[T]]"
) -> T:
    from bigfleet.aio.net import RpcError

    async with _dialled(settings, console, address) as channel:
        try:
            return await question(channel)
        except RpcError as error:
            raise command_error(error, address, secured=settings.tls_cert is not None) from None


@asynccontextmanager
async def _dialled(settings: ShardFlags, console: Console, address: str) -> "AsyncIterator[Channel]":
    from bigfleet.transport.grpc_net import GrpcNet

    channel = GrpcNet(settings.tls_store(console.print_error, console.print_warning)).dial(address)
    try:
        yield channel
    finally:
        await channel.close()


async def snapshot_document(channel: "Channel", timeout_s: float) -> bytes:
    """Return the whole snapshot document; a stream that breaks off raises."""
    from bigfleet.insight.v1 import insight_pb2 as pb
    from bigfleet.transport.shard_reading import GET_SNAPSHOT

    async with channel.server_stream(GET_SNAPSHOT, pb.GetSnapshotRequest(), timeout_s=timeout_s) as frames:
        return b"".join([frame.data async for frame in frames])


def cycle_line(console: Console, cycle: "insight_pb2.Cycle", *parts: str) -> str:
    """Return the line that says which cycle an answer is about, and how old that cycle is."""
    who = f"shard {cycle.shard_id}" if cycle.shard_id else "the shard"
    if not cycle.number:
        return f"{who} has completed no cycle yet"
    computed = time_of(cycle.computed_at_unix_nanos)
    # The shard measures its age; one of an older release does not, and its clock may differ from this host's.
    age = round(cycle.age_seconds or (console.now() - computed).total_seconds())
    ago = f" ({age} s ago)" if age >= 0 else ""
    return ", ".join(
        [f"{who}, cycle {cycle.number} of {rfc3339(computed.replace(microsecond=0))}{ago}", *parts]
    )


def message_document(message: "Message") -> dict[str, Any]:  # Any: JSON as protobuf makes it
    """Return a message of the wire as a document with all of its fields, by their wire names."""
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def command_error(error: "RpcError", address: str, *, secured: bool) -> CommandError:
    """Return the error for an RPC error: its text, with the next step, and its exit code."""
    from bigfleet.aio.net import Code

    plain = (
        ""
        if secured
        else "; if it requires TLS, pass --tls-cert, --tls-key and --tls-ca of the role readonly"
    )
    meanings: Mapping[Code, tuple[ExitCode, str]] = {
        Code.UNAVAILABLE: (
            ExitCode.UNAVAILABLE,
            f"the shard at {address} cannot be reached: {error.detail}; check that it runs and that --shard is its "
            f"--listen address{plain}",
        ),
        Code.DEADLINE_EXCEEDED: (
            ExitCode.UNAVAILABLE,
            f"the shard at {address} did not answer in time; if it is busy, use a larger --timeout{plain}",
        ),
        Code.PERMISSION_DENIED: (
            ExitCode.PERMISSION,
            f"the shard at {address} does not allow this certificate to read: {error.detail}; create one with "
            "bigfleet certs issue DIR --role readonly --name NAME",
        ),
        Code.FAILED_PRECONDITION: (
            ExitCode.REFUSED,
            f"the shard at {address} cannot answer yet: {error.detail}; its /readyz shows what it waits for",
        ),
        Code.UNIMPLEMENTED: (
            ExitCode.REFUSED,
            f"the process at {address} does not offer this: it is an older shard or something else; "
            "check that --shard is the gRPC address of a shard",
        ),
        Code.NOT_FOUND: (ExitCode.NOT_FOUND, error.detail),
        Code.INVALID_ARGUMENT: (ExitCode.USAGE, error.detail),
        Code.RESOURCE_EXHAUSTED: (
            ExitCode.UNAVAILABLE,
            f"the shard at {address} is busy: {error.detail}",
        ),
    }
    code, text = meanings.get(error.code, (ExitCode.FAILURE, f"the shard at {address} failed: {error}"))
    return CommandError(text, code)
