"""Serves a model on any network, and plays the launcher of processes in memory.

Why: the self-tests need an endpoint of their own; the kit's own tests need processes that can be killed and restarted
without starting any.
Must never: leave a task or a listener behind.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.aio.net import Net, Server
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import ReferenceOptions, ReferenceStore
from bigfleet.provider.methods import PROVIDER

_LOOPBACK: Final = "127.0.0.1"

MakeModel = Callable[[Clock, ReferenceOptions, ReferenceStore], ReferenceProvider]


async def serve(net: Net, model: ReferenceProvider) -> tuple[Server, str]:
    """Serve a model on a free port of the loopback and return server and target."""
    server = await net.serve(f"{_LOOPBACK}:0", [PROVIDER.bind(model)])
    return server, f"{_LOOPBACK}:{server.port}"


@asynccontextmanager
async def served(net: Net, model: ReferenceProvider) -> AsyncIterator[str]:
    """Serve a model for as long as the body runs; yields the target."""
    server, target = await serve(net, model)
    try:
        yield target
    finally:
        await server.stop(0)
        await model.stop()


class ReferenceProcess:
    """A model that plays a process; see `bigfleet.provider.conformance.settings.Running`."""

    def __init__(
        self, server: Server, target: str, model: ReferenceProvider, on_end: Callable[[], None]
    ) -> None:
        self._server, self._target, self._model, self._on_end = server, target, model, on_end
        self._ended = False

    @property
    def target(self) -> str:
        return self._target

    async def kill(self) -> None:
        await self._end(0)

    async def terminate(self) -> int:
        await self._end(5.0)
        return 0

    async def _end(self, grace_s: float) -> None:
        if self._ended:
            return
        self._ended = True
        # What it had stored up to here is what the next one finds; work that is cut off below changes nothing.
        self._on_end()
        await self._server.stop(grace_s)
        await self._model.stop()


class ReferenceLauncher:
    """Starts models; see `bigfleet.provider.conformance.settings.Launcher`."""

    def __init__(
        self, net: Net, clock: Clock, options: ReferenceOptions, make: MakeModel = ReferenceProvider
    ) -> None:
        self._net, self._clock, self._options, self._make = net, clock, options, make
        self._stores: dict[str, ReferenceStore] = {}

    async def start(self, state: str, seed_count: int) -> ReferenceProcess:
        store = deepcopy(self._stores.get(state, ReferenceStore()))
        model = self._make(self._clock, replace(self._options, slots=seed_count), store)
        server, target = await serve(self._net, model)

        def keep() -> None:
            self._stores[state] = deepcopy(model.store)

        return ReferenceProcess(server, target, model, keep)
