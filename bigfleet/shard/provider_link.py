"""The shard's way to its provider: every call passes here, is counted, and is held off while the provider is unreachable.

Why: listings, reads and actions must agree on whether the provider answers, and a dead provider must cost a few probes and
nothing else.
Must never: repeat a call, or start one other than a probe while the provider is unreachable.
Rules: `shard#provider-standing`, `shard#provider-calls`; ADR-0193.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

from bigfleet.aio.clock import monotonic_s, timeout
from bigfleet.model.machine import Machine, MachineState
from bigfleet.provider.client import CALL_TIMEOUT_S, ProviderClient
from bigfleet.provider.errors import NeverSentError, OutcomeUnknownError, ProviderError
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.provider_standing import ProviderStanding
from bigfleet.shard.core.views import ProviderHealth

PROBE_TIMEOUT_S: Final = 5.0

T = TypeVar("T")


class HeldOffError(NeverSentError):
    """The provider is unreachable, so the call was not tried."""


class ProviderLink:
    """Makes the calls of one shard, and keeps the standing of its provider."""

    def __init__(
        self,
        context: ShardContext,
        provider: ProviderClient,
        *,
        on_lost: Callable[[], None],
        on_back: Callable[[], None],
    ) -> None:
        """`on_lost` is called when the provider became unreachable.

        `on_back` is called when it answers after an outage or a lost connection: its machines may differ.
        """
        self._provider, self._on_lost, self._on_back = provider, on_lost, on_back
        self._clock, self._metrics, self._log = context.clock, context.metrics, context.log
        self._jitter = context.rng.stream("provider probes")
        self._standing = ProviderStanding()
        self._changed = asyncio.Event()  # set and replaced whenever the standing changed
        self._metrics.gauge("bigfleet_shard_provider_reachable").set(1)

    @property
    def reachable(self) -> bool:
        return self._standing.reachable

    def state(self) -> ProviderHealth:
        """The standing as readers see it, without what the listings say."""
        standing, now_s = self._standing, self._now_s()
        since_s, probe_s = standing.unreachable_since_s, standing.next_probe_s
        return ProviderHealth(
            reachable=standing.reachable,
            unreachable_for_s=0.0 if since_s is None else now_s - since_s,
            failures=standing.failures,
            last_error=standing.last_error if standing.failures else "",
            next_probe_in_s=0.0 if probe_s is None else max(0.0, probe_s - now_s),
        )

    async def run(self) -> NoReturn:
        """Follow the connection and probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_connection(), name="provider connection")
            group.create_task(self._probe_when_due(), name="provider probes")
        raise AssertionError("the tasks of the provider link do not end")

    # Calls

    async def create(self, machine_id: str, *, timeout_s: float) -> Machine:
        return await self._ask(
            "Create",
            machine_id,
            lambda left_s: self._provider.create(machine_id, timeout_s=left_s),
            timeout_s,
        )

    async def configure(
        self, machine_id: str, cluster: str, blob: bytes, metadata: Mapping[str, str], *, timeout_s: float
    ) -> Machine:
        def ask(left_s: float) -> Awaitable[Machine]:
            return self._provider.configure(machine_id, cluster, blob, metadata, timeout_s=left_s)

        return await self._ask("Configure", machine_id, ask, timeout_s)

    async def drain(self, machine_id: str, grace_s: int, *, timeout_s: float) -> Machine:
        def ask(left_s: float) -> Awaitable[Machine]:
            return self._provider.drain(machine_id, grace_s, timeout_s=left_s)

        return await self._ask("Drain", machine_id, ask, timeout_s)

    async def delete(self, machine_id: str, *, timeout_s: float) -> Machine:
        return await self._ask(
            "Delete",
            machine_id,
            lambda left_s: self._provider.delete(machine_id, timeout_s=left_s),
            timeout_s,
        )

    async def get(self, machine_id: str, *, timeout_s: float = CALL_TIMEOUT_S) -> Machine:
        return await self._ask(
            "Get", machine_id, lambda left_s: self._provider.get(machine_id, timeout_s=left_s), timeout_s
        )

    async def list(
        self, *, since: bytes = b"", states: Sequence[MachineState] = (), timeout_s: float
    ) -> bytes:
        def ask(left_s: float) -> Awaitable[bytes]:
            return self._provider.list(since=since, states=states, timeout_s=left_s)

        return await self._ask("List", "", ask, timeout_s)

    async def _ask(
        self, call: str, machine_id: str, ask: Callable[[float], Awaitable[T]], timeout_s: float
    ) -> T:
        deadline_s = self._now_s() + timeout_s
        await self._until_certain(call, machine_id, timeout_s)
        return await self._try(call, machine_id, ask, deadline_s - self._now_s())

    async def _until_certain(self, call: str, machine_id: str, timeout_s: float) -> None:
        """Return once calls may be made; raise if the provider is unreachable, or if it takes too long."""
        try:
            async with timeout(self._clock, timeout_s):
                while self._standing.doubtful:
                    await self._changed.wait()
        except TimeoutError:
            raise NeverSentError(call, machine_id, "the deadline passed before the call") from None
        if not self._standing.reachable:
            raise HeldOffError(call, machine_id, "held off: the provider is unreachable")

    async def _try(
        self, call: str, machine_id: str, ask: Callable[[float], Awaitable[T]], timeout_s: float
    ) -> T:
        try:
            # Here too, and by this clock: a call that hangs whatever its deadline says must end.
            async with timeout(self._clock, timeout_s):
                answer = await ask(timeout_s)
        except TimeoutError:
            error = OutcomeUnknownError(call, machine_id, f"no answer within {timeout_s:.3g} s")
            self._unanswered(call, error, "unanswered")
            raise error from None
        except NeverSentError as error:
            self._unanswered(call, error, "not_sent")
            raise
        except OutcomeUnknownError as error:
            self._unanswered(call, error, "unanswered")
            raise
        except ProviderError:
            self._answered(call, "refused")
            raise
        except asyncio.CancelledError:
            self._count(call, "given_up")
            raise
        self._answered(call, "ok")
        return answer

    # Standing

    def _unanswered(self, call: str, error: ProviderError, result: str) -> None:
        self._count(call, result)
        if self._standing.failed(str(error), self._now_s(), self._jitter.random()):
            self._became_unreachable()
        self._note_change()

    def _answered(self, call: str, result: str) -> None:
        self._count(call, result)
        if not self._standing.failures:
            return
        now_s, since_s = self._now_s(), self._standing.unreachable_since_s
        missed = self._standing.answered()
        self._metrics.gauge("bigfleet_shard_provider_reachable").set(1)
        if since_s is not None:
            self._log.warning("provider_reachable", call=call, after_s=round(now_s - since_s, 3))
        self._note_change()
        if missed:
            self._on_back()

    def _became_unreachable(self) -> None:
        standing = self._standing
        self._metrics.gauge("bigfleet_shard_provider_reachable").set(0)
        self._log.error(
            "provider_unreachable",
            failures=standing.failures,
            problem=standing.last_error,
            meaning="no call is started but probes, until the provider answers one",
        )
        self._on_lost()

    def _note_change(self) -> None:
        self._metrics.gauge("bigfleet_shard_provider_unreachable_seconds").set(self.state().unreachable_for_s)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _count(self, call: str, result: str) -> None:
        self._metrics.counter("bigfleet_shard_provider_calls_total", call=call, result=result).inc()

    async def _follow_connection(self) -> NoReturn:
        async for connected in self._provider.connectivity():
            if connected:
                self._standing.connected(self._now_s())
            elif self._standing.lost("no connection to the provider", self._now_s(), self._jitter.random()):
                self._became_unreachable()
            self._note_change()
        # The channel was closed: the shard is stopping and will cancel this task.
        await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    async def _probe_when_due(self) -> NoReturn:
        while True:
            due_s, changed = self._standing.next_probe_s, self._changed
            try:
                async with timeout(self._clock, None if due_s is None else due_s - self._now_s()):
                    await changed.wait()
                continue
            except TimeoutError:
                pass
            self._standing.probing(self._now_s(), self._jitter.random())
            with suppress(ProviderError):
                await self._try(
                    "Probe", "", lambda left_s: self._provider.probe(timeout_s=left_s), PROBE_TIMEOUT_S
                )

    def _now_s(self) -> float:
        return monotonic_s(self._clock)
