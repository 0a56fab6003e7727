"""Log set-up for the program of an author: one JSON object per line on standard error, secrets masked.

Must never: be used in the programs of this package, which set up their logs by flags.
Rules: `providers#kit-observability`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from bigfleet.aio.clock import NANOSECONDS, SystemClock
from bigfleet.obs.logs import Level, process_logs


@contextmanager
def json_logs(level: Level = "info", *, provider: str = "") -> Iterator[None]:
    """Write every log line of this process as JSON to standard error while the block runs."""
    clock = SystemClock()
    bound = {"provider": provider} if provider else {}
    with process_logs(
        level=level,
        form="json",
        stream=sys.stderr,
        now=lambda: datetime.fromtimestamp(clock.wall_ns() / NANOSECONDS, UTC),
        component="provider",
        **bound,
    ):
        yield
