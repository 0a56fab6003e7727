"""Start, restart and stop of a fake: its kit and its listeners.

Why: a restart is one of the faults, so the kit is replaced while service, faults and event log stay.
Must never: leave a listener or a task behind.
Rules: `providers#fake-one-class`, `providers#fake-control`.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

import structlog
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, SystemClock
from bigfleet.aio.identity import Identity
from bigfleet.aio.ids import Ids
from bigfleet.aio.net import Code, Net, RpcServer, ServeOptions
from bigfleet.aio.rng import SeededRng
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.fake.backend import FakeBackend, Seeds
from bigfleet.provider.fake.events import EventLog
from bigfleet.provider.fake.injected_faults import InjectedFaults
from bigfleet.provider.fake.lies.active import ActiveLies
from bigfleet.provider.fake.lies.lie import HonestProvider
from bigfleet.provider.fake.machine_losses import LOST, MachineLosses
from bigfleet.provider.fake.nodes import FakeNodes, NodeEmpty, NodeJoined
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.service import FaultInjectingService
from bigfleet.provider.fake.state import FakeState, NoState
from bigfleet.provider.kit.core.transitions import Lost
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.provider.kit.encoding import listing
from bigfleet.provider.kit.kit import NotStartedError, ProviderKit
from bigfleet.provider.kit.store import StateStore
from bigfleet.provider.methods import PROVIDER
from bigfleet.transport.address import ListenAddress, parse_listen
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.inside import InsideChannel

STOP_GRACE_S: Final = 10.0


@dataclass(slots=True)
class _Listener:
    address: ListenAddress
    net: Net
    server: RpcServer


def no_machines() -> tuple[DescribedMachine, ...]:
    """Return the seeds of a fake that begins empty."""
    return ()


class FakeLifecycle:
    """A fake provider without its verbs."""

    def __init__(
        self,
        options: FakeOptions | None = None,
        seeds: Seeds = no_machines,
        *,
        state: FakeState | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        net: Net | None = None,
        metrics: Metrics | None = None,
        log: FilteringBoundLogger | None = None,
        node_joined: NodeJoined | None = None,
        node_empty: NodeEmpty | None = None,
    ) -> None:
        """Seams that are not given are those of a real process.

        With `node_joined` a machine is Configuring until it returns True; with `node_empty` a drain lasts until it returns
        True or the grace ends (`testing#drain-until-empty`).
        """
        self.options = options or FakeOptions()
        self.clock = clock or SystemClock()
        self.events = EventLog(self.clock)
        self._state, self._ids, self._metrics, self._net = state or NoState(), ids, metrics, net
        self._log = self.events.recording(log or structlog.get_logger("bigfleet.provider.fake"))
        self._rng = SeededRng(self.options.seed).child("fake")
        self.faults = InjectedFaults(
            self._rng,
            self.events.now_s,
            latencies=self.options.latencies,
            failures=self.options.failures,
            stockouts=self.options.stockouts,
            time_scale=self.options.time_scale,
        )
        self.starts = 0
        provider = HonestProvider(
            now_s=self.events.now_s,
            head=lambda: self.kit.state.head,
            everything=self._everything,
            admit=self._admit,
            starts=lambda: self.starts,
        )
        self.active_lies = ActiveLies(self._rng, provider)
        self.nodes = FakeNodes(
            self.clock,
            self.events,
            until_joined=self.options.configure_until_joined,
            until_empty=self.options.drain_until_empty,
            node_joined=node_joined,
            node_empty=node_empty,
        )
        self.backend = FakeBackend(
            seeds,
            self.faults,
            clock=self.clock,
            events=self.events,
            nodes=self.nodes,
            skips_readiness=lambda: self.active_lies.tells("early-configured"),
        )
        self.service = FaultInjectingService(
            lambda: self.kit,
            clock=self.clock,
            faults=self.faults,
            active_lies=self.active_lies,
            events=self.events,
            cursor=self.options.cursor,
            reset_connections=self._reset_soon,
        )
        self._kit: ProviderKit | None = None
        self._listeners: list[_Listener] = []
        self._channels: list[InsideChannel] = []
        self._loops: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[BigFleetError] | None = None
        self._resetting: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Read the state, or seed an empty one, and turn on the lies of the options."""
        await self._begin()
        for name, share in self.options.lies.items():
            self.active_lies.tell(name, share)

    async def listen(self, address: str, *, net: Net | None = None) -> RpcServer:
        """Serve on an address, also after a restart; may be called for several addresses."""
        chosen = net or self._net or GrpcNet()
        server = await self._serve(parse_listen(address), chosen)
        bound = ListenAddress(parse_listen(address).host, server.port)
        self._listeners.append(_Listener(bound, chosen, server))
        return server

    def channel(self, identity: Identity | None = None) -> InsideChannel:
        """Return a channel for callers in this process, with the same faults and no port; `identity` is the caller's.

        Like a dialled channel it survives restarts.
        """
        options = ServeOptions(
            max_message_bytes=self.options.max_message_bytes, statuses={NotStartedError: Code.UNAVAILABLE}
        )
        channel = InsideChannel([PROVIDER.bind(self.service)], self.clock, identity=identity, options=options)
        self._channels.append(channel)
        return channel

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Finish running calls, end operations, close the state; may be called twice."""
        # Waits for a restart or reset in progress, which would otherwise start a listener again.
        async with self._changing:
            listeners, self._listeners = self._listeners, []
            for listener in listeners:
                await listener.server.stop(grace_s)
            await self._break_off()
            await self._end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop(0)

    @property
    def kit(self) -> ProviderKit:
        """The present kit, which holds the true state."""
        if self._kit is None:
            raise NotStartedError
        return self._kit

    @property
    def started(self) -> bool:
        """Whether calls can be answered."""
        return self._kit is not None

    async def wait_failure(self) -> BigFleetError:
        """Wait until the state cannot be written any more; return why."""
        if self._failure is None:
            self._failure = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._failure)

    async def restart_kit(self, *, forget: bool) -> None:
        """Replace the kit by a new one, on the stored state or on an empty one; connections break."""
        async with self._changing:
            await self._break_off()
            await self._end()
            if forget:
                self._state.forget()
            await self._begin()
            await self._listen_again()

    async def reset_connections(self) -> None:
        """Break every connection; the provider keeps running."""
        async with self._changing:
            await self._break_off()
            await self._listen_again()

    # Inside.

    async def _begin(self) -> None:
        # A stored state has its machines already, with prices and losses that the seeds do not have.
        self.backend.seeding, self.backend.added = not self._state.kept, []
        self.service.forget_start()
        store = self._state.open()
        kit = ProviderKit(
            self.backend,
            store=store,
            name=self.options.name,
            limits=self.options.limits(),
            clock=self.clock,
            rng=self._rng.child("kit"),
            ids=self._ids,
            metrics=self._metrics,
            log=self._log,
            synchronous=self.options.sync,
            offer_delete=self.options.offer_delete,
            require_fencing=self.options.require_fencing,
            require_shard_san=self.options.require_shard_san,
        )
        await kit.start()
        self.backend.seeding = False
        self._kit = kit
        self.starts += 1
        if self.options.loss_per_hour or self.options.use_declared_loss:
            losses = MachineLosses(
                kit.state,
                lambda machine_id: kit.report_event(Lost(machine_id, LOST)),
                clock=self.clock,
                stream=self._rng.stream("loss"),
                per_hour=self.options.loss_per_hour,
                declared=self.options.use_declared_loss,
            )
            self._loop(losses.run(), "losses")
        self._loop(self._watch(store), "watch of the state")

    def _loop(self, forever: Coroutine[Any, Any, None], name: str) -> None:
        self._loops.append(asyncio.get_running_loop().create_task(forever, name=f"fake {name}"))

    async def _watch(self, store: StateStore) -> None:
        error = await store.wait_failure()
        if self._failure is None:
            self._failure = asyncio.get_running_loop().create_future()
        if not self._failure.done():
            self._failure.set_result(error)

    async def _end(self) -> None:
        loops, self._loops = self._loops, []
        for task in loops:
            task.cancel()
        if loops:
            await asyncio.wait(loops)
        kit, self._kit = self._kit, None
        if kit is not None:
            await kit.stop(0)

    async def _break_off(self) -> None:
        for listener in self._listeners:
            await listener.server.stop(0)
        for channel in self._channels:
            await channel.break_off("the connection was reset")

    async def _listen_again(self) -> None:
        for listener in self._listeners:
            listener.server = await self._serve(listener.address, listener.net)

    def _serve(self, address: ListenAddress, net: Net) -> Awaitable[RpcServer]:
        options = replace(self.kit.serve_options(), reflection=self.options.reflection)
        return net.serve(str(address), [PROVIDER.bind(self.service)], options)

    def _reset_soon(self) -> None:
        # In its own task: the call that triggers it is cut off too.
        if self._resetting is None or self._resetting.done():
            self._resetting = asyncio.get_running_loop().create_task(
                self.reset_connections(), name="fake connection reset"
            )

    def _everything(self) -> bytes:
        state = self.kit.state
        return listing(state.table.pieces(state.table.rows()), state.revision())

    async def _admit(self, machine_id: str) -> None:
        shape = next((self.kit.state.table.shape(row) for row in self.kit.state.table.rows().tolist()), None)
        if shape is not None:
            await self.add_slots([DescribedMachine(machine_id, shape)])

    async def add_slots(self, slots: list[DescribedMachine]) -> int:
        """Add machines; return how many of them were new and valid."""
        async with self._changing:
            self.backend.added = slots
            try:
                return (await self.kit.refresh()).added
            finally:
                self.backend.added = []
