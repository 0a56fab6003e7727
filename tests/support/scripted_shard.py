"""A shard that sends what a test scripts, and records what it receives.

Why: an operator is tested against every behaviour a shard may have: polite, old, silent, deaf, impatient; the real one has only
the good ones.
Must never: decide anything.
Rules: `wire#session`, `operator#session`, `testing#api-faults`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Call, Code, RpcRefusedError, ServerStream
from bigfleet.aio.service import BoundService, ServiceSpec
from bigfleet.transport.gates import require
from bigfleet.v1alpha1 import capacity_pb2, provider_pb2, shard_pb2

SHARD: Final = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
STATES: Final = provider_pb2.MachineState

_Stream = ServerStream[shard_pb2.ShardMessage, shard_pb2.OperatorMessage]


class HeardSession:
    """One session: everything the operator said in it, and a way to answer."""

    def __init__(self) -> None:
        self.hellos: list[shard_pb2.Hello] = []
        self.rollups: list[capacity_pb2.ClusterCapacityNeeds] = []
        self.raw_rollups: list[bytes] = []
        self.blobs: dict[str, shard_pb2.BootstrapBlobResponse] = {}
        self.reclaim_acks: list[shard_pb2.ReclaimAck] = []
        self.is_open = True
        self._out: asyncio.Queue[shard_pb2.ShardMessage | Code | None] = asyncio.Queue()

    def send(self, message: shard_pb2.ShardMessage) -> None:
        """Say something to the operator."""
        self._out.put_nowait(message)

    def close(self) -> None:
        """End the stream in good order, after what was said before."""
        self._out.put_nowait(None)

    def end_with(self, code: Code) -> None:
        """End the stream with a status, after what was said before."""
        self._out.put_nowait(code)

    async def outgoing(self, stream: _Stream) -> None:
        """Write what is to be said, until `close` or `end_with`."""
        while (message := await self._out.get()) is not None:
            if isinstance(message, Code):
                raise RpcRefusedError(message, "ended by the script")
            await stream.send(message)


class ScriptedShard:
    """The service; its switches may be turned at any time."""

    def __init__(self) -> None:
        self.sessions: list[HeardSession] = []
        self.acks_hello = True
        self.acks_rollups = True
        self.features: tuple[str, ...] = ()
        """What it says to understand; nothing, as a shard of the original."""
        self.marks_resync = True
        self.refuses_with: Code | None = None
        self.replay: list[shard_pb2.ShardMessage] = []
        """What is said after each hello, before the marker."""
        self.reading = asyncio.Event()
        self.reading.set()

    def bound(self) -> BoundService:
        """Return the service to be served."""
        return SHARD.bind(self)

    @property
    def current(self) -> HeardSession:
        """The newest session."""
        return self.sessions[-1]

    @property
    def is_connected(self) -> bool:
        """Whether a session is open and has said hello."""
        return bool(self.sessions) and self.current.is_open and bool(self.current.hellos)

    def send(self, *messages: shard_pb2.ShardMessage) -> None:
        """Say something in the newest session."""
        for message in messages:
            self.current.send(message)

    async def session(self, stream: _Stream, call: Call) -> None:
        """Serve one session."""
        if self.refuses_with is not None:
            raise RpcRefusedError(self.refuses_with, "refused by the script")
        heard = HeardSession()
        first = await stream.receive()
        if first is None or not first.hello.cluster_id:
            raise RpcRefusedError(Code.INVALID_ARGUMENT, "the first frame must be Hello")
        require(call.peer, Identity.cluster(first.hello.cluster_id))
        self.sessions.append(heard)
        self._take(heard, first)
        writing = asyncio.ensure_future(heard.outgoing(stream))
        reading = asyncio.ensure_future(self._read(heard, stream))
        try:
            await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            heard.is_open = False
            for task in (writing, reading):
                task.cancel()
            await asyncio.wait({writing, reading})

    async def _read(self, heard: HeardSession, stream: _Stream) -> None:
        while True:
            await self.reading.wait()
            message = await stream.receive()
            if message is None:
                return
            self._take(heard, message)

    def _take(self, heard: HeardSession, message: shard_pb2.OperatorMessage) -> None:
        match message.WhichOneof("payload"):
            case "hello":
                heard.hellos.append(message.hello)
                if self.acks_hello:
                    heard.send(ack("hello", *self.features))
                    if len(heard.hellos) == 1:
                        for frame in self.replay:
                            heard.send(frame)
                        if self.marks_resync:
                            heard.send(ack("resync"))
            case "rollup":
                heard.rollups.append(message.rollup)
                heard.raw_rollups.append(message.rollup.SerializeToString(deterministic=True))
                if self.acks_rollups:
                    heard.send(ack("rollup"))
            case "bootstrap_response":
                heard.blobs[message.bootstrap_response.request_id] = message.bootstrap_response
            case "reclaim_ack":
                heard.reclaim_acks.append(message.reclaim_ack)


def ack(echo: str, *features: str) -> shard_pb2.ShardMessage:
    """Return an acknowledgement."""
    return shard_pb2.ShardMessage(ack=shard_pb2.Acknowledgement(echo=echo, shard_epoch=1, features=features))


def node_state(
    machine: str,
    state: str,
    *,
    provider_id: str = "",
    node_name: str = "",
    last_error: str = "",
    labels: Mapping[str, str] | None = None,
    resources: Mapping[str, str] | None = None,
) -> shard_pb2.ShardMessage:
    """Return a frame about a machine; the state by its name, such as `Configured`."""
    update = shard_pb2.NodeStateUpdate(
        supersedes_key=f"node:{machine}",
        machine_id=machine,
        state=STATES.Value(f"MACHINE_STATE_{state.upper()}"),
        provider_id=provider_id,
        node_name=node_name,
        last_error=last_error,
        labels=labels,
        resources=provider_pb2.Resources(resources=resources or {}),
    )
    return shard_pb2.ShardMessage(node_state_update=update)


def reclaim(
    instruction: str,
    *nodes: str,
    grace_s: int = 30,
    machines: Sequence[str] = (),
    provider_ids: Sequence[str] = (),
) -> shard_pb2.ShardMessage:
    """Return a reclaim instruction; with machines also the targets of new shards."""
    order = shard_pb2.ReclaimInstruction(
        instruction_id=instruction, nodes=nodes, grace_period_seconds=grace_s
    )
    for place, machine in enumerate(machines):
        provider_id = provider_ids[place] if provider_ids else ""
        order.targets.add(machine_id=machine, provider_id=provider_id)
    return shard_pb2.ShardMessage(reclaim_instruction=order)


def blob_request(request: str, machine: str = "") -> shard_pb2.ShardMessage:
    """Return a request for a bootstrap blob."""
    asked = shard_pb2.BootstrapRequest(request_id=request, machine_id=machine)
    return shard_pb2.ShardMessage(bootstrap_request=asked)


def hint(fingerprint: str, available: int = 1, *, cost: float = 0.0) -> shard_pb2.ShardMessage:
    """Return a hint about a profile."""
    update = shard_pb2.AvailableCapacityUpdate(
        supersedes_key=f"available:{fingerprint}",
        available_count=available,
        confidence=shard_pb2.AvailableCapacityUpdate.CONFIDENCE_HIGH,
        cost_per_hour=cost,
    )
    return shard_pb2.ShardMessage(available_capacity=update)
