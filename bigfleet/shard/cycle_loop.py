"""Runs cycles: reconcile, decide, apply the safety rails, dispatch.

Why: each step must see what the step before it left, and two cycles must never run at once.
Must never: wait for an operator or for an action, overlap, or end the process because of one bad cycle.
Rules: `shard#cycle`, `shard#wake-ups`; ADR-0003, ADR-0075.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from bigfleet.aio.clock import monotonic_s, timeout
from bigfleet.engine.verdicts import short_places
from bigfleet.model.action import Action
from bigfleet.model.decision import Decision
from bigfleet.model.errors import BigFleetError
from bigfleet.model.inventory import SnapshotMask
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.actuation import ActuationMode
from bigfleet.shard.core.attribution import attribution_lines
from bigfleet.shard.core.hold_off import HeldActions, HoldOffRules, hold_off, unmet_without
from bigfleet.shard.core.parking import ParkingLedger
from bigfleet.shard.core.pending_action import ACQUIRES, PendingAction
from bigfleet.shard.core.rails import cap_actions, cap_reclaims
from bigfleet.shard.core.shortfalls import ShortfallLedger, Unmet
from bigfleet.shard.core.views import CycleFacts, CycleView, HoldOff
from bigfleet.shard.core.waiting_needs import wanted_machines
from bigfleet.shard.cycle_planner import CycleInput, CyclePlan, CyclePlanner, configured_by_cluster
from bigfleet.shard.dispatcher import DRY_RUN, SUPPRESSED, ActionDispatcher
from bigfleet.shard.metrics import show_shortfalls
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.ownership_keeper import OwnershipKeeper
from bigfleet.shard.provider_link import ProviderLink
from bigfleet.shard.reconciler import Reconciler
from bigfleet.shard.session.rollup_intake import RollupIntake
from bigfleet.shard.session.sessions import Sessions
from bigfleet.wire import session_frames

_SLICE = 100  # frames or records made between two turns of the event loop
_PROBE_EVERY = 20
_INTERVALS_OF_PATIENCE = 2  # a need may wait so long before it counts as short
AGES_EVERY_S = 1.0
"""Woken cycles within this time of one that counted do not count in ages."""


class CyclesFailedError(BigFleetError):
    """Too many cycles in a row ended in a defect; the process ends, to be restarted."""


def woken_apart_s(duration_s: float, options: ShardOptions) -> float:
    """How long after the start of a cycle a woken one may start: twice its duration, within bounds."""
    return min(options.woken_apart_most_s, max(options.woken_apart_least_s, 2 * duration_s))


class CycleLoop:
    """Runs a cycle on every tick and, between ticks, when woken."""

    def __init__(
        self,
        context: ShardContext,
        *,
        intake: RollupIntake,
        sessions: Sessions,
        reconciler: Reconciler,
        dispatcher: ActionDispatcher,
        link: ProviderLink,
        on_cycle: Callable[[CycleView], None],
        ownership: OwnershipKeeper | None = None,
    ) -> None:
        self._options, self._guarded, self._actuation = context.options, context.guarded, context.actuation
        self._clock, self._steady, self._host = context.clock, context.steady, context.host
        self._backoffs, self._metrics, self._log = context.backoffs, context.metrics, context.log
        self._intake, self._sessions, self._reconciler = intake, sessions, reconciler
        self._dispatcher, self._link, self._on_cycle = dispatcher, link, on_cycle
        self._ownership = ownership
        self._planner = CyclePlanner(context.clock, context.options.available_capacity_interval_s)
        self._setbacks, self._mask, self._waiting = context.setbacks, SnapshotMask(), context.waiting
        self._parking, self._shortfalls = ParkingLedger(), ShortfallLedger()
        self._woken = asyncio.Event()
        self._listing_due = False
        self._aged_s = float("-inf")
        self._without_session: frozenset[str] = frozenset()
        self._outage_held: int | None = None  # actions held off in the last cycle of an outage
        self.number = 0
        self.deciding = False
        """Whether a cycle decides and acts now, so that whatever can wait for its end should (`shard#collection`)."""

    def wake(self, *, listing: bool = False) -> None:
        """Ask for a further cycle, with `listing` for one that lists; any number of requests collapse into one."""
        self._listing_due |= listing
        self._woken.set()

    def session_opened(self, cluster: str) -> None:
        """An operator connected: if acquisitions of its cluster were held off for that, decide again."""
        if cluster in self._without_session:
            self.wake()

    async def run(self) -> NoReturn:
        """Run cycles until cancelled; the first at once."""
        next_tick_s = self._now_s()
        failures = 0
        while True:
            began_s = self._now_s()
            tick = began_s >= next_tick_s or self._listing_due
            if tick:
                # Counted from now, so that missed ticks collapse into this one.
                next_tick_s = began_s + self._options.cycle_interval_s
                self._listing_due = False
            self._woken.clear()
            apart_s = self._options.woken_apart_most_s  # also after a failure
            try:
                view = await self.cycle(listing=tick)
                apart_s = woken_apart_s(view.facts.duration_s, self._options)
                failures = 0
            except Exception as error:
                failures += 1
                self._metrics.counter("bigfleet_shard_cycle_failures_total").inc()
                self._log.exception("cycle_failed", cycle=self.number, in_a_row=failures)
                if failures >= self._options.failed_cycles_in_a_row:
                    raise CyclesFailedError(
                        f"{failures} cycles in a row failed, the last one with {error!r}"
                    ) from error
            await self._wait(next_tick_s, began_s + apart_s)

    def _ages(self, began_s: float, *, tick: bool) -> bool:
        """Whether a cycle counts in the ages of ledgers: a tick, or a second after the last one that did."""
        if not tick and began_s < self._aged_s + AGES_EVERY_S:
            return False
        self._aged_s = began_s
        return True

    async def _wait(self, next_tick_s: float, not_before_s: float) -> None:
        """Wait for the tick or for a call of `wake`, but at least until `not_before_s`."""
        left_s = next_tick_s - self._now_s()
        if left_s <= 0:
            return
        try:
            async with timeout(self._clock, left_s):
                await self._woken.wait()
                early_s = not_before_s - self._now_s()
                if early_s > 0:
                    await self._clock.sleep(early_s)
        except TimeoutError:
            return

    async def cycle(self, *, listing: bool) -> CycleView:
        """Run one cycle; with `listing` it begins by listing the provider."""
        try:
            return await self._cycle(listing=listing)
        finally:
            self.deciding = False

    async def _cycle(self, *, listing: bool) -> CycleView:
        self.number += 1
        began_s = self._now_s()
        ages = self._ages(began_s, tick=listing)
        phases_s: dict[str, float] = {}
        mode = self._actuation.mode
        self._metrics.gauge("bigfleet_shard_actuation_paused").set(mode is ActuationMode.PAUSED)
        reconciled = await self._reconciler.reconcile() if listing else False
        if self._ownership is not None and self._reconciler.done_once:
            await self._ownership.tidy()
        phases_s["reconcile"] = self._now_s() - began_s

        before_s = self._now_s()
        self.deciding = True
        await self._guarded.compact_if_wasteful()
        inventory, now = await self._guarded.snapshot(), self._steady.now_s()
        given = CycleInput(
            snapshot=self._mask.without(inventory, self._setbacks.rows_left_out(inventory, now)),
            inventory=inventory,
            demand=self._intake.needs.demand(),
            parked=self._parking.parked(),
            reported=frozenset(self._intake.reported),
            holds=self._options.holds,
            now=now,
            sessions=tuple(sorted(self._sessions.clusters)),
            left=frozenset(self._sessions.take_left()),
        )
        phases_s["snapread"] = self._now_s() - before_s
        plan = await asyncio.to_thread(self._planner.plan, given)
        decision = plan.decision
        phases_s.update(plan.phases_s)
        short = short_places(decision.verdicts)
        self._parking.decided((decision.verdicts[place] for place in short), ages=ages)
        if self._options.phase_attribution_log and not self.number % _PROBE_EVERY:
            for event, fields in attribution_lines(given.snapshot, decision):
                self._log.info(event, **fields)

        before_s = self._now_s()
        await self._emit_hints(plan)
        phases_s["emit"] = self._now_s() - before_s

        before_s = self._now_s()
        facts, held = await self._dispatch_actions(given, decision, mode)
        phases_s["execute"] = self._now_s() - before_s

        waiting_since_s, not_accepted = self._wait_for_acceptance(given, decision, held, mode)
        self._shortfalls.decided(
            [
                *(Unmet(decision.verdicts[item.need].need, item.deficit) for item in decision.unresolved),
                *held.unmet,
                *not_accepted,
            ],
            ages=ages,
        )
        facts = replace(facts, duration_s=self._now_s() - began_s, phases_s=phases_s, reconciled=reconciled)
        view = replace(
            self._view(given, decision, facts), held_off=held.by_need, waiting_since_s=waiting_since_s
        )
        self._measure(view, plan)
        self._on_cycle(view)
        await self._host.charge("cycle", len(given.snapshot))
        return view

    # Hints and actions

    async def _emit_hints(self, plan: CyclePlan) -> None:
        for place, (cluster, profile, hint) in enumerate(plan.hints, start=1):
            session = self._sessions.get(cluster)
            if session is not None:
                frame = session_frames.available_capacity(
                    profile,
                    count=hint.count,
                    confidence=int(hint.confidence),
                    cost_per_hour=hint.cost_per_hour,
                    resources=hint.resources,
                )
                session.send(frame, session_frames.available_capacity_key(profile.fingerprint))
            if not place % _SLICE:
                await self._clock.sleep(0)

    async def _dispatch_actions(
        self, given: CycleInput, decision: Decision, mode: ActuationMode
    ) -> tuple[CycleFacts, HeldActions]:
        actions: Sequence[Action] = decision.actions
        if mode is not ActuationMode.RUN:
            self._show_held(HeldActions(()))
            await self._withhold(actions, mode)
            return CycleFacts(suppressed=len(actions)), HeldActions(())
        sessions = None if self._options.local_bootstrap else self._sessions.clusters
        rules = HoldOffRules(
            provider_reachable=self._link.reachable,
            sessions=sessions,
            blobs=self._backoffs,
            machines=self._setbacks.machines,
            now=given.now,
            settled=self._ownership is None or self._ownership.settled,
        )
        held = hold_off(decision, given.snapshot, rules)
        self._show_held(held)
        self._without_session = frozenset(
            decision.verdicts[place].need.cluster
            for place, reason in held.by_need.items()
            if reason is HoldOff.NO_SESSION
        )
        actions = held.admitted
        actions, capped = cap_reclaims(
            actions,
            self._options.reclaim_cap_fraction,
            configured_by_cluster(given.snapshot),
            self._dispatcher.pending_releases,
        )
        if capped:
            self._metrics.counter("bigfleet_shard_reclaims_capped_total").inc(capped)
            self._log.warning("reclaims_capped", cycle=self.number, capped=capped)
        actions, deferred = cap_actions(actions, self._options.max_actions_per_cycle)
        self._metrics.counter("bigfleet_shard_actions_deferred_total").inc(deferred)
        verdicts = decision.verdicts
        offered = await self._dispatcher.offer(
            PendingAction(action, None if action.need is None else verdicts[action.need].need, self.number)
            for action in actions
        )
        if deferred:
            self.wake()
        facts = CycleFacts(
            dispatched=tuple(offered.queued), capped=capped, deferred=deferred, backed_off=held.held
        )
        return facts, held

    def _wait_for_acceptance(
        self, given: CycleInput, decision: Decision, held: HeldActions, mode: ActuationMode
    ) -> tuple[Mapping[int, float], tuple[Unmet, ...]]:
        """Since when needs wait for the provider to accept a machine, and what those lack that wait for too long."""
        if mode is ActuationMode.DRY_RUN:
            return {}, ()
        wanted = wanted_machines(decision, self._dispatcher.awaited())
        keys = {place: decision.verdicts[place].need.key for place in wanted}
        since_s = self._waiting.decided(keys.values(), given.now)
        by_place = {place: since_s[key] for place, key in keys.items()}
        patience_s = _INTERVALS_OF_PATIENCE * self._options.cycle_interval_s
        late = {
            place: wanted[place]
            for place, began in by_place.items()
            if given.now - began >= patience_s and place not in held.by_need
        }
        return by_place, unmet_without(decision, given.inventory, late) if late else ()

    def _show_held(self, held: HeldActions) -> None:
        """Show what is held off; an outage of the provider is logged and audited at its beginning and its end only."""
        for reason in HoldOff:
            self._metrics.gauge("bigfleet_shard_actions_held_off", reason=reason.value).set(
                held.counts.get(reason, 0)
            )
        self._metrics.counter("bigfleet_shard_acquisitions_held_off_total").inc(
            held.counts.get(HoldOff.BLOB_BACK_OFF, 0)
        )
        reason = HoldOff.PROVIDER_UNREACHABLE
        count = held.counts.get(reason, 0)
        if self._outage_held is None and count:
            self._log.warning("actions_held_off", cycle=self.number, reason=reason.value, count=count)
            self._dispatcher.audit_hold_off(reason.value, "began", count)
            self._outage_held = count
        elif self._outage_held is not None and not self._link.reachable:
            self._outage_held = count
        elif self._outage_held is not None:
            count, self._outage_held = self._outage_held, None
            self._log.warning("actions_released", cycle=self.number, reason=reason.value, count=count)
            self._dispatcher.audit_hold_off(reason.value, "ended", count)

    async def _withhold(self, actions: Sequence[Action], mode: ActuationMode) -> None:
        """Count and audit actions that are decided and not carried out."""
        paused = mode is ActuationMode.PAUSED
        if paused and actions:
            self._log.warning("actions_suppressed", cycle=self.number, count=len(actions))
        for place, action in enumerate(actions, start=1):
            if paused:
                self._metrics.counter("bigfleet_shard_actions_suppressed_total", kind=action.kind.value).inc()
            else:
                self._metrics.counter("bigfleet_shard_actions_dryrun_total", kind=action.kind.value).inc()
                self._log.info(
                    "dry_run",
                    kind=action.kind.value,
                    machine=action.machine_id,
                    cluster=action.cluster or "",
                    reason=action.reason,
                    grace_s=action.grace_s or 0,
                )
            self._dispatcher.audit(action, SUPPRESSED if paused else DRY_RUN, decided=self.number)
            if not place % _SLICE:
                await self._clock.sleep(0)

    # View and metrics

    def _view(self, given: CycleInput, decision: Decision, facts: CycleFacts) -> CycleView:
        return CycleView(
            number=self.number,
            computed_at_ns=self._steady.now_ns(),
            now=given.now,
            snapshot=given.snapshot,
            demand=given.demand,
            decision=decision,
            parked=given.parked,
            parked_ages=dict(self._parking.ages),
            unmet_ages=self._shortfalls.ages,
            shortfalls=self._shortfalls.in_order(),
            bootstrap_backoffs=self._backoffs.views(),
            reported_clusters=given.reported,
            sessions=self._sessions.clusters,
            holds=given.holds,
            facts=facts,
            inventory=None if given.snapshot is given.inventory else given.inventory,
            cool_offs=self._setbacks.offerings.views(),
            machine_backoffs=self._setbacks.machines.views(given.now),
        )

    def _measure(self, view: CycleView, plan: CyclePlan) -> None:
        metrics = self._metrics
        metrics.replace("bigfleet_shard_inventory_machines", plan.inventory)
        demand = {(bucket,): rows for bucket, rows in self._intake.rows_by_bucket.items()}
        metrics.replace("bigfleet_shard_demand_machines", demand)
        show_shortfalls(metrics, view.shortfalls)
        metrics.gauge("bigfleet_shard_offering_cool_offs").set(len(view.cool_offs))
        metrics.gauge("bigfleet_shard_provider_unreachable_seconds").set(self._link.state().unreachable_for_s)
        acquired = {action.need for action in plan.decision.actions if action.kind in ACQUIRES}
        # With one deciding thread no proposal ever conflicts.
        metrics.counter("bigfleet_shard_phase1_occ_proposals_total", outcome="committed").inc(len(acquired))
        if view.shortfalls:
            first = [entry.profile.fingerprint for entry in view.shortfalls[:3]]
            self._log.warning("shortfalls", cycle=view.number, count=len(view.shortfalls), first=first)
        if self.number > self._options.metrics_warmup_cycles:
            metrics.histogram("bigfleet_shard_cycle_duration_seconds").observe(view.facts.duration_s)
            for phase, seconds in view.facts.phases_s.items():
                metrics.histogram("bigfleet_shard_cycle_phase_duration_seconds", phase=phase).observe(seconds)

    def _now_s(self) -> float:
        return monotonic_s(self._clock)
