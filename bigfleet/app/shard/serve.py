"""The shard as a process: logs, data directory, probes, signals, shutdown.

Must never: end with 0 when a part ended by itself, or take longer to end than its grace.
Rules: `shard#start-and-stop`, `shard#readiness`, `packaging#exit-codes`, `packaging#http`, `shard#part-ends`,
`shard#stopping`.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from os import fspath

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, SystemClock
from bigfleet.aio.identity import Role
from bigfleet.aio.net import Peer, ServerHooks
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.seams import Seams, system_seams
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.connections import grpc_limits, use_descriptors
from bigfleet.app.dashboard.beside import dashboard_beside
from bigfleet.app.free_memory import give_back_free_memory
from bigfleet.app.garbage import freeze_live_objects
from bigfleet.app.parts import (
    Part,
    flag_errors,
    process_log,
    process_metrics,
    run_until_stop,
    serve_metrics,
    show_certificate,
    show_exposure,
    tls_store,
    warn_of_plaintext,
)
from bigfleet.app.shard.build import RunningShard, listening_shard
from bigfleet.app.shard.command import ShardSettings
from bigfleet.app.switch_interval import short_switch_interval
from bigfleet.cli.framework.console import Console
from bigfleet.obs.connections import connection_report
from bigfleet.obs.limited_log import LimitedLog
from bigfleet.obs.loop_lag import sample_loop_lag
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.shard.epoch import DataDirectory, open_data_directory
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.shard.session.service import SHARD
from bigfleet.shard.shard import Shard
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsStore

_HEALTH_EVERY_S = 1.0


def serve(settings: ShardSettings, console: Console) -> int:
    """Serve until a signal comes; return the exit code."""
    return asyncio.run(_serve(settings, console))


async def _serve(settings: ShardSettings, console: Console) -> int:
    proc = SystemProc()
    with flag_errors("--data-dir"):
        data = open_data_directory(SystemDisk(), settings.data_dir)
    try:
        with (
            process_log(
                settings, console, SHARD_METRICS.component, shard=settings.id, epoch=data.epoch
            ) as log,
            proc.listen(),
            short_switch_interval(),
        ):
            tls = tls_store(settings, log)
            metrics = process_metrics(SHARD_METRICS, console)
            use_descriptors(settings.max_connections, log)
            clock = SystemClock()
            report = connection_report(metrics, log, clock)
            net = GrpcNet(tls, _hooks(log, clock), limits=grpc_limits(settings), report=report)
            seams = system_seams(net, proc)
            shards: list[Shard] = []
            tidying = (
                asyncio.ensure_future(
                    freeze_live_objects(seams.clock, lambda: any(shard.loop.deciding for shard in shards))
                ),
                asyncio.ensure_future(give_back_free_memory(seams.clock)),
            )
            try:
                return await run_shard(
                    settings, seams, data=data, metrics=metrics, log=log, tls=tls, built=shards.append
                )
            finally:
                for task in tidying:
                    task.cancel()
    finally:
        data.close()


async def run_shard(
    settings: ShardSettings,
    seams: Seams,
    *,
    data: DataDirectory,
    metrics: Metrics,
    log: FilteringBoundLogger,
    fake: FakeProvider | None = None,
    tls: TlsStore | None = None,
    built: Callable[[Shard], None] | None = None,
) -> int:
    """Run a shard until its process is asked to stop; return the exit code.

    `fake` replaces the in-process provider of the seed flags, `built` is called with the shard before it runs.
    """
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            listening_shard(settings, seams, data=data, metrics=metrics, log=log, fake=fake)
        )
        shard = running.shard
        if built is not None:
            built(shard)
        metrics_port = await serve_metrics(
            stack,
            settings.metrics_addr,
            metrics,
            shard.not_ready,
            lambda: _remarks(running),
            report=connection_report(metrics, log, seams.clock),
        )
        show_exposure(metrics, settings.listen, secured=tls is not None)
        warn_of_plaintext(log, settings.listen, secured=tls is not None)
        log.info("listening", port=running.server.port, metrics_port=metrics_port)
        sources = [
            f"--shard-addr=127.0.0.1:{running.server.port}",
            f"--data-dir={fspath(settings.data_dir)}/dashboard",
        ]
        if metrics_port:
            sources.append(f"--scrape={settings.id}=http://127.0.0.1:{metrics_port}/metrics")
        await stack.enter_async_context(dashboard_beside(settings.dashboard_addr, log, *sources))
        parts = _parts(settings, running, seams, metrics)
        if tls is not None:
            parts["certificate"] = show_certificate(tls, metrics, seams.clock, Role.SHARD.value)
        await run_until_stop(parts, seams.proc, log)
        # The grace is for running calls; a second signal ends the process at once.
        ending = asyncio.ensure_future(stack.aclose())
        hurry = asyncio.ensure_future(seams.proc.wait_hurry())
        await asyncio.wait([ending, hurry], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not ending.done():
            log.warning("hurried", why="a second signal")
            seams.proc.exit_now(seams.proc.exit_code)
        await ending
    return seams.proc.exit_code


def _remarks(running: RunningShard) -> tuple[str, ...]:
    """What people should know although the shard is ready, each line once (`shard#readiness`)."""
    shard = running.shard
    lines = dict.fromkeys((*running.readers.problems.lines(), *shard.remarks()))
    return tuple(line for line in lines if line not in shard.not_ready())


def _parts(settings: ShardSettings, running: RunningShard, seams: Seams, metrics: Metrics) -> dict[str, Part]:
    """Return the parts to run; a part that ends by itself ends the process with 1 (`shard#part-ends`)."""
    lag = metrics.histogram("bigfleet_event_loop_lag_seconds")
    parts: dict[str, Part] = {
        "shard": running.shard.run(),
        **running.readers.parts(),
        "loop lag": sample_loop_lag(seams.clock, lag.observe),
        "health": _follow_readiness(running, seams),
    }
    if running.fake is not None:
        parts["in-process fake"] = running.fake.wait_failure()
        if settings.speculative_shed_at_seconds and 0 < settings.speculative_shed_multiplier < 1:
            parts["in-process shed"] = _shed(settings, running, seams)
    return parts


async def _follow_readiness(running: RunningShard, seams: Seams) -> None:
    """Set the gRPC health of the session service from the readiness of the shard (`shard#grpc-health`)."""
    while True:
        running.server.health.set_serving(SHARD.name, not running.shard.not_ready())
        await seams.clock.sleep(_HEALTH_EVERY_S)


async def _shed(settings: ShardSettings, running: RunningShard, seams: Seams) -> None:
    """Lose a share of the slots once, then wait for ever."""
    await seams.clock.sleep(settings.speculative_shed_at_seconds)
    if running.fake is not None:
        await running.fake.shed(1 - settings.speculative_shed_multiplier)
    await asyncio.get_running_loop().create_future()


def _hooks(log: FilteringBoundLogger, clock: Clock) -> ServerHooks:
    refusals = LimitedLog(log, clock, about="presented")

    def refused(method: str, peer: Peer, why: str) -> None:
        presented = str(peer.identity or peer.problem)
        refusals.error("identity_refused", presented, method=method, peer=peer.address, why=why)

    def defect(method: str, error: BaseException) -> None:
        log.error("handler_defect", method=method, exc_info=error)

    return ServerHooks(on_identity_refused=refused, on_defect=defect)
