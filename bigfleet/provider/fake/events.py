"""The event log of a fake: every call with its token, every transition, every injected fault.

Why: two runs with one seed are equal exactly when these lines are.
Must never: hold a bootstrap blob, grow without bound, or contain what two equal runs would not share, such as an address.
Rules: `providers#fake-control`, `providers#fake-determinism`.
"""

import json
from collections import Counter, deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, cast

import structlog
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import NANOSECONDS, Clock

KEPT_LINES: Final = 100_000
KEPT_CALLS: Final = 10_000
KEPT_TEXT: Final = 256
"""Longest text that is kept, in characters; callers choose the length of their ids."""
_INFO: Final = 20


@dataclass(slots=True)
class SeenCall:
    """One received call; `code` is empty while it runs."""

    number: int
    at_s: float
    rpc: str
    machine_id: str = ""
    shard_id: str = ""
    epoch: int = 0
    sequence: int = 0
    arguments: str = ""
    """The other arguments in words; of a blob only its length."""
    code: str = ""
    detail: str = ""
    operation_id: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class EventLog:
    """The newest events and calls of one provider; its clock starts at 0."""

    def __init__(self, clock: Clock, *, lines: int = KEPT_LINES, calls: int = KEPT_CALLS) -> None:
        self._clock, self._started_ns = clock, clock.monotonic_ns()
        self._lines: deque[str] = deque(maxlen=lines)
        self.calls: deque[SeenCall] = deque(maxlen=calls)
        self.numbered = 0
        self.called = 0
        self.called_by_rpc: Counter[str] = Counter()
        """Calls received since the start, also those that were refused or are no longer kept."""

    def now_s(self) -> float:
        """Return the seconds since the start, to the microsecond."""
        return round((self._clock.monotonic_ns() - self._started_ns) / NANOSECONDS, 6)

    def add(self, event: str, **fields: object) -> None:
        self.numbered += 1
        line = {"n": self.numbered, "t": self.now_s(), "event": event, **fields}
        self._lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False, default=str))

    @property
    def lines(self) -> tuple[str, ...]:
        """The kept lines, the oldest first; each is a JSON object."""
        return tuple(self._lines)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def call_began(self, call: SeenCall) -> SeenCall:
        self.called += 1
        self.called_by_rpc[call.rpc] += 1
        call.number, call.at_s = self.called, self.now_s()
        call.machine_id, call.shard_id = _shortened(call.machine_id), _shortened(call.shard_id)
        call.arguments = _shortened(call.arguments)
        self.calls.append(call)
        return call

    def call_ended(self, call: SeenCall, code: str, detail: str = "", operation_id: str = "") -> None:
        call.code, call.detail, call.operation_id = code, _shortened(detail), operation_id
        call.seconds = round(self.now_s() - call.at_s, 6)
        self.add(
            "call",
            rpc=call.rpc,
            id=call.machine_id,
            token=[call.shard_id, call.epoch, call.sequence],
            asked=call.arguments,
            code=code,
            operation=operation_id,
            seconds=call.seconds,
        )

    def recording(self, log: FilteringBoundLogger) -> FilteringBoundLogger:
        """Return a logger that appends its lines here and writes them with the given one."""

        def note(_logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
            fields = dict(line)
            event = str(fields.pop("event"))
            if method != "debug" and "exc_info" not in fields:
                self.add(event, **fields)
            write: Callable[..., object] = getattr(log, method)
            write(event, **fields)
            raise structlog.DropEvent

        made = structlog.wrap_logger(
            None, processors=[note], wrapper_class=structlog.make_filtering_bound_logger(_INFO)
        )
        return cast("FilteringBoundLogger", made)


def _shortened(text: str) -> str:
    return text if len(text) <= KEPT_TEXT else f"{text[:KEPT_TEXT]}… ({len(text)} characters)"
