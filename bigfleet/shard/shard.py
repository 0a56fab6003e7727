"""One shard, built from options and seams.

Why: `bigfleet shard`, all-in-one and tests on virtual time run the same shard; only the seams differ.
Must never: listen; it offers services, and the caller serves them.
Rules: `shard#static-stability`, `shard#start-and-stop`, `shard#readiness`, `shard#fenced`, `shard#stopping`,
`shard#in-process-fake`.

    shard = Shard(options, seams, provider=client, epoch=7, metrics=metrics, log=log)
    server = await seams.net.serve(":7780", shard.services())
    await shard.run()          # until cancelled, or until a defect ends it
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import SteadyWall
from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.aio.seams import Seams
from bigfleet.aio.service import BoundService
from bigfleet.model.machine import Machine, MachineState
from bigfleet.obs.audit import Audit, NoAudit
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.client import ProviderClient
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.actuation import Actuation, ActuationMode
from bigfleet.shard.core.bootstrap_backoff import BootstrapBackoffs
from bigfleet.shard.core.latency import FirstSeen
from bigfleet.shard.core.setbacks import Setbacks
from bigfleet.shard.core.views import CycleView, ProviderHealth, ShardStatus, StateChange, TermMark
from bigfleet.shard.core.waiting_needs import WaitingNeeds
from bigfleet.shard.cycle_loop import CycleLoop
from bigfleet.shard.dispatcher import ActionDispatcher
from bigfleet.shard.executor import Executor
from bigfleet.shard.guarded_inventory import GuardedInventory
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.ownership_file import OwnershipFile
from bigfleet.shard.ownership_keeper import OwnershipKeeper
from bigfleet.shard.provider_link import ProviderLink
from bigfleet.shard.reconciler import Reconciler
from bigfleet.shard.session.rollup_intake import RollupIntake
from bigfleet.shard.session.service import SessionService
from bigfleet.shard.session.sessions import Sessions
from bigfleet.shard.transition_poller import TransitionPoller
from bigfleet.transport.address import PLAINTEXT
from bigfleet.wire.session_frames import acknowledgement

FIRST_RECONCILE = "the provider has not been listed yet"
UNSETTLED = "this shard does not know yet which machines of its provider are its own, and starts nothing: it waits for the coordinator"
IN_PROCESS_FAKE = "the provider is the fake inside this process; no machine is real"


class Shard:
    """A shard that does not listen yet."""

    def __init__(
        self,
        options: ShardOptions,
        seams: Seams,
        *,
        provider: ProviderClient,
        epoch: int,
        metrics: Metrics,
        log: FilteringBoundLogger,
        audit: Audit | None = None,
        ownership: OwnershipFile | None = None,
    ) -> None:
        """With an ownership file the shard shares its provider with others and owns what the file says."""
        self.options, self.epoch, self._log = options, epoch, log
        self.steady = steady = SteadyWall(seams.clock)
        self._started_at_ns = steady.now_ns()
        self.term = TermMark()
        self._audit = audit or NoAudit()
        self.actuation = Actuation(
            paused=options.actuation_paused, dry_run=options.dry_run, audit_strict=options.audit_strict
        )
        context = ShardContext(
            options=options,
            clock=seams.clock,
            steady=steady,
            host=seams.host,
            ids=seams.ids,
            rng=seams.rng,
            guarded=GuardedInventory(),
            actuation=self.actuation,
            backoffs=BootstrapBackoffs(),
            setbacks=Setbacks(),
            waiting=WaitingNeeds(),
            first_seen=FirstSeen(),
            metrics=metrics,
            log=log,
        )
        self._guarded = context.guarded
        self.inventory = context.guarded.inventory
        self.sessions = Sessions(context, self._acknowledge)
        self.intake = RollupIntake(context, self.wake)
        self.link = ProviderLink(context, provider, on_lost=self.wake, on_back=self._list_now)
        self._executor = Executor(
            context,
            provider=self.link,
            sessions=self.sessions,
            stopping=lambda: self.dispatcher.stopping,
            reported=self._reported,
            wake=self.wake,
        )
        self.dispatcher = ActionDispatcher(
            context, self._executor, audit=self._audit, cycle=lambda: self.loop.number, wake=self.wake
        )
        self.ownership: OwnershipKeeper | None = None
        if ownership is not None:
            self.ownership = OwnershipKeeper(
                context,
                ownership,
                clusters=lambda: self.sessions.clusters,
                is_pending=self.dispatcher.is_pending,
                forget=self._forget,
                changed=self._list_now,
            )
        self.reconciler = Reconciler(
            context,
            provider=self.link,
            dispatcher=self.dispatcher,
            sessions=self.sessions,
            configured=self._executor.configured,
            on_late=self._list_now,
            claims=self.ownership,
        )
        self.poller = TransitionPoller(
            context,
            provider=self.link,
            dispatcher=self.dispatcher,
            reconciler=self.reconciler,
            wake=self.wake,
        )
        self.reconciler.before_listing = self.poller.give_way
        self.loop = CycleLoop(
            context,
            intake=self.intake,
            sessions=self.sessions,
            reconciler=self.reconciler,
            dispatcher=self.dispatcher,
            link=self.link,
            ownership=self.ownership,
            on_cycle=self._completed,
        )
        self.sessions.on_installed = self.loop.session_opened
        self._service = SessionService(
            context, self.sessions, self.intake, may_open=lambda: not self.dispatcher.stopping
        )
        self._last: CycleView | None = None
        self._newer = asyncio.Event()  # set and replaced after each cycle

    def services(self) -> tuple[BoundService, ...]:
        """The services that operators dial."""
        return (self._service.bound(),)

    def wake(self) -> None:
        """Request another cycle."""
        self.loop.wake()

    def _reported(self, record: Machine) -> None:
        self.reconciler.reported(record)

    def _forget(self, machine_id: str) -> None:
        self.reconciler.forget(machine_id)

    def _list_now(self) -> None:
        self.loop.wake(listing=True)

    async def run(self) -> NoReturn:
        """Run cycles, workers and probes until cancelled; only a defect ends it otherwise."""
        if self.options.actuation_paused:
            self._log.warning("actuation_paused", why="--actuation-paused")
        elif self.options.dry_run:
            self._log.info("dry_run_mode", why="--dry-run")
        self.dispatcher.start()
        loop = asyncio.get_running_loop()
        parts = (
            loop.create_task(self.link.run(), name="provider link"),
            loop.create_task(self.loop.run(), name="cycles"),
            loop.create_task(self.poller.run(), name="transition polls"),
        )
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                if part.done():
                    part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
        raise AssertionError("the parts of a shard do not end")

    async def stop(self, grace_s: float) -> None:
        """Start nothing new, roll back what waits for a blob, give running calls their grace; nothing is drained."""
        self.dispatcher.stopping = True
        self.sessions.give_up_waiting("the shard is stopping")
        await self.dispatcher.stop(grace_s)
        await self.reconciler.stop()
        self.sessions.end_all(RpcRefusedError(Code.UNAVAILABLE, "the shard is stopping"))
        self._audit.close()

    def last_cycle(self) -> CycleView | None:
        """The last complete cycle; None before the first."""
        return self._last

    async def cycle_after(self, seen: CycleView | None) -> CycleView:
        """Wait for a cycle other than the one seen, and return the last one."""
        while self._last is None or self._last is seen:
            await self._newer.wait()
        return self._last

    def not_ready(self) -> tuple[str, ...]:
        """Why the shard is not ready: the provider was not listed yet, or the shard paused itself (`shard#readiness`)."""
        unlisted = () if self.reconciler.done_once else (FIRST_RECONCILE,)
        return (*unlisted, *self.actuation.not_ready())

    def remarks(self) -> tuple[str, ...]:
        """Warnings for people although the shard is ready."""
        fake = () if self.options.provider_address else (IN_PROCESS_FAKE,)
        exposed = (PLAINTEXT,) if self.options.plaintext_exposed else ()
        unsettled = (UNSETTLED,) if self.ownership is not None and not self.ownership.settled else ()
        return (*fake, *exposed, *unsettled, *self.actuation.remarks())

    def status(self) -> ShardStatus:
        """The present status."""
        not_ready = self.not_ready()
        return ShardStatus(
            shard_id=self.options.shard_id,
            epoch=self.epoch,
            advertise_address=self.options.advertise_address,
            provider_address=self.options.provider_address,
            partition_key="" if self.ownership is None else self.ownership.key,
            started_at_ns=self._started_at_ns,
            cycle=self.loop.number,
            ready=not not_ready,
            not_ready=not_ready,
            remarks=self.remarks(),
            paused=self.actuation.mode is ActuationMode.PAUSED,
            dry_run=self.options.dry_run,
            sessions=len(self.sessions),
            queued=self.dispatcher.queued,
            in_flight=self.dispatcher.in_flight,
            now_ns=self.steady.now_ns(),
            provider=self.provider_state(),
        )

    def provider_state(self) -> ProviderHealth:
        """The provider as this shard sees it now."""
        doubted_for_s, missing = self.reconciler.doubted or (None, 0)
        return replace(
            self.link.state(),
            last_listing_age_s=self.reconciler.listing_age_s(),
            doubted_for_s=doubted_for_s,
            doubted_missing=missing,
        )

    def is_accepted(self, machine_id: str) -> bool:
        """Whether the provider has acknowledged the last call for the machine, or listed its result."""
        return self.dispatcher.is_accepted(machine_id)

    def take_changes(self, until_s: float) -> list[StateChange]:
        """The changes of state that actions made until a moment, oldest first; each is returned once."""
        return self._executor.take_changes(until_s)

    async def live_states(self, machine_ids: Sequence[str]) -> dict[str, MachineState | None]:
        """The present states of some machines; None for one that is not known."""
        await self._guarded.available()
        return {machine_id: self.inventory.state_of(machine_id) for machine_id in machine_ids}

    def _completed(self, view: CycleView) -> None:
        self._last = view
        newer, self._newer = self._newer, asyncio.Event()
        newer.set()

    def _acknowledge(self, echo: str, problem: str) -> bytes:
        return acknowledgement(echo, term=self.term.value, epoch=self.epoch, problem=problem)
