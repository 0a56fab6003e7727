"""Asks the provider for machines in transition between two ticks, so that one that became Idle is used at once.

Why: a tick comes every ten seconds, and a machine that somebody waits for should not stay unused for that long.
How: one listing of changes since the last answer. A provider without cursors, or one that answers in full, is asked by `Get` for
some of the machines at a time. Ticks list as they would without polls, so a poll may leave anything to them.
Must never: ask while nothing is in transition, the provider is unreachable or a listing is under way; have more than one poll in
flight; or end the process.
Rules: `shard#transition-polls`; ADR-0276.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

import numpy as np

from bigfleet.aio.clock import monotonic_s
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import Rows
from bigfleet.provider.errors import NeverSentError, OutcomeUnknownError, ProviderError
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.poll_pace import PollPace
from bigfleet.shard.core.reconcile import IN_TRANSITION
from bigfleet.shard.dispatcher import ActionDispatcher
from bigfleet.shard.provider_link import ProviderLink
from bigfleet.shard.reconciler import Reconciler

GETS: Final = 32
"""Most machines that one poll asks for by `Get`."""
_GETS_AT_ONCE: Final = 8
_FULL_FROM: Final = 1000  # below this number of machines a full answer costs as little as a partial one
DISTRUST_S: Final = 600.0
"""For how long a provider that answered a request for changes in full is asked by `Get`."""


class TransitionPoller:
    """Polls one provider."""

    def __init__(
        self,
        context: ShardContext,
        *,
        provider: ProviderLink,
        dispatcher: ActionDispatcher,
        reconciler: Reconciler,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called after a change on which the next cycle may decide otherwise."""
        options = context.options
        self._interval_s, self._timeout_s = options.transition_poll_interval_s, options.list_timeout_s
        self._pace = PollPace(self._interval_s, options.cycle_interval_s)
        self._guarded, self._clock = context.guarded, context.clock
        self._metrics, self._log = context.metrics, context.log
        self._jitter = context.rng.stream("transition polls")
        self._provider, self._dispatcher, self._reconciler = provider, dispatcher, reconciler
        self._wake = wake
        self._polling: asyncio.Task[bool] | None = None
        self._applying = False
        self._asked_s = 0.0
        self._cursor, self._after_listing = b"", 0
        self._distrusted_until_s = float("-inf")
        self._last_row = -1  # that was asked for by Get

    async def run(self) -> NoReturn:
        """Poll until cancelled; with an interval of 0, never."""
        if not self._interval_s:
            await asyncio.Event().wait()
        took_s = 0.0
        while True:
            await self._clock.sleep(self._pace.wait_s(took_s, self._jitter.random()))
            began_s = self._now_s()
            if await self._due():
                await self._one_poll()
            took_s = self._now_s() - began_s

    async def give_way(self) -> None:
        """Return when no poll is in flight: one that waits for an answer is given up, one that applies it ends first."""
        polling = self._polling
        if polling is None:
            return
        if not self._applying:
            polling.cancel()
        await asyncio.wait([polling])

    async def _due(self) -> bool:
        """Whether any machine is in transition and this is a time to ask."""
        await self._guarded.available()
        reconciler = self._reconciler
        if not reconciler.done_once or reconciler.listing or not self._provider.reachable:
            return False
        return bool(self._guarded.inventory.in_states(IN_TRANSITION).size)

    async def _one_poll(self) -> None:
        self._asked_s = self._now_s()
        self._polling = asyncio.get_running_loop().create_task(self._poll(), name="transition poll")
        try:
            await asyncio.wait([self._polling])
            self._note_end(self._polling)
        finally:
            if not self._polling.done():  # the shard is stopping
                self._polling.cancel()
                await asyncio.wait([self._polling])
            self._polling = None

    def _note_end(self, polled: "asyncio.Task[bool]") -> None:
        if polled.cancelled():
            # A listing was due. It is no sign of trouble if the poll had just begun.
            worked = self._now_s() - self._asked_s < self._interval_s
        elif (error := polled.exception()) is not None:
            worked = False
            expected = isinstance(error, ProviderError | InvalidFieldError)
            self._log.warning("poll_failed", problem=str(error), exc_info=None if expected else error)
        else:
            worked = polled.result()
        if worked:
            self._pace.worked()
        else:
            self._pace.failed()

    async def _poll(self) -> bool:
        """Ask and apply; return whether the provider answered."""
        if self._after_listing != self._reconciler.listings:
            self._after_listing, self._cursor = self._reconciler.listings, self._reconciler.cursor
        self._dispatcher.watch()
        if self._cursor and self._asked_s >= self._distrusted_until_s:
            await self._poll_changes()
            return True
        return await self._poll_some()

    async def _poll_changes(self) -> None:
        try:
            data = await self._provider.list(since=self._cursor, timeout_s=self._timeout_s)
            known = len(self._guarded.inventory)
            self._applying = True
            polled = await self._reconciler.apply_changes(data)
        except BaseException as error:
            self._count("List", _name_of(error))
            raise
        finally:
            self._applying = False
        if not polled.skipped:  # else the next poll asks again for everything since then
            self._cursor = polled.revision
        if known >= _FULL_FROM and 2 * polled.size > known:
            self._distrusted_until_s = self._now_s() + DISTRUST_S
            self._log.info("provider_answers_in_full", records=polled.size, polled_by="Get", for_s=DISTRUST_S)
        self._count("List", "changed" if polled.changed else "unchanged")
        if polled.decidable:
            self._wake()

    # A provider that cannot list changes

    async def _poll_some(self) -> bool:
        await self._guarded.available()
        inventory = self._guarded.inventory
        ids = inventory.ids_of(self._take(inventory.in_states(IN_TRANSITION)))
        # Of an action without a result the call may still be on its way; an answer that does not know of it would undo it.
        unsettled = set(self._dispatcher.unsettled)
        ids = [each for each in ids if each not in unsettled and not self._dispatcher.is_pending(each)]
        answered = not ids
        for start in range(0, len(ids), _GETS_AT_ONCE):
            answered |= any(await asyncio.gather(*map(self._get, ids[start : start + _GETS_AT_ONCE])))
        return answered

    def _take(self, rows: Rows) -> Rows:
        """The next few rows in turn."""
        at = int(np.searchsorted(rows, self._last_row, side="right"))
        taken: Rows = np.concatenate((rows[at:], rows[:at]))[:GETS]
        if taken.size:
            self._last_row = int(taken[-1])
        return taken

    async def _get(self, machine_id: str) -> bool:
        """Ask for one machine and apply what the provider says; return whether it answered."""
        try:
            reported = await self._provider.get(machine_id)
            polled = await self._reconciler.apply_polled(reported)
        except asyncio.CancelledError:
            self._count("Get", "given_up")
            raise
        except ProviderError as error:
            self._count("Get", "failed")
            return not isinstance(error, OutcomeUnknownError | NeverSentError)
        self._count("Get", "changed" if polled.changed else "unchanged")
        if polled.decidable:
            self._wake()
        return True

    def _count(self, call: str, result: str) -> None:
        self._metrics.counter("bigfleet_shard_transition_poll_calls_total", call=call, result=result).inc()

    def _now_s(self) -> float:
        return monotonic_s(self._clock)


def _name_of(error: BaseException) -> str:
    return "given_up" if isinstance(error, asyncio.CancelledError) else "failed"
