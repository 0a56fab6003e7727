"""Runs the parts of a process until a signal comes or a part ends by itself, and builds what every process has.

Why: every program ends in the same way, with 0 only for a signal.
Must never: end with 0 when a part ended by itself (`shard#part-ends`), or leave a part running.
Rules: `packaging#exit-codes`, `shard#part-ends`, `shard#stopping`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.aio.connection_report import NO_REPORT, ConnectionReport
from bigfleet.aio.disk import DiskError
from bigfleet.aio.given_files import SETTINGS_BYTES, UnfitFileError, open_to_others, read_given
from bigfleet.aio.proc import Proc
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.settings import ProcessFlags, TlsFlags
from bigfleet.cli.verbs.version import build_commit
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.catalogue import MetricCatalogue
from bigfleet.obs.exposition import metrics_text
from bigfleet.obs.logs import Level, process_logs
from bigfleet.obs.loop_lag import sample_loop_lag
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.address import PLAINTEXT, ListenAddress, is_exposed
from bigfleet.transport.probes import Reasons, serve_probes
from bigfleet.transport.tls import TlsStore
from bigfleet.version import __version__

Part = Coroutine[Any, Any, object]
OnStop = Callable[[], Awaitable[None]]
_CERTIFICATE_S: Final = 60.0


async def run_parts(
    parts: Mapping[str, Part],
    *,
    proc: Proc,
    clock: Clock,
    log: FilteringBoundLogger,
    metrics: Metrics,
    on_stop: OnStop | None = None,
) -> int:
    """Run the parts and the measurement of the loop lag until a signal comes; return the exit code."""
    lag = metrics.histogram("bigfleet_event_loop_lag_seconds")
    every = {**parts, "loop lag": sample_loop_lag(clock, lag.observe)}
    await run_until_stop(every, proc, log, on_stop=on_stop)
    return proc.exit_code


async def run_until_stop(
    parts: Mapping[str, Part], proc: Proc, log: FilteringBoundLogger, *, on_stop: OnStop | None = None
) -> None:
    """Run the parts until a stop is requested or one of them ends, which is a failure and sets the exit code.

    After a signal, `on_stop` may finish running work before the parts end. A part that returns or raises an object with an
    `exit_code` sets that code.
    """
    tasks = {asyncio.ensure_future(part): name for name, part in parts.items()}
    stop = asyncio.ensure_future(proc.wait_stop())
    try:
        done, _ = await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        if stop in done:
            log.info("stopping", why=stop.result())
        for task in sorted(done - {stop}, key=lambda ended: tasks[ended]):
            problem = _cause(task.exception()) or task.result()
            log.error("part_ended", part=tasks[task], why=str(problem))
            code = getattr(problem, "exit_code", ExitCode.FAILURE)
            proc.request_stop(f"{tasks[task]}: {problem}", code)
        if on_stop is not None and not proc.exit_code:
            await on_stop()
    finally:
        for task in (*tasks, stop):
            task.cancel()
        await asyncio.wait([*tasks, stop])


def process_log(
    settings: ProcessFlags,
    console: Console,
    component: str,
    *,
    level: Level | None = None,
    **bound: str | int,
) -> AbstractContextManager[FilteringBoundLogger]:
    """Return the log of a process; `bound` is added to every line."""
    return process_logs(
        level=level or settings.log_level,
        form=settings.log_format,
        stream=console.stderr,
        now=console.now,
        component=component,
        **bound,
    )


def process_metrics(catalogue: MetricCatalogue, console: Console) -> Metrics:
    """Return the metrics of a process, with the version and commit of its build."""
    commit = build_commit(console.environ)
    return Metrics(catalogue, CollectorRegistry(), version=__version__, commit=commit)


async def serve_metrics(
    stack: AsyncExitStack,
    address: ListenAddress | None,
    metrics: Metrics,
    not_ready: Reasons,
    remarks: Reasons = tuple,
    *,
    report: ConnectionReport = NO_REPORT,
) -> int:
    """Serve metrics and probes until the stack closes; return the port, 0 when there is no address."""
    text = metrics_text(metrics.registry)
    place = "0" if address is None else str(address)
    http = await serve_probes(place, text, not_ready, remarks=remarks, report=report)
    if http is None:
        return 0
    stack.push_async_callback(http.stop)
    return http.port


class FlagError(BigFleetError):
    """The file or address that a flag names cannot be used."""


@contextmanager
def flag_errors(flag: str) -> Iterator[None]:
    """Add the name of the flag to errors of the block."""
    try:
        yield
    except BigFleetError as error:
        raise FlagError(f"{flag}: {error}") from error


def tls_store(settings: TlsFlags, log: FilteringBoundLogger) -> TlsStore | None:
    """Load the certificates of the TLS flags; None means plaintext. Later problems are logged."""
    return settings.tls_store(
        lambda problem: log.error("tls_problem", problem=problem),
        lambda warning: log.warning("secret_open_to_others", file=warning),
    )


def read_flag_file(flag: str, path: Path, limit: int = SETTINGS_BYTES) -> bytes:
    """Return the content of the file that a flag names; what cannot be read is a `UsageError` with the flag's name."""
    try:
        return read_given(SystemDisk(), path, limit)
    except (DiskError, UnfitFileError) as error:
        raise UsageError(f"{flag}: {error}") from None


def warn_of_open_secret(log: FilteringBoundLogger, *paths: Path | None) -> None:
    """Warn of each secret file that every user of the host may read."""
    for path in paths:
        if path is not None and (warning := open_to_others(SystemDisk(), path)):
            log.warning("secret_open_to_others", file=warning)


def warn_of_plaintext(
    log: FilteringBoundLogger, listen: ListenAddress, *, secured: bool, what: str = PLAINTEXT
) -> None:
    """Warn of a port that other hosts can reach without TLS; on it no caller is asked for an identity."""
    if is_exposed(listen, secured=secured):
        log.warning("plaintext", listen=str(listen), what=what)


def show_exposure(metrics: Metrics, *ports: ListenAddress, secured: bool) -> None:
    """Export whether one of these ports is open without TLS beyond loopback."""
    metrics.gauge("bigfleet_plaintext_exposed").set(is_exposed(*ports, secured=secured))


async def show_certificate(store: TlsStore, metrics: Metrics, clock: Clock, role: str) -> NoReturn:
    """Export the expiry time of the certificate, again every minute, since it may be replaced."""
    gauge = metrics.gauge("bigfleet_tls_certificate_not_after_timestamp_seconds", role=role)
    while True:
        gauge.set(store.pair().not_after.timestamp())
        await clock.sleep(_CERTIFICATE_S)


def _cause(problem: BaseException | None) -> BaseException | None:
    """Return the first failure inside an exception group, whose own text is not useful."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
