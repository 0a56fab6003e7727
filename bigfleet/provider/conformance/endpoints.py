"""Which endpoint a behaviour runs on: the target, the one that follows the fault convention, or a process of the kit.

Must never: run a fault behaviour on the target, or kill a process that the kit did not start.
Rules: `providers#verdict`, `providers#conformance`.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Prerequisite
from bigfleet.provider.conformance.errors import ConformanceError, NotRunError
from bigfleet.provider.conformance.reference.serve import ReferenceLauncher, served
from bigfleet.provider.conformance.reference.values import ReferenceOptions
from bigfleet.provider.conformance.settings import ConformanceProfile, Launcher, RunSettings
from bigfleet.provider.conformance.target_endpoint import TargetEndpoint

_MAIN_SLOTS: Final = 256
_FAULT_SLOTS: Final = 64
_ON_FAULT_ENDPOINT: Final = ("X06",)
_INTERRUPTED: Final = "B1006"


class Endpoints:
    """Every endpoint of one run; leaving its context ends what the kit started."""

    def __init__(self, target: str, settings: RunSettings) -> None:
        self.settings = settings
        self.notes: list[str] = []
        self._target = target
        self._stack = AsyncExitStack()
        self._main: TargetEndpoint | None = None
        self._fault: TargetEndpoint | None = None
        self._scale: TargetEndpoint | None = None

    @property
    def main(self) -> TargetEndpoint:
        """The provider under test."""
        if self._main is None:
            raise ConformanceError("the run has not begun")
        return self._main

    async def __aenter__(self) -> Self:
        if self._target:
            self._main = TargetEndpoint(self._target, self.settings)
        else:
            self._main = await self._launched(self._launcher(), "main", _MAIN_SLOTS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def bench_for(self, behaviour: Behaviour) -> AsyncIterator[TargetEndpoint]:
        """Yield the bench of a behaviour; `NotRunError` where the kit was not given what it needs."""
        if behaviour.lane is Lane.FAULT or behaviour.id in _ON_FAULT_ENDPOINT:
            yield await self._fault_bench()
        elif behaviour.lane is Lane.SCALE:
            if self._scale is None:
                self._scale = await self._launched(self._launcher(), "scale", self.settings.sizes.scale_seed)
            yield self._scale
        elif behaviour.lane is Lane.DURABLE or Prerequisite.START in behaviour.needs:
            interrupted = behaviour.id == _INTERRUPTED
            endpoint = await TargetEndpoint.launched(
                self._fault_launcher() if interrupted else self._launcher(),
                behaviour.id.lower(),
                self.settings.sizes.durable_seed,
                self._with_slots() if interrupted else self._unlimited(),
                disposable=True,
            )
            try:
                yield endpoint
            finally:
                await endpoint.close()
        else:
            yield self.main

    async def _fault_bench(self) -> TargetEndpoint:
        if self._fault is None:
            target = self.settings.fault_target
            if not target:
                options = ReferenceOptions(
                    slots=_FAULT_SLOTS, faults=True, timeout_s=self.settings.timings.transition_timeout_s
                )
                model = self.settings.model(self.settings.clock, options)
                target = await self._stack.enter_async_context(served(self.settings.net, model))
                self.notes.append(
                    "fault behaviours ran on the kit's own provider, as no --fault-target was given"
                )
            self._fault = TargetEndpoint(target, self._with_slots())
        return self._fault

    def _launcher(self) -> Launcher:
        if self.settings.launcher is None:
            raise NotRunError(f"needs {Prerequisite.START.value}")
        return self.settings.launcher

    def _fault_launcher(self) -> Launcher:
        if self.settings.fault_launcher is not None:
            return self.settings.fault_launcher
        note = f"{_INTERRUPTED} ran on the kit's own provider, as no --fault-start was given"
        if note not in self.notes:
            self.notes.append(note)
        options = ReferenceOptions(faults=True, timeout_s=self.settings.timings.durable_timeout_s)
        return ReferenceLauncher(self.settings.net, self.settings.clock, options)

    def _unlimited(self) -> RunSettings:
        """The same settings for an endpoint of the kit's own, where every machine may be touched."""
        return replace(self.settings, machines="*")

    def _with_slots(self) -> RunSettings:
        """The same for an endpoint that follows the fault convention, which has slots whatever the target has."""
        return replace(self.settings, machines="*", profiles=(ConformanceProfile.CORE,))

    async def _launched(self, launcher: Launcher, state: str, seed_count: int) -> TargetEndpoint:
        endpoint = await TargetEndpoint.launched(launcher, state, seed_count, self._unlimited())
        self._stack.push_async_callback(endpoint.close)
        return endpoint
