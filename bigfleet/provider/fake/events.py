"""What happened, in order: every call with its token, every transition, every fault that was injected.

Why: a test that failed asks what the provider saw; and two runs of one seed are equal exactly when these lines are.
Must never: hold a bootstrap blob, grow without bound, or carry anything but virtual time, ids and values: no address, no
object number, nothing that two equal runs would not share.
Rules: providers 5.2 (`/calls`, `/log`), acceptance 23.
"""

import json
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, cast

import structlog
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import NANOSECONDS, Clock

KEPT_LINES: Final = 100_000
KEPT_CALLS: Final = 10_000
KEPT_TEXT: Final = 256
"""Characters of a text that are kept; a caller chooses how long its ids are, and how much memory is filled is not his choice."""
_INFO: Final = 20


@dataclass(slots=True)
class SeenCall:
    """One call that came in; `code` stays empty while it runs."""

    number: int
    at_s: float
    rpc: str
    machine_id: str = ""
    shard_id: str = ""
    epoch: int = 0
    sequence: int = 0
    arguments: str = ""
    """What else it asked for, in words; of a blob only its length."""
    code: str = ""
    detail: str = ""
    operation_id: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Return it as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


class EventLog:
    """The newest events and calls of one provider; its clock starts at zero."""

    def __init__(self, clock: Clock, *, lines: int = KEPT_LINES, calls: int = KEPT_CALLS) -> None:
        self._clock, self._started_ns = clock, clock.monotonic_ns()
        self._lines: deque[str] = deque(maxlen=lines)
        self.calls: deque[SeenCall] = deque(maxlen=calls)
        self.numbered = 0
        self.called = 0

    def now_s(self) -> float:
        """Return the seconds since the start, to the microsecond."""
        return round((self._clock.monotonic_ns() - self._started_ns) / NANOSECONDS, 6)

    def add(self, event: str, **fields: object) -> None:
        """Note an event."""
        self.numbered += 1
        line = {"n": self.numbered, "t": self.now_s(), "event": event, **fields}
        self._lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False, default=str))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that are kept, the oldest first; each is a JSON object."""
        return tuple(self._lines)

    @property
    def text(self) -> str:
        """The same as one text."""
        return "".join(f"{line}\n" for line in self._lines)

    def call_began(self, call: SeenCall) -> SeenCall:
        """Note a call that has come in."""
        self.called += 1
        call.number, call.at_s = self.called, self.now_s()
        call.machine_id, call.shard_id = _shortened(call.machine_id), _shortened(call.shard_id)
        call.arguments = _shortened(call.arguments)
        self.calls.append(call)
        return call

    def call_ended(self, call: SeenCall, code: str, detail: str = "", operation_id: str = "") -> None:
        """Note how it ended."""
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
        """Return a logger whose lines are noted here and written by the one given."""

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
