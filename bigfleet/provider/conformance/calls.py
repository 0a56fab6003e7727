"""The calls to the provider and its answers, for the report of a failure.

Why: a failed behaviour is worth as much as its report; the author of the provider needs the exact calls.
Must never: keep a bootstrap blob or the values of a metadata map; only lengths and counts are kept.
Rules: `providers#conformance`, `providers#failure-report`, `providers#conformance-determinism`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.states import has_host, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_LAST_SHOWN: Final = 60
_TEXT_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class CallToken:
    """A fencing token; wholly empty means a caller without fencing."""

    shard: str = ""
    epoch: int = 0
    sequence: int = 0

    def __str__(self) -> str:
        if self == NO_TOKEN:
            return "no token"
        return f"token ({self.shard or chr(34) * 2}, {self.epoch}, {self.sequence})"


NO_TOKEN: Final = CallToken()


@dataclass(slots=True)
class CallRecord:
    """One call, or a run of equal polls with equal answers."""

    asked: str
    poll: bool
    answer: str = "no answer yet"
    times: int = 1

    def line(self) -> str:
        """Return the call and its answer in one line."""
        often = f" (polled {self.times} times)" if self.times > 1 else ""
        return f"{self.asked} -> {self.answer}{often}"


@dataclass(slots=True)
class CallLog:
    """The calls of one behaviour, in the order in which they were begun."""

    records: list[CallRecord] = field(default_factory=list)

    def begin(self, asked: str, *, poll: bool) -> CallRecord:
        """Note a call that is about to be sent."""
        record = CallRecord(asked, poll)
        self.records.append(record)
        return record

    def end(self, record: CallRecord, answer: str) -> None:
        """Note the answer; a poll that found what the poll before it found is folded into that one."""
        record.answer = answer
        if not record.poll or len(self.records) < 2 or self.records[-1] is not record:
            return
        before = self.records[-2]
        if before.poll and (before.asked, before.answer) == (record.asked, record.answer):
            before.times += 1
            self.records.pop()

    def lines(self) -> tuple[str, ...]:
        """Return the story, its beginning left out where it is very long."""
        shown = self.records[-_LAST_SHOWN:]
        left_out = len(self.records) - len(shown)
        head = (f"({left_out} earlier calls left out)",) if left_out else ()
        return head + tuple(record.line() for record in shown)

    def sequence(self) -> tuple[str, ...]:
        """Return what was asked, without answers; polls of one thing in a row count once, as their number is chance."""
        return tuple(self._sequence())

    def _sequence(self) -> Iterator[str]:
        before: CallRecord | None = None
        for record in self.records:
            if before is None or not (before.poll and record.poll and before.asked == record.asked):
                yield record.asked
            before = record


def told_code(code: Code, detail: str) -> str:
    """Return a refusal in one line."""
    return f"{code.name}: {_short(detail)}" if detail else code.name


def told_machine(machine: pb.Machine) -> str:
    """Return what matters of a record in one line."""
    parts = [state_name(machine.state)]
    if has_host(machine):
        parts.append(f"host {machine.host.provider}/{machine.host.ref}")
    if machine.cluster:
        parts.append(f"cluster {machine.cluster}")
    if machine.shard_metadata:
        parts.append(f"{len(machine.shard_metadata)} metadata keys")
    if machine.last_error:
        parts.append(f"last_error {_short(machine.last_error)!r}")
    return ", ".join(parts)


def told_bytes(data: bytes) -> str:
    """Return a cursor or another opaque value, shortened."""
    return repr(data) if len(data) <= 24 else f"{data[:12]!r}… ({len(data)} bytes)"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[:_TEXT_SHOWN]}…"
