"""The fake provider as a process: options, machines and listeners from its flags.

Must never: serve before flags, inventory and state have been validated.
Rules: `providers#fake-flags`, `packaging#settings-sources`, `packaging#exit-codes`.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from bigfleet.aio.given_files import INVENTORY_BYTES, read_given
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.fake_provider.command import FakeProviderSettings
from bigfleet.app.garbage import collection_paused
from bigfleet.app.provider_process import ProviderProcess, provider_process
from bigfleet.cli.framework.console import Console
from bigfleet.provider.fake.backend import Seeds
from bigfleet.provider.fake.catalogue_file import read_catalogue
from bigfleet.provider.fake.control_http import check_loopback, serve_control
from bigfleet.provider.fake.inventory import read_inventory, slots_of
from bigfleet.provider.fake.latency import fixed
from bigfleet.provider.fake.lies.registry import parse_lies
from bigfleet.provider.fake.lifecycle import no_machines
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.provider.fake.script import ScriptStep, play, read_script
from bigfleet.provider.fake.seeding import CatalogueSeed
from bigfleet.provider.fake.specs import parse_failures, parse_latencies, parse_stockout
from bigfleet.provider.fake.state import JournalState, NoState
from bigfleet.provider.kit.limits import Timeouts
from bigfleet.workload.archetype import Catalogue
from bigfleet.workload.catalogues import CATALOGUES


def serve(settings: FakeProviderSettings, console: Console) -> int:
    """Serve until a signal comes; return the exit code."""
    # Validate before anything is opened, so that an error leaves nothing behind.
    options, seeds = options_of(settings), seeds_of(settings)
    steps = (
        read_script(read_given(SystemDisk(), settings.script, INVENTORY_BYTES))
        if settings.script is not None
        else ()
    )
    if settings.control_addr is not None:
        check_loopback(settings.control_addr)
    with collection_paused():  # until the machines of the seeds are there
        return asyncio.run(_serve(settings, console, options, seeds, steps))


def options_of(settings: FakeProviderSettings) -> FakeOptions:
    """Return the options that the flags describe."""
    latencies = parse_latencies(settings.latency)
    if settings.create_latency:
        latencies.setdefault("create", fixed(settings.create_latency))
    return FakeOptions(
        seed=settings.seed,
        sync=settings.sync,
        latencies=latencies,
        failures=parse_failures(settings.fail),
        stockouts=tuple(map(parse_stockout, settings.stockout)),
        loss_per_hour=settings.loss_per_hour,
        use_declared_loss=settings.use_declared_loss,
        offer_delete=not settings.no_delete,
        cursor=settings.cursor,
        time_scale=settings.time_scale,
        lies=parse_lies(settings.lie),
        configure_until_joined=settings.configure_until_joined,
        drain_until_empty=settings.drain_until_empty,
        timeouts=Timeouts(
            create=settings.create_timeout,
            configure=settings.configure_timeout,
            drain=settings.drain_timeout,
            delete=settings.delete_timeout,
        ),
        max_message_bytes=settings.max_message_bytes,
        reflection=settings.reflection,
        require_fencing=settings.require_fencing,
        require_shard_san=settings.require_shard_san,
    )


def seeds_of(settings: FakeProviderSettings) -> Seeds:
    """Return the source of the initial machines."""
    if settings.inventory is not None:
        pools = read_inventory(read_given(SystemDisk(), settings.inventory, INVENTORY_BYTES))
        return lambda: slots_of(pools)
    if not settings.catalog:
        return no_machines
    return CatalogueSeed(
        catalogue=_catalogue(settings.catalog),
        idle=settings.idle,
        speculative=settings.speculative,
        spot=settings.spot,
        configured_per_cluster=settings.configured_per_cluster,
        clusters=settings.clusters,
        density=settings.density,
        ordinal=settings.ordinal,
        shards=settings.shards,
        owner_shard=settings.owner_shard,
        seed=settings.seed,
    ).slots


def _catalogue(text: str) -> Catalogue:
    known = {catalogue.name: catalogue for catalogue in CATALOGUES}
    if text in known:
        return known[text]
    return read_catalogue(read_given(SystemDisk(), Path(text), INVENTORY_BYTES))


async def _serve(
    settings: FakeProviderSettings,
    console: Console,
    options: FakeOptions,
    seeds: Seeds,
    steps: tuple[ScriptStep, ...],
) -> int:
    async with provider_process(settings, console, settings.addr, settings.metrics_addr) as process:
        state = JournalState(settings.state, clock=process.clock) if settings.state is not None else NoState()
        fake = FakeProvider(
            options,
            seeds,
            state=state,
            clock=process.clock,
            net=process.net,
            metrics=process.metrics,
            log=process.log,
        )
        await fake.start()
        process.stack.push_async_callback(fake.stop, settings.shutdown_grace)
        server = await fake.listen(str(settings.addr))
        ports = {"port": server.port}
        if settings.control_addr is not None:
            control = await serve_control(fake, settings.control_addr)
            process.stack.push_async_callback(control.stop)
            ports["control_port"] = control.port
        return await process.run(ports, _parts(fake, steps, process))


def _parts(
    fake: FakeProvider, steps: tuple[ScriptStep, ...], process: ProviderProcess
) -> dict[str, Coroutine[Any, Any, object]]:
    async def play_and_stay() -> None:
        await play(steps, fake, process.clock)
        await asyncio.get_running_loop().create_future()  # the end of the script must not end the process

    parts: dict[str, Coroutine[Any, Any, object]] = {"state": fake.wait_failure()}
    if steps:
        parts["script"] = play_and_stay()
    return parts
