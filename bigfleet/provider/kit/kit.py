"""The provider kit: turns a backend into a provider.

Must never: serve before its state is read and its inventory validated, or continue once its store cannot be written.
Rules: `providers#kit`.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import NANOSECONDS, Clock, SteadyWall, SystemClock
from bigfleet.aio.disk import AnyPath
from bigfleet.aio.ids import Ids, SystemIds
from bigfleet.aio.net import Net, RpcServer, ServeOptions
from bigfleet.aio.rng import Rng, SystemRng
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.model.machine import MachineState
from bigfleet.model.times import rfc3339_of_s
from bigfleet.obs.connections import connection_report
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.contract import IDLE_CONNECTION_S, SERVICE
from bigfleet.provider.errors import OutOfPositionError, ProviderError
from bigfleet.provider.kit.admin import AdminSocket
from bigfleet.provider.kit.admission import CallerRules
from bigfleet.provider.kit.audit import RepairAudit, RepairAuditLog
from bigfleet.provider.kit.backend import Backend, Deletes, KnowsReadiness, SubstrateEvent
from bigfleet.provider.kit.core.calls import CallRules
from bigfleet.provider.kit.core.changes import PutMachine
from bigfleet.provider.kit.core.state import MachineEntry, ProviderState
from bigfleet.provider.kit.core.transitions import repair
from bigfleet.provider.kit.core.values import MachineRecord, Timestamp
from bigfleet.provider.kit.encoding import RecordCodec
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.listening import make_net, show_exposure
from bigfleet.provider.kit.observer import ProviderObserver
from bigfleet.provider.kit.refresh import Refreshed
from bigfleet.provider.kit.reset_marks import checked_reset
from bigfleet.provider.kit.running import KitDependencies, RunningProvider
from bigfleet.provider.kit.service import ProviderService
from bigfleet.provider.kit.state_files import read_state
from bigfleet.provider.kit.store import StateStore
from bigfleet.provider.methods import PROVIDER
from bigfleet.provider.metrics import PROVIDER_METRICS
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.probes import serve_probes
from bigfleet.transport.tls import TlsFiles
from bigfleet.version import __version__

STOP_GRACE_S = 10.0


class NotStartedError(BigFleetError):
    """The kit was used before `start` or after `stop`."""

    def __init__(self) -> None:
        super().__init__("the provider kit is not running; call start first")


class ProviderKit:
    """One provider: `start`, `listen` on one or more addresses, `stop`; `serve` does all three."""

    def __init__(
        self,
        backend: Backend,
        *,
        store: StateStore,
        name: str,
        limits: Limits | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        ids: Ids | None = None,
        net: Net | None = None,
        metrics: Metrics | None = None,
        log: FilteringBoundLogger | None = None,
        audit: RepairAudit | None = None,
        synchronous: bool = False,
        offer_delete: bool = True,
        require_fencing: bool | None = None,
        require_shard_san: bool | None = None,
    ) -> None:
        """Seams that are not given are those of a real process.

        `synchronous` answers a call only when its operation has ended. `offer_delete=False` refuses Delete although the
        backend has it. Under TLS only shards may call, each in its own name, and mutating calls need a fencing token, unless
        `require_shard_san` or `require_fencing` is False; True requires a token of plaintext callers too.
        """
        if not name:
            raise InvalidFieldError("name", name, "a text that is not empty")
        self.name, self.limits, self.backend = name, limits or Limits(), backend
        self.clock = clock or SystemClock()
        self.log: FilteringBoundLogger = log or structlog.get_logger("bigfleet.provider")
        self._store, self._ids, self._net = store, ids or SystemIds(), net
        self._audit = audit or RepairAuditLog(self.log)
        self._metrics = metrics or _private_metrics()
        self._wall = SteadyWall(self.clock)
        self._dependencies = KitDependencies(
            backend=backend,
            store=store,
            limits=self.limits,
            clock=self.clock,
            rng=rng or SystemRng(),
            log=self.log,
            observer=ProviderObserver(self._metrics, self.log),
            rules=CallRules(
                offer_delete and isinstance(backend, Deletes), max_epoch_step=self.limits.max_epoch_step
            ),
            now=self.now,
            synchronous=synchronous,
            admission=CallerRules(require_shard_san, require_fencing),
        )
        self._servers: list[RpcServer] = []
        self._running: RunningProvider | None = None

    async def start(self) -> None:
        """Read the state, validate and take over what the backend describes, and start the loops."""
        try:
            state, found = await read_state(self._store, RecordCodec(self.name), self._ids, self.clock)
            self._store.observe_syncs(self._dependencies.observer.synced)
            running = RunningProvider(self._dependencies, state)
            await running.settle(found=found)
        except BaseException:
            await self._store.close()
            raise
        running.begin()
        self._running = running
        if not isinstance(self.backend, KnowsReadiness):
            why = "the backend has no node_ready, so the end of configure counts as Ready"
            self.log.warning("readiness_not_checked", provider=self.name, why=why)
        self.log.info("provider_started", provider=self.name, machines=len(state.table), revision=state.head)

    async def listen(
        self, address: str, *, service: object | None = None, net: Net | None = None
    ) -> RpcServer:
        """Serve the six calls on an address, with health and reflection; `service` replaces the kit's own."""
        chosen = net or self._net or GrpcNet()
        server = await chosen.serve(address, [PROVIDER.bind(service or self.service)], self.serve_options())
        self._servers.append(server)
        return server

    async def serve(
        self,
        address: str,
        *,
        tls: TlsFiles | None = None,
        until: Awaitable[object] | None = None,
        metrics_address: str = "0",
        admin_socket: AnyPath | None = None,
    ) -> None:
        """Start and listen; stop when `until` is done, when cancelled, or when the store fails, which raises its error.

        `metrics_address` serves metrics and probes over HTTP, `0` turns that off. `admin_socket` is the socket file for
        `bigfleet provider-admin repair`; without it Failed machines cannot be repaired.
        """
        report = connection_report(self._metrics, self.log, self.clock)
        net = self._net or make_net(tls, self._dependencies.admission, report, self.log)
        if self._net is None:  # of another net it is not known whether it has certificates
            show_exposure(address, self._metrics, self.log, secured=tls is not None)
        not_ready = ["starting"]
        async with AsyncExitStack() as stack:
            probes = await serve_probes(
                metrics_address, metrics_text(self._metrics.registry), lambda: not_ready, report=report
            )
            if probes is not None:
                stack.push_async_callback(probes.stop)
            await self.start()
            stack.push_async_callback(self.stop)
            if admin_socket is not None:
                admin = AdminSocket(self, admin_socket)
                await admin.open()
                stack.push_async_callback(admin.close)
            server = await self.listen(address, net=net)
            ports = (
                {"port": server.port}
                if probes is None
                else {"port": server.port, "metrics_port": probes.port}
            )
            self.log.info("listening", **ports)
            not_ready.clear()
            await self._wait(until)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Finish running calls, cancel operations, close the store; may be called twice."""
        servers, self._servers = self._servers, []
        for server in servers:
            await server.stop(grace_s)
        running, self._running = self._running, None
        if running is not None:
            await running.stop(grace_s)
        await self._store.close()

    # For programs that serve it another way, wrap it, or read its state.

    @property
    def service(self) -> ProviderService:
        return self._require_running().service

    def serve_options(self) -> ServeOptions:
        """Return how a server for this provider must be set up."""
        return ServeOptions(
            max_message_bytes=self.limits.max_message_bytes,
            max_connection_idle_s=IDLE_CONNECTION_S,
            reflection=True,
        )

    @property
    def state(self) -> ProviderState:
        """The records, for reading only."""
        return self._require_running().state

    def machine(self, machine_id: str) -> MachineRecord | None:
        """Return one record, None when the id is unknown."""
        entry = self.state.entry(machine_id)
        return entry.machine if entry else None

    @property
    def tasks(self) -> int:
        """How many tasks work on operations, including backend calls that outlived their timeout."""
        return self._require_running().workers.count

    # Changes of a machine without a call.

    async def refresh(self) -> Refreshed:
        """Ask the backend to describe its machines now."""
        return await self._require_running().refresh()

    async def report_event(self, event: SubstrateEvent) -> bool:
        """Apply an event of one machine, a loss or a price; False if it changes nothing or is invalid."""
        return await self._require_running().report_event(event)

    async def repair(self, machine_id: str, to: MachineState, who: str) -> None:
        """Repair a Failed machine for an operator, with an audit line before and after; the only way out of Failed."""
        line = {"action": "repair", "machine": machine_id, "to": to.label, "who": who}
        await self._audit.record({"time": self.now().text, **line, "outcome": "asked"})
        running = self._require_running()

        def decide(entry: MachineEntry) -> PutMachine:
            answer = repair(running.state, entry, to)
            if isinstance(answer, str):
                raise OutOfPositionError("repair", machine_id, answer)
            return answer

        try:
            await running.change(machine_id, decide)
        except ProviderError as error:
            await self._audit.record({"time": self.now().text, **line, "outcome": f"refused: {error.detail}"})
            raise
        await self._audit.record({"time": self.now().text, **line, "outcome": "done"})

    async def reset_marks(self, shard_id: str, epoch: int, who: str) -> int:
        """Lower the fence marks of a shard above an epoch, for an operator, with an audit line before and after.

        `epoch` is the one that the right process of the shard has. Returns how many marks were above it.
        """
        change = checked_reset(shard_id, epoch)
        line = {"action": "reset-marks", "shard": shard_id, "epoch": epoch, "who": who}
        await self._audit.record({"time": self.now().text, **line, "outcome": "asked"})
        try:
            lowered = await self._require_running().lower_marks(change)
        except ProviderError as error:
            await self._audit.record({"time": self.now().text, **line, "outcome": f"refused: {error.detail}"})
            raise
        await self._audit.record({"time": self.now().text, **line, "lowered": lowered, "outcome": "done"})
        return lowered

    def now(self) -> Timestamp:
        """Return the time for tombstones and audit lines."""
        seconds = self._wall.now_ns() // NANOSECONDS
        return Timestamp(seconds, rfc3339_of_s(seconds))

    def _require_running(self) -> RunningProvider:
        if self._running is None:
            raise NotStartedError
        return self._running

    async def _wait(self, until: Awaitable[object] | None) -> None:
        stop = (
            asyncio.ensure_future(until) if until is not None else asyncio.get_running_loop().create_future()
        )
        broken = asyncio.ensure_future(self._store.wait_failure())
        try:
            await asyncio.wait([stop, broken], return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                for server in self._servers:
                    server.health.set_serving(SERVICE, False)
                raise broken.result()
        finally:
            stop.cancel()
            broken.cancel()


def _private_metrics() -> Metrics:
    return Metrics(PROVIDER_METRICS, CollectorRegistry(), version=__version__, commit="unknown")
