"""Log lines for the program of an author: one JSON object each, on standard error, secrets masked.

Why: without it a library's own idea of a log line (colours, standard output, every debug line) would be the first thing an
operator of a new provider meets.
Must never: be used inside one of our own programs, which set up their logs by flags.
Rules: providers 4.1 (observability).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from bigfleet.aio.clock import NANOSECONDS, SystemClock
from bigfleet.obs.logs import Level, process_logs


@contextmanager
def json_logs(level: Level = "info", *, provider: str = "") -> Iterator[None]:
    """Write every line of this process, the kit's and the libraries', as JSON to standard error while the block runs."""
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
