"""The operator's end of a session: says hello, sends demand, answers blob requests, keeps every frame.

Why: demos and tests need operators without a cluster, over any network.
Must never: interpret more than the contract says.

    async with SessionPeer(net.dial("shard:7780"), "prod", clock) as operator:
        await operator.demand(need("prod", cpu=4))
        await operator.until(lambda: operator.last_state("m-0") is MachineState.CONFIGURED)
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.net import BidiStream, Channel, RpcError
from bigfleet.aio.service import ServiceSpec
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.v1alpha1 import shard_pb2 as pb
from bigfleet.wire.rollups import Rollup, rollup_to_proto

SESSION: Final = ServiceSpec(pb.DESCRIPTOR.services_by_name["Shard"]).bidi(
    "Session", pb.OperatorMessage, pb.ShardMessage
)

BlobAnswer = Callable[[pb.BootstrapRequest], pb.BootstrapBlobResponse | None]


def good_blob(request: pb.BootstrapRequest) -> pb.BootstrapBlobResponse:
    """The answer of an operator with a working template."""
    return pb.BootstrapBlobResponse(
        request_id=request.request_id, user_data=b"join " + request.machine_id.encode()
    )


class SessionPeer:
    """One operator."""

    def __init__(
        self,
        channel: Channel,
        cluster: str,
        clock: Clock,
        *,
        answer: BlobAnswer = good_blob,
        reads: bool = True,
    ) -> None:
        """Without `reads` it connects and never reads a frame."""
        self._channel, self.cluster, self._clock = channel, cluster, clock
        self.answer, self._reads = answer, reads
        self.acks: list[pb.Acknowledgement] = []
        self.requests: list[pb.BootstrapRequest] = []
        self.instructions: list[pb.ReclaimInstruction] = []
        self.updates: list[pb.NodeStateUpdate] = []
        self.hints: list[pb.AvailableCapacityUpdate] = []
        self.ended: RpcError | None = None
        self.is_over = False
        self._stream: BidiStream[pb.OperatorMessage, pb.ShardMessage] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._received = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Open the session and say hello."""
        self._stream = self._channel.bidi(SESSION, wait_for_ready=True)
        hello = pb.OperatorMessage(hello=pb.Hello(cluster_id=self.cluster, protocol_version="v1alpha1"))
        try:
            await self.send(hello)
        except RpcError:
            if not self._reads:
                raise
            # A shard that refuses the certificate ends the stream before it reads; the reader learns the status.
        if self._reads:
            self._reader = asyncio.get_running_loop().create_task(self._read(self._stream))

    async def close(self) -> None:
        """Abort the session."""
        if self._stream is not None:
            self._stream.cancel()
        if self._reader is not None:
            await asyncio.wait([self._reader])
        await self._channel.close()

    async def send(self, message: pb.OperatorMessage) -> None:
        """Send any frame."""
        if self._stream is None:
            raise RuntimeError("the session is not open")
        await self._stream.send(message)

    async def done_sending(self) -> None:
        """Close this half of the session, as an operator that stops does."""
        if self._stream is not None:
            await self._stream.done_sending()

    async def demand(self, *needs: Need, at_ns: int = 1) -> None:
        """Send a roll-up with exactly these needs."""
        rollup = rollup_to_proto(Rollup(self.cluster, at_ns, needs))
        await self.send(pb.OperatorMessage(rollup=rollup))

    # Received frames

    def states(self, machine_id: str) -> list[MachineState]:
        """Every state received of a machine, in order."""
        return [MachineState(update.state) for update in self.updates if update.machine_id == machine_id]

    def last_state(self, machine_id: str) -> MachineState | None:
        """The last state received of a machine."""
        return next(reversed(self.states(machine_id)), None)

    def in_state(self, state: MachineState) -> list[str]:
        """The machines whose last received state is this one, by id."""
        last = {update.machine_id: update.state for update in self.updates}
        return sorted(machine_id for machine_id, number in last.items() if number == int(state))

    def echoes(self) -> list[str]:
        """The echoes of all acknowledgements."""
        return [ack.echo for ack in self.acks]

    async def until(self, fact: Callable[[], bool], within_s: float = 120.0) -> None:
        """Wait until something is true; checked after each frame and at the end of the session."""
        async with timeout(self._clock, within_s):
            while not fact():
                self._received.clear()
                await self._received.wait()

    async def _read(self, stream: BidiStream[pb.OperatorMessage, pb.ShardMessage]) -> None:
        try:
            while (message := await stream.receive()) is not None:
                await self._take(message)
                self._received.set()
        except RpcError as error:
            self.ended = error
        finally:
            self.is_over = True
            self._received.set()

    async def _take(self, message: pb.ShardMessage) -> None:
        match message.WhichOneof("payload"):
            case "ack":
                self.acks.append(message.ack)
            case "bootstrap_request":
                self.requests.append(message.bootstrap_request)
                answer = self.answer(message.bootstrap_request)
                if answer is not None:
                    await self._reply(pb.OperatorMessage(bootstrap_response=answer))
            case "reclaim_instruction":
                instruction = message.reclaim_instruction
                self.instructions.append(instruction)
                ack = pb.ReclaimAck(instruction_id=instruction.instruction_id, nodes_started=1)
                await self._reply(pb.OperatorMessage(reclaim_ack=ack))
            case "node_state_update":
                self.updates.append(message.node_state_update)
            case "available_capacity":
                self.hints.append(message.available_capacity)

    async def _reply(self, message: pb.OperatorMessage) -> None:
        with suppress(RpcError):  # the stream has ended; the reader sees that too
            await self.send(message)
