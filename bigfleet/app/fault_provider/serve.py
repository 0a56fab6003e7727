"""The fault provider as a process.

Must never: serve before its state has been validated.
Rules: `providers#fault-convention`, `packaging#settings-sources`, `packaging#exit-codes`.
"""

import asyncio
from dataclasses import replace

from bigfleet.app.fault_provider.command import FaultProviderSettings
from bigfleet.app.provider_process import provider_process
from bigfleet.cli.framework.console import Console
from bigfleet.provider.fault.backend import FaultBackend, FaultOptions
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.store import StateStore, Volatile
from bigfleet.provider.methods import PROVIDER


def serve(settings: FaultProviderSettings, console: Console) -> int:
    """Serve until a signal comes; return the exit code."""
    return asyncio.run(_serve(settings, console, options_of(settings)))


def options_of(settings: FaultProviderSettings) -> FaultOptions:
    """Return the options that the flags describe."""
    return FaultOptions(
        provider=settings.provider,
        seed_count=settings.seed_count,
        transition_timeout_s=settings.transition_timeout,
    )


async def _serve(settings: FaultProviderSettings, console: Console, options: FaultOptions) -> int:
    async with provider_process(settings, console, settings.addr, settings.metrics_addr) as process:
        store: StateStore = (
            Volatile() if settings.state is None else Journal(settings.state, clock=process.clock)
        )
        kit = ProviderKit(
            FaultBackend(options, process.clock),
            store=store,
            name=options.provider,
            limits=options.limits(),
            clock=process.clock,
            metrics=process.metrics,
            log=process.log,
        )
        await kit.start()
        process.stack.push_async_callback(kit.stop, 0.0)
        serving = replace(kit.serve_options(), reflection=settings.reflection)
        server = await process.net.serve(str(settings.addr), [PROVIDER.bind(kit.service)], serving)
        process.stack.push_async_callback(server.stop, settings.shutdown_grace)
        return await process.run({"port": server.port}, {"state": store.wait_failure()})
