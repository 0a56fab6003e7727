"""The operator's side of a session, without a cluster behind it.

Why: compose files, demos and load runs need clusters that ask for machines and give them back, without Kubernetes.
Must never: send anything but the whole demand in a roll-up, or keep a machine that the shard reclaims.
Rules: `packaging#other-commands`, `wire#session`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn

import structlog

from bigfleet.aio.backoff import RECONNECT, Attempt, Backoff, keep_connected
from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import BidiStream, DialOptions, Net
from bigfleet.aio.rng import RandomStream
from bigfleet.clustersim.core.demand import SimulatedDemand
from bigfleet.explain.amounts import readable
from bigfleet.model.frames import BlobAnswer, BlobRequest, NodeStateUpdate, ReclaimAck, ReclaimOrder, ShardAck
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.transport.shard_session import SESSION
from bigfleet.v1alpha1 import shard_pb2
from bigfleet.wire.operator_frames import RollupWriter, answer_frame, frame_from_proto, hello_frame
from bigfleet.wire.rollups import need_to_proto

POLL_S: Final = 1.0
"""How often the schedule is evaluated."""
ROLLUP_S: Final = 10.0
_GONE: Final = frozenset(
    {MachineState.IDLE, MachineState.FAILED, MachineState.SPECULATIVE, MachineState.DELETING}
)

EventSink = Callable[[str, str], object]
"""Takes a kind (`session`, `demand`, `node`, `reclaim`) and a sentence for people."""


@dataclass(slots=True)
class ClusterState:
    """The state of the cluster."""

    connected: bool = False
    nodes: dict[str, MachineState] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    rollups: int = 0
    acked: int = 0

    @property
    def ready(self) -> int:
        """The number of Configured nodes."""
        return sum(state is MachineState.CONFIGURED for state in self.nodes.values())


class SimulatedCluster:
    """One simulated cluster."""

    def __init__(
        self,
        cluster: str,
        shard_addr: str,
        demand: SimulatedDemand,
        *,
        net: Net,
        clock: Clock,
        stream: RandomStream,
        on_event: EventSink = lambda _kind, _text: None,
    ) -> None:
        self.cluster, self._address, self.demand = cluster, shard_addr, demand
        self._net, self._clock, self._on_event = net, clock, on_event
        self._backoff = Backoff(stream, RECONNECT)
        self._start_s = monotonic_s(clock)
        self._log = structlog.get_logger("bigfleet.clustersim")
        self.state = ClusterState()

    async def run(self) -> NoReturn:
        """Keep a session open until cancelled."""
        await keep_connected(self._session, clock=self._clock, backoff=self._backoff, on_ended=self._ended)

    def elapsed_s(self) -> float:
        """Return the seconds since the start of the schedule."""
        return monotonic_s(self._clock) - self._start_s

    async def _session(self, attempt: Attempt) -> None:
        channel = self._net.dial(self._address, DialOptions())
        try:
            async with channel.bidi(SESSION) as stream:
                await stream.send(hello_frame(self.cluster))
                sending = asyncio.ensure_future(self._send(stream))
                receiving = asyncio.ensure_future(self._receive(stream, attempt))
                try:
                    await asyncio.wait([sending, receiving], return_when=asyncio.FIRST_COMPLETED)
                    for task in (receiving, sending):
                        if task.done():
                            task.result()
                finally:
                    sending.cancel()
                    receiving.cancel()
                    await asyncio.wait([sending, receiving])
        finally:
            await channel.close()

    async def _send(self, stream: BidiStream[bytes, shard_pb2.ShardMessage]) -> NoReturn:
        sent: tuple[Need, ...] | None = None
        sent_s = 0.0
        while True:
            needs = self.demand.needs_at(self.elapsed_s())
            if needs != sent or monotonic_s(self._clock) - sent_s >= ROLLUP_S:
                if needs != self.state.needs:
                    self._on_event("demand", f"{self.cluster} asks for {_words(needs)}")
                self.state.needs = needs
                await stream.send(self._rollup(needs))
                self.state.rollups += 1
                sent, sent_s = needs, monotonic_s(self._clock)
            await self._clock.sleep(POLL_S)

    def _rollup(self, needs: tuple[Need, ...]) -> bytes:
        writer = RollupWriter(self.cluster, self._clock.wall_ns())
        writer.add_encoded(need_to_proto(need).SerializeToString(deterministic=True) for need in needs)
        return writer.frame()

    async def _receive(self, stream: BidiStream[bytes, shard_pb2.ShardMessage], attempt: Attempt) -> None:
        async for message in stream:
            frame = frame_from_proto(message)
            match frame:
                case ShardAck(echo="hello"):
                    self.state.connected = True
                    self._on_event("session", f"{self.cluster} is connected")
                case ShardAck(echo="rollup"):
                    attempt.established()
                    self.state.acked += 1
                case BlobRequest():
                    await stream.send(answer_frame(self._blob(frame)))
                case ReclaimOrder():
                    names = ", ".join(target.machine for target in frame.targets)
                    self._on_event("reclaim", f"{self.cluster} is asked to give back {names}")
                    await stream.send(answer_frame(ReclaimAck(frame.instruction_id, len(frame.targets))))
                case NodeStateUpdate():
                    self._node_state(frame)
                case str():
                    self._log.warning("frame_dropped", why=frame)

    def _blob(self, request: BlobRequest) -> BlobAnswer:
        text = f"# joins the simulated cluster {self.cluster}\n"
        return BlobAnswer(request.request_id, user_data=text.encode())

    def _node_state(self, update: NodeStateUpdate) -> None:
        before = self.state.nodes.get(update.machine_id)
        if update.state in _GONE:
            self.state.nodes.pop(update.machine_id, None)
        else:
            self.state.nodes[update.machine_id] = update.state
        if update.state is MachineState.CONFIGURED and before is not update.state:
            self._on_event("node", f"{update.machine_id} has joined {self.cluster}")
        elif update.state is MachineState.FAILED:
            self._on_event("node", f"{update.machine_id} of {self.cluster} failed: {update.last_error}")
        elif update.state in _GONE and before is not None:
            self._on_event("node", f"{update.machine_id} has left {self.cluster}")

    def _ended(self, error: Exception | None, wait_s: float) -> None:
        if self.state.connected:
            self._on_event("session", f"{self.cluster} has lost its session")
        self.state.connected = False
        self._log.info(
            "session_ended", cluster=self.cluster, why=str(error or "closed"), wait_s=round(wait_s, 3)
        )


def _words(needs: tuple[Need, ...]) -> str:
    if not needs:
        return "nothing"
    return ", ".join(
        readable(need.total.texts())
        + f" at priority {need.profile.priority}"
        + (f" for {need.group}" if need.group else "")
        for need in needs
    )
