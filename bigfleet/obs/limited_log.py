"""A log for what peers cause: so many lines a minute about one of them, and so many about all.

Why: a peer decides how often it sends a bad frame; it must not decide how much is logged. `bigfleet.obs.cutting` bounds the
texts of every line.
Must never: log a line behind others that were left out without saying how many, or remember names without bound.
Rules: `shard#session-log`; ADR-0235.

    log = LimitedLog(log, clock, about="cluster")
    log.warning("session_refused", "prod", why="...")      # cluster=prod why=...
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.model.errors import cut

WINDOW_S: Final = 60.0
PER_NAME: Final = 5
"""Lines of one event about one peer in a window; enough to see what is wrong and that it goes on."""
PER_EVENT: Final = 5000
"""Lines of one event about all peers in a window: one for each operator of a large shard that reconnects."""
_WINDOWS: Final = 32_768
_SWEPT_EVERY_S: Final = 1.0


@dataclass(slots=True)
class _Window:
    until_s: float
    lines: int = 0
    left_out: int = 0


class LimitedLog:
    """A log whose lines about one peer, and of one event, are limited."""

    def __init__(self, log: FilteringBoundLogger, clock: Clock, *, about: str) -> None:
        """`about` is the key under which each line names its peer."""
        self._log, self._clock, self._about = log, clock, about
        self._windows: dict[tuple[str, str | None], _Window] = {}
        self._sweep_at_s = 0.0

    def debug(self, event: str, name: str, **values: object) -> None:
        self._write(self._log.debug, event, name, values)

    def info(self, event: str, name: str, **values: object) -> None:
        self._write(self._log.info, event, name, values)

    def warning(self, event: str, name: str, **values: object) -> None:
        self._write(self._log.warning, event, name, values)

    def error(self, event: str, name: str, **values: object) -> None:
        self._write(self._log.error, event, name, values)

    def _write(
        self,
        write: Callable[..., Any],  # Any: loggers return what they like
        event: str,
        name: str,
        values: dict[str, object],
    ) -> None:
        name, now_s = cut(name), monotonic_s(self._clock)
        own, every = self._window(event, name, now_s), self._window(event, None, now_s)
        if every.lines >= PER_EVENT or (own is not every and own.lines >= PER_NAME):
            own.left_out += 1
            return
        own.lines += 1
        if own is not every:
            every.lines += 1
        left_out: dict[str, object] = {"lines_left_out": own.left_out} if own.left_out else {}
        own.left_out = 0
        write(event, **{self._about: name}, **values, **left_out)

    def _window(self, event: str, name: str | None, now_s: float) -> _Window:
        window = self._windows.get((event, name))
        if window is None:
            if len(self._windows) >= _WINDOWS:
                self._sweep(now_s)
            if len(self._windows) >= _WINDOWS and name is not None:
                return self._window(event, None, now_s)  # all new names share one
            window = self._windows[event, name] = _Window(now_s + WINDOW_S)
        elif window.until_s <= now_s:
            window.until_s, window.lines = now_s + WINDOW_S, 0
        return window

    def _sweep(self, now_s: float) -> None:
        if now_s >= self._sweep_at_s:
            self._sweep_at_s = now_s + _SWEPT_EVERY_S
            self._windows = {key: each for key, each in self._windows.items() if each.until_s > now_s}
