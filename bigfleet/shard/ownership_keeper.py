"""Keeps what a shard owns of a provider that it shares: takes instructions, stores the file, forgets what is let go.

Why: the file must be on disk before the coordinator hears of a change, since another shard acts on what it hears.
Must never: use or report a change that is not stored, or wait between looking at machines and giving them away.
Rules: `coordinator#ownership-file`, `coordinator#partition-mode`, `coordinator#leaving-domain`, `coordinator#ownership-view`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from bigfleet.aio.clock import monotonic_s
from bigfleet.aio.disk import DiskError
from bigfleet.model.instruction import (
    PAYLOAD_KINDS,
    Outcome,
    Payload,
    ReassignSpeculative,
    Ruling,
    TransferOwnership,
)
from bigfleet.model.ownership import Claim, Ownership
from bigfleet.model.shard_report import OwnershipView
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.move_rulings import KnownMachine, rule_on_move
from bigfleet.shard.core.ownership_rulings import domains_left, lets_go, rule_on_domain
from bigfleet.shard.core.ownership_survey import survey
from bigfleet.shard.ownership_file import OwnershipFile

SESSIONS_BACK_S: Final = 120.0
"""How long after its start a shard keeps the domains it was leaving: a bound machine without a mark is known again only
once its cluster has connected."""
_SLICE = 100  # machines forgotten between two turns of the event loop


class OwnershipKeeper:
    """The ownership of one shard, and the machines it follows from."""

    def __init__(
        self,
        context: ShardContext,
        file: OwnershipFile,
        *,
        clusters: Callable[[], frozenset[str]],
        is_pending: Callable[[str], bool],
        forget: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """`clusters` are connected; a machine that `is_pending` has an action; `forget` drops one that was let go.

        `changed` is called when the shard may own more or less than before.
        """
        self._guarded, self._clock = context.guarded, context.clock
        self._metrics, self._log = context.metrics, context.log
        self._shard_id, self._file = context.options.shard_id, file
        self._clusters, self._is_pending = clusters, is_pending
        self._forget, self._changed = forget, changed
        self._ownership = file.load()
        self._started_s = monotonic_s(self._clock)
        self._surveyed = False
        self.revision = 0
        """Rises with every change."""
        if file.problem:
            self._log.error("ownership_file_damaged", problem=file.problem)
        self._show()

    # For listings

    @property
    def key(self) -> str:
        return self._ownership.key

    @property
    def settled(self) -> bool:
        """Whether the shard knows all it owns."""
        return self._ownership.settled

    def claim(self, machine_id: str, value: str | None, *, bound: bool) -> Claim:
        return self._ownership.claim(machine_id, value, bound=bound)

    def bound_here(self, owner_shard: str, cluster: str) -> bool:
        return owner_shard == self._shard_id or (not owner_shard and cluster in self._clusters())

    # For the coordinator client

    def view(self) -> OwnershipView:
        """Return what the coordinator is told."""
        return self._ownership.view()

    async def available(self) -> None:
        """Wait until machines may be looked at; what follows without waiting is one step."""
        await self._guarded.available()

    def obey(self, payloads: Sequence[Payload]) -> list[Ruling]:
        """Carry out the instructions of one answer; the change is on disk when this returns."""
        draft = self._ownership.copy()
        rulings = [self._rule(draft, payload) for payload in payloads]
        if draft == self._ownership:
            return rulings
        try:
            self._file.store(draft)
        except DiskError as error:
            self._log.error("ownership_not_stored", problem=str(error))
            failed = Ruling(Outcome.FAILED, str(error))
            return [failed if ruling.outcome is Outcome.ACCEPTED else ruling for ruling in rulings]
        self._use(draft)
        for machine_id in draft.released:
            if machine_id in self._guarded.inventory:
                self._let_go(machine_id)
        return rulings

    def _rule(self, draft: Ownership, payload: Payload) -> Ruling:
        if isinstance(payload, TransferOwnership | ReassignSpeculative):
            return rule_on_move(draft, self._shard_id, payload, self)
        return rule_on_domain(draft, payload) or _not_built(payload)

    @property
    def listed(self) -> bool:
        """Whether the provider was listed since the start, and what the shard holds compared with it."""
        return self._surveyed

    def known(self, machine_id: str) -> KnownMachine | None:
        """A machine of the inventory."""
        if machine_id not in self._guarded.inventory:
            return None
        machine = self._guarded.inventory.get(machine_id)
        return KnownMachine(machine.state, machine.shape.label(self.key), self._is_pending(machine_id))

    def synchronised(self) -> None:
        """The coordinator had nothing to add to what the shard says it owns."""
        # Before its first listing the shard cannot know what it bound, and its view does not show it.
        if self.settled or not self._surveyed:
            return
        draft = self._ownership.copy()
        draft.settled = True
        if self._stored(draft):
            self._log.info("ownership_settled", domains=len(draft.domains), leaving=len(draft.leaving))

    # For the cycle

    async def tidy(self) -> None:
        """Forget free machines that are no longer the shard's, then the domains in which nothing is left.

        Called after a full listing was applied at least once.
        """
        found = survey(await self._guarded.snapshot(), self._ownership)
        for place, machine_id in enumerate(found.let_go, start=1):
            await self._guarded.available()
            self._let_go(machine_id)
            if not place % _SLICE:
                await self._clock.sleep(0)
        # Once more: machines with an action under way have stayed.
        left = survey(await self._guarded.snapshot(), self._ownership) if found.let_go else found
        held = set(left.held)
        if monotonic_s(self._clock) - self._started_s < SESSIONS_BACK_S:
            held |= self._ownership.leaving
        draft = self._ownership.copy()
        if domains_left(draft, held) and not self._stored(draft):
            return
        if not self._surveyed:
            self._surveyed = True
            self.revision += 1  # only an answer to this view may settle the shard

    def _let_go(self, machine_id: str) -> None:
        inventory = self._guarded.inventory
        if machine_id not in inventory or self._is_pending(machine_id):
            return
        machine = inventory.get(machine_id)
        if lets_go(self._ownership, machine_id, machine.shape.label(self.key), machine.state):
            self._forget(machine_id)
            self._metrics.counter("bigfleet_shard_machines_let_go_total").inc()

    def _stored(self, draft: Ownership) -> bool:
        try:
            self._file.store(draft)
        except DiskError as error:
            self._log.error("ownership_not_stored", problem=str(error))
            return False
        self._use(draft)
        return True

    def _use(self, draft: Ownership) -> None:
        self._ownership = draft
        self.revision += 1
        self._show()
        self._changed()

    def _show(self) -> None:
        owned = self._ownership
        self._metrics.gauge("bigfleet_shard_ownership_settled").set(owned.settled)
        for kind, count in (("owned", len(owned.domains)), ("leaving", len(owned.leaving))):
            self._metrics.gauge("bigfleet_shard_domains", kind=kind).set(count)
        for kind, count in (("adopted", len(owned.adopted)), ("released", len(owned.released))):
            self._metrics.gauge("bigfleet_shard_moved_machines", kind=kind).set(count)


def _not_built(payload: Payload) -> Ruling:
    kind = PAYLOAD_KINDS[type(payload)]
    return Ruling(Outcome.REJECTED_INVALID, f"{kind}: this version drains no machine for another shard")
