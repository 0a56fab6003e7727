"""The hook provider as a process: wiring, signals, shutdown.

Must never: serve before inventory and state have been validated, or end with 0 when a part ended by itself.
Rules: `providers#hook`, `packaging#settings-sources`, `packaging#exit-codes`.
"""

import asyncio
import signal
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from os import fspath
from pathlib import Path

from bigfleet.aio.clock import Clock, SystemClock
from bigfleet.aio.disk import ensure_directory
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.garbage import collection_paused
from bigfleet.app.hook_provider.command import MEMORY, HookProviderSettings
from bigfleet.app.hook_provider.nodes import ClusterNodes, system_dial
from bigfleet.app.provider_process import provider_process
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.output import Column, Listing, write
from bigfleet.obs.logs import build_logger
from bigfleet.provider.hook.bundled import BUNDLED
from bigfleet.provider.hook.check import CheckReport
from bigfleet.provider.hook.check import check as check_hooks
from bigfleet.provider.hook.core.errors import InventoryError
from bigfleet.provider.hook.core.inventory import HookInventory, warnings_of
from bigfleet.provider.hook.hooks import HookRunner
from bigfleet.provider.hook.processes import SystemProcesses
from bigfleet.provider.hook.provider import HookProvider
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.provider.kit.admin import AdminSocket
from bigfleet.provider.kit.audit import RepairAuditFile, RepairAuditLog
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.store import StateStore, Volatile
from bigfleet.provider.methods import PROVIDER

_COLUMNS = tuple(Column(name.upper(), name) for name in ("hook", "file", "machine", "result", "detail"))


def check(settings: HookProviderSettings, console: Console) -> int:
    """Run every hook once without effect and print the results."""
    disk, clock = SystemDisk(), SystemClock()
    inventory = _loaded(InventorySource(disk, _absolute(settings), BUNDLED))
    with tempfile.TemporaryDirectory(prefix="bigfleet-hook-") as directory:
        hooks = HookRunner(
            SystemProcesses(clock),
            environ=console.environ,
            disk=disk,
            blob_directory=directory,
            clock=clock,
            # The table has the last line of each hook; the rest of their output is logged with --log-level debug.
            log=build_logger(
                level="info" if settings.log_level == "debug" else "error",
                form=settings.log_format,
                stream=console.stderr,
                now=console.now,
            ),
            parallel=settings.parallel,
            dry_run=True,
        )
        checked = asyncio.run(check_hooks(inventory, hooks))
    _print(settings, console, inventory, checked)
    failed = [tried.kind.value for tried in checked.hooks if not tried.ok]
    if failed:
        raise CommandError(f"{len(failed)} of {len(checked.hooks)} hooks failed: {', '.join(failed)}")
    return ExitCode.DONE


def serve(settings: HookProviderSettings, console: Console) -> int:
    """Serve until a signal comes; return the exit code."""
    with (
        collection_paused()
    ):  # reading thousands of machines takes twice the time with collections in between
        return asyncio.run(_serve(settings, console))


async def _serve(settings: HookProviderSettings, console: Console) -> int:
    disk = SystemDisk()
    source = InventorySource(disk, _absolute(settings), BUNDLED)
    _loaded(source)
    async with provider_process(settings, console, settings.addr, settings.metrics_addr) as process:
        clock, log, stack = process.clock, process.log, process.stack
        nodes = ClusterNodes(clock, system_dial(disk, clock))
        stack.push_async_callback(nodes.close)
        store, state = _store(settings, disk, clock)
        provider = HookProvider(
            source,
            SystemProcesses(clock),
            environ=console.environ,
            disk=disk,
            clock=clock,
            log=log,
            state_directory=state,
            blob_directory=_blob_directory(settings, state, stack),
            readiness=nodes,
            parallel=settings.parallel,
            watch_s=settings.watch_interval,
            probe_s=settings.probe_interval,
            store=store,
            limits=limits_of(settings),
            metrics=process.metrics,
            audit=RepairAuditFile(disk, Path(state) / "audit.jsonl") if state else RepairAuditLog(log),
            require_fencing=settings.require_fencing,
            require_shard_san=settings.require_shard_san,
        )
        await provider.start()
        stack.push_async_callback(provider.stop, settings.shutdown_grace)
        serving = replace(provider.kit.serve_options(), reflection=settings.reflection)
        server = await process.net.serve(str(settings.addr), [PROVIDER.bind(provider.kit.service)], serving)
        stack.push_async_callback(server.stop, settings.shutdown_grace)
        await _open_admin(settings, provider, state, stack)
        _reload_on_hangup(provider, stack)
        return await process.run(
            {"port": server.port}, {"state": store.wait_failure(), "inventory and probes": provider.run()}
        )


def _reload_on_hangup(provider: HookProvider, stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    reloads: dict[asyncio.Task[bool], None] = {}  # a set in the order of arrival

    def reload() -> None:
        task = loop.create_task(provider.reload())
        reloads[task] = None
        task.add_done_callback(lambda ended: reloads.pop(ended, None))

    loop.add_signal_handler(signal.SIGHUP, reload)
    stack.callback(loop.remove_signal_handler, signal.SIGHUP)


async def _open_admin(
    settings: HookProviderSettings, provider: HookProvider, state: str, stack: AsyncExitStack
) -> None:
    path = settings.admin_socket or (Path(state) / "admin.sock" if state else None)
    if path is None:
        return
    admin = AdminSocket(provider.kit, path)
    await admin.open()
    stack.push_async_callback(admin.close)


def _store(settings: HookProviderSettings, disk: SystemDisk, clock: Clock) -> tuple[StateStore, str]:
    if settings.state == MEMORY:
        return Volatile(), ""
    ensure_directory(disk, settings.state)
    return Journal(settings.state, disk=disk, clock=clock), settings.state


def _blob_directory(settings: HookProviderSettings, state: str, stack: AsyncExitStack) -> str:
    # Absolute, because a hook runs in its own directory and gets the path of its blob.
    if settings.blob_dir is not None:
        return fspath(settings.blob_dir.absolute())
    if state:
        return fspath(Path(state).absolute() / "blobs")
    return stack.enter_context(tempfile.TemporaryDirectory(prefix="bigfleet-hook-"))


def limits_of(settings: HookProviderSettings) -> Limits:
    """Return the limits that the flags describe."""
    return Limits(
        # One worker per hook that may run: the timeout of an operation starts when a worker takes it.
        workers=settings.parallel,
        create=settings.create_timeout,
        configure=settings.configure_timeout,
        drain=settings.drain_timeout,
        delete=settings.delete_timeout,
        ready_poll=settings.ready_interval,
        refresh=settings.refresh_interval,
    )


def _absolute(settings: HookProviderSettings) -> list[Path]:
    # Absolute, because a hook runs in its own directory.
    return [path.absolute() for path in settings.inventory]


def _loaded(source: InventorySource) -> HookInventory:
    try:
        return source.load()
    except InventoryError as error:
        raise UsageError(f"--inventory: {error}") from error


def _print(
    settings: HookProviderSettings, console: Console, inventory: HookInventory, checked: CheckReport
) -> None:
    rows = [
        {
            "hook": tried.kind.value,
            "file": tried.program,
            "machine": tried.machine_id or None,
            "result": tried.result,
            "detail": tried.detail or None,
        }
        for tried in checked.hooks
    ]
    write(console, settings, Listing("hooks", _COLUMNS, rows))
    if settings.output in ("table", "wide"):
        state = checked.first_state.label
        count = "1 machine" if checked.machines == 1 else f"{checked.machines} machines"
        console.print(f"\n{count}, {inventory.mode.value}, beginning {state}")
    for warning in warnings_of(inventory):
        console.print_error(f"warning: {warning}")
