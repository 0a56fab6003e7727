"""The coordinator as a process: wiring, probes, shutdown.

Must never: serve before the data directory has been checked, end with 0 when a part ended by itself, or continue after a
failed write, since memory would be ahead of the disk.
Rules: `coordinator#process`, `coordinator#chart`, `packaging#exit-codes`, `packaging#http`.
"""

import asyncio
import threading
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from os import fspath
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.connection_report import ConnectionReport
from bigfleet.aio.identity import Role
from bigfleet.aio.net import Peer, RpcServer, ServerHooks
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.seams import Seams, system_seams
from bigfleet.app.connections import grpc_limits, use_descriptors
from bigfleet.app.coordinator.command import SECRET_BYTES, CoordinatorSettings
from bigfleet.app.dashboard.beside import check_dashboard, dashboard_beside
from bigfleet.app.garbage import freeze_live_objects
from bigfleet.app.parts import (
    Part,
    process_log,
    process_metrics,
    read_flag_file,
    run_parts,
    show_exposure,
    tls_store,
    warn_of_open_secret,
)
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.coordinator.assembly import CoordinatorParts, assemble, serve_options
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.export import ExportDirectory, ExportLoop
from bigfleet.coordinator.log import DamagedDirectoryError, FatalLogError
from bigfleet.coordinator.maintenance import levels_of_voters
from bigfleet.coordinator.metrics import COORDINATOR_METRICS
from bigfleet.coordinator.raft.certificates import RaftTls
from bigfleet.coordinator.raft.membership import RaftMembers, members_from_flags
from bigfleet.coordinator.raft.peer_calls import GrpcPeerCalls
from bigfleet.coordinator.raft.raft_log import RaftLog, RaftSettings
from bigfleet.obs.connections import connection_report
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.coordinator import COORDINATOR
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.probes import serve_probes
from bigfleet.transport.tls import TlsStore

WEDGED_S: Final = 30.0
"""How long the Raft loop may be silent before the liveness probe fails."""


@dataclass(frozen=True, slots=True)
class _Built:
    """One replica that has not been started."""

    log: RaftLog
    replica: CoordinatorParts
    state_machine: CoordinatorStateMachine
    metrics: Metrics
    tls: TlsStore | None
    report: ConnectionReport


def serve(settings: CoordinatorSettings, console: Console) -> int:
    """Serve until a signal comes; return the exit code."""
    check_dashboard(settings.dashboard_addr, settings)
    members = members_of(settings)
    secret = _secret(settings)
    try:
        return asyncio.run(_serve(settings, console, members, secret))
    except FatalLogError as error:
        code = next(code for code in ExitCode if code == error.exit_code)
        raise CommandError(str(error), code) from error


def members_of(settings: CoordinatorSettings) -> RaftMembers:
    """Return the replicas that the flags describe."""
    return members_from_flags(
        node_id=settings.id,
        replicas=settings.replicas,
        join_addr=settings.join_addr,
        peers=settings.peers,
        raft_advertise=settings.raft_advertise,
        raft_bind=str(settings.raft_bind),
        listen=str(settings.listen),
    )


def _secret(settings: CoordinatorSettings) -> bytes:
    if settings.raft_secret_file is None:
        return b""
    secret = read_flag_file("--raft-secret-file", settings.raft_secret_file)
    if len(secret) < SECRET_BYTES:
        raise UsageError(
            f"--raft-secret-file: {settings.raft_secret_file}: found {len(secret)} bytes, allowed are at least {SECRET_BYTES}"
        )
    return secret


async def _serve(settings: CoordinatorSettings, console: Console, members: RaftMembers, secret: bytes) -> int:
    proc = SystemProc()
    with ExitStack() as stack:
        logger = stack.enter_context(
            process_log(settings, console, COORDINATOR_METRICS.component, node=settings.id)
        )
        stack.enter_context(proc.listen())
        metrics = process_metrics(COORDINATOR_METRICS, console)
        tls = tls_store(settings, logger)
        use_descriptors(settings.max_connections, logger)
        report = connection_report(metrics, logger, SystemClock())
        net = GrpcNet(tls, _hooks(logger, metrics), limits=grpc_limits(settings), report=report)
        seams = system_seams(net, proc)
        _warn_of_plaintext(settings, logger)
        warn_of_open_secret(logger, settings.raft_secret_file)
        return await run_replica(
            settings, seams, members=members, secret=secret, metrics=metrics, log=logger, tls=tls
        )


async def run_replica(
    settings: CoordinatorSettings,
    seams: Seams,
    *,
    members: RaftMembers,
    secret: bytes,
    metrics: Metrics,
    log: FilteringBoundLogger,
    tls: TlsStore | None,
) -> int:
    """Run a replica until its process is asked to stop; return the exit code."""
    built = _build(settings, members, secret, seams, metrics=metrics, logger=log, tls=tls)
    try:
        await built.log.start()
        return await _run(settings, built, seams, log)
    finally:
        await built.log.stop()


def _build(
    settings: CoordinatorSettings,
    members: RaftMembers,
    secret: bytes,
    seams: Seams,
    *,
    metrics: Metrics,
    logger: FilteringBoundLogger,
    tls: TlsStore | None,
) -> _Built:
    def outgrown(level: int) -> None:
        problem = f"the log needs commands of level {level}, which this version does not know"
        log.abort(DamagedDirectoryError(fspath(settings.data_dir), problem))

    calls = GrpcPeerCalls(seams.net)
    report = connection_report(metrics, logger, seams.clock)
    state_machine = CoordinatorStateMachine(lock=threading.Lock(), on_outgrown=outgrown)
    log = RaftLog(
        RaftSettings(
            members=members,
            data_dir=fspath(settings.data_dir),
            bind=settings.raft_bind,
            bootstrap=settings.bootstrap,
            bootstrap_without_peers=settings.bootstrap_without_peers,
            secret=secret,
        ),
        clock=seams.clock,
        disk=seams.disk,
        ids=seams.ids,
        rng=seams.rng,
        state_machine=state_machine,
        calls=calls,
        metrics=metrics,
        log=logger,
        tls=None if tls is None else RaftTls(tls),
        report=report,
    )
    replica = assemble(
        log,
        state_machine,
        clock=seams.clock,
        ids=seams.ids,
        metrics=metrics,
        logger=logger,
        levels=levels_of_voters(log, calls),
    )
    return _Built(log, replica, state_machine, metrics, tls, report)


async def _run(
    settings: CoordinatorSettings, built: _Built, seams: Seams, logger: FilteringBoundLogger
) -> int:
    options = serve_options(reflection=settings.reflection)
    server = await seams.net.serve(str(settings.listen), [built.replica.bound()], options)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_drain, server, built, settings.shutdown_grace)
        write_metrics = metrics_text(built.metrics.registry)

        def scraped(accept: str) -> tuple[bytes, str]:
            _refresh(built)
            return write_metrics(accept)

        address = "0" if settings.metrics_addr is None else str(settings.metrics_addr)
        http = await serve_probes(
            address,
            scraped,
            lambda: built.log.status().waiting,
            not_alive=lambda: not_alive(built.log),
            report=built.report,
        )
        if http is not None:
            stack.push_async_callback(http.stop)
        ports = (settings.listen, settings.raft_bind) if settings.replicas > 1 else (settings.listen,)
        show_exposure(built.metrics, *ports, secured=built.tls is not None)
        logger.info("listening", port=server.port, metrics_port=0 if http is None else http.port)
        sources = (
            f"--coordinator-addr=127.0.0.1:{server.port}",
            f"--data-dir={fspath(settings.data_dir)}/dashboard",
        )
        await stack.enter_async_context(dashboard_beside(settings.dashboard_addr, logger, *sources))
        parts = _parts(settings, built, seams, server, logger)
        await run_parts(parts, proc=seams.proc, clock=seams.clock, log=logger, metrics=built.metrics)
    return seams.proc.exit_code


def _parts(
    settings: CoordinatorSettings,
    built: _Built,
    seams: Seams,
    server: RpcServer,
    logger: FilteringBoundLogger,
) -> dict[str, Part]:
    parts: dict[str, Part] = {
        "log": built.log.wait_failure(),
        "upkeep": built.replica.maintenance.run(server.health),
        "garbage": freeze_live_objects(seams.clock),
    }
    if settings.snapshot_export_dir is not None:
        export = ExportLoop(
            directory=ExportDirectory(
                seams.disk, settings.snapshot_export_dir, settings.snapshot_export_keep
            ),
            interval_s=settings.snapshot_export_interval,
            log=built.log,
            leadership=built.replica.leadership,
            clock=seams.clock,
            metrics=built.metrics,
            logger=logger,
            on_exported=built.replica.service.record_export,
        )
        parts["snapshot export"] = export.run()
    return parts


async def _drain(server: RpcServer, built: _Built, grace_s: float) -> None:
    """Refuse new calls, transfer leadership, let running calls finish."""
    server.health.set_serving(COORDINATOR.name, False)
    stopping = asyncio.ensure_future(server.stop(grace_s))
    try:
        await built.log.transfer_leadership()
    finally:
        await stopping


def _refresh(built: _Built) -> None:
    built.replica.state_metrics.refresh()
    built.metrics.gauge("bigfleet_coordinator_journal_bytes").set(built.log.journal_bytes())
    if built.tls is not None:
        ends = built.metrics.gauge(
            "bigfleet_tls_certificate_not_after_timestamp_seconds", role=Role.ADMIN.value
        )
        ends.set(built.tls.pair().not_after.timestamp())


class TickingLog(Protocol):
    """A log whose thread reports when it last ran."""

    def tick_age_s(self) -> float: ...


def not_alive(log: TickingLog) -> list[str]:
    """Return why the process must be restarted; losing the majority is not a reason."""
    age_s = log.tick_age_s()
    return [f"the Raft loop has been silent for {age_s:.0f} s"] if age_s > WEDGED_S else []


def _warn_of_plaintext(settings: CoordinatorSettings, logger: FilteringBoundLogger) -> None:
    if settings.tls_cert is None:
        logger.warning(
            "plaintext",
            what="no TLS flags: every identity check is skipped"
            + (", and replicas are identified by the Raft secret alone" if settings.replicas > 1 else ""),
        )


def _hooks(logger: FilteringBoundLogger, metrics: Metrics) -> ServerHooks:
    def refused(method: str, peer: Peer, why: str) -> None:
        rpc = method.rpartition("/")[2]
        metrics.counter("bigfleet_coordinator_identity_rejected_total", rpc=rpc).inc()
        logger.error(
            "identity_refused", rpc=rpc, peer=peer.address, identity=str(peer.identity or ""), why=why
        )

    def defect(method: str, error: BaseException) -> None:
        logger.error("rpc_defect", method=method, exc_info=error)

    return ServerHooks(on_identity_refused=refused, on_defect=defect)
