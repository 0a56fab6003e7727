"""The dashboard that a shard or coordinator starts as a separate process.

Why: a page of a large fleet takes tens of milliseconds, which inside the shard would delay its cycles.
Must never: end or delay the process that started it, or outlive it (the kernel ends it even after SIGKILL).
Rules: `dashboard#process`, `dashboard#budgets`; ADR-0145.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.settings import TlsFlags
from bigfleet.transport.address import ListenAddress

_GRACE_S: Final = 5.0
# The child asks the kernel to end it with its parent, then executes the dashboard: Python code between fork and exec is
# not safe in a process with threads.
_BECOME: Final = (
    f"import ctypes,os,sys;ctypes.CDLL(None).prctl(1,{int(signal.SIGTERM)});"
    "os.execv(sys.executable,[sys.executable,'-c',"
    "'import sys; from bigfleet.app.bigfleet import main; sys.exit(main(sys.argv[1:]))',*sys.argv[1:]])"
)


def check_dashboard(address: ListenAddress | None, settings: TlsFlags) -> None:
    """Refuse --dashboard-addr with TLS, where the dashboard needs its own certificate."""
    if address is not None and settings.tls_cert is not None:
        raise UsageError(
            "--dashboard-addr: found together with --tls-cert, allowed is without; under TLS run bigfleet dashboard with "
            "a certificate of the role readonly"
        )


@asynccontextmanager
async def dashboard_beside(
    address: ListenAddress | None, log: FilteringBoundLogger, *sources: str
) -> AsyncIterator[None]:
    """Run a dashboard on this address, if any, until the block ends; `sources` are its flags."""
    if address is None:
        yield
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BECOME, "dashboard", f"--listen={address}", *sources, stdin=asyncio.subprocess.DEVNULL
    )  # fmt: skip
    log.info("dashboard_started", address=str(address), pid=process.pid)
    watching = asyncio.create_task(_log_end(process, log))
    try:
        yield
    finally:
        watching.cancel()
        await _end(process)


async def _log_end(process: asyncio.subprocess.Process, log: FilteringBoundLogger) -> None:
    code = await process.wait()
    log.error("dashboard_ended", code=code, why="its own log has the reason; this process continues")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        done, _ = await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=_GRACE_S)
        if not done:
            process.kill()
            await process.wait()
