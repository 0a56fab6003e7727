"""Log lines of a process: JSON or console, to standard error, secrets masked, libraries included.

Why: one form of line for our code and for the libraries we use, so that one query finds both.
Must never: print the value of a key that looks like a secret, break a line in JSON, tracebacks included, or print a text of
any length: peers decide how long theirs are.
Rules: `packaging#common-flags`, `shard#flags`.

    with process_logs(level="info", form=None, stream=sys.stderr, now=utc_now, component="shard", shard="shard-0") as log:
        log.warning("rollup_held", cluster=cluster, rows=rows)
"""

import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from bigfleet.model.times import rfc3339_of
from bigfleet.obs.cutting import cut_texts
from bigfleet.obs.masking import mask_secrets

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["json", "console"]

_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def build_logger(
    *, level: Level, form: Form | None, stream: TextIO, now: Callable[[], datetime], **bound: str | int
) -> FilteringBoundLogger:
    """Return a logger that writes to a stream; without a form JSON, on a terminal console."""
    logger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=_processors(form, stream, now),
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
    )
    return cast("FilteringBoundLogger", logger.bind(**bound))


@contextmanager
def process_logs(
    *, level: Level, form: Form | None, stream: TextIO, now: Callable[[], datetime], **bound: str | int
) -> Iterator[FilteringBoundLogger]:
    """Make every line of this process one of ours while the block runs, and hand out the process's logger.

    That is the lines of the logger it yields, of `structlog.get_logger()` anywhere in the rooms, of the standard
    library's logging, and Python warnings. Inside of it nothing else may configure logging.
    """
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(
        processors=[_binder(bound), *_processors(form, stream, now)],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    log = build_logger(level=level, form=form, stream=stream, now=now, **bound)
    try:
        with library_logs(log, level):
            yield log
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


@contextmanager
def library_logs(log: FilteringBoundLogger, level: Level) -> Iterator[None]:
    """Route the standard library's logging, and Python warnings, into a logger while the block runs."""
    root = logging.getLogger()
    handlers, root_level = root.handlers[:], root.level
    root.handlers[:] = [_Forwarder(log)]
    root.setLevel(_LEVELS[level])
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(root_level)


class _Forwarder(logging.Handler):
    """Turns a library's log record into one of our lines."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        exc_info = record.exc_info if record.exc_info and record.exc_info[0] is not None else None
        extra: dict[str, Any] = {"exc_info": exc_info} if exc_info else {}  # Any: the logger takes any value
        try:
            self._log.log(
                record.levelno, "library", library=record.name, message=record.getMessage(), **extra
            )
        except Exception:
            self.handleError(record)


def _processors(form: Form | None, stream: TextIO, now: Callable[[], datetime]) -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        _stamper(now),
        structlog.processors.format_exc_info,
        mask_secrets,
        cut_texts,
        _renderer(form or ("console" if stream.isatty() else "json"), stream),
    ]


def _binder(bound: Mapping[str, str | int]) -> Processor:
    def bind(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**bound, **line}

    return bind


def _stamper(now: Callable[[], datetime]) -> Processor:
    def stamp(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        time = rfc3339_of(now(), timespec="microseconds")
        # In front of all else, as people read lines from the left.
        return {"time": time, "level": line.pop("level"), "event": line.pop("event"), **line}

    return stamp


def _renderer(form: Form, stream: TextIO) -> Processor:
    if form == "json":
        return structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=False)
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
    )
