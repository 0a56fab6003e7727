"""Histories of domain assignments, as clients record them.

Why: clients are processes that may be killed, so each call is one line of a file.
Must never: count a call as failed that may have happened; only FAILED_PRECONDITION and refusals rule that out.
Rules: `coordinator#commands`, `coordinator#write-outcomes`, `coordinator#calls`, `coordinator#linearizable-reads`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One line of a history; times are of the monotonic clock that all processes of a host share."""

    kind: str
    """assign, unassign or list."""
    began: int
    ended: int | None
    domain: str = ""
    shard: str = ""
    owner: str = ""
    """The shard that holds the domain, for a refused assignment."""
    rows: tuple[tuple[str, str], ...] = ()
    """Every domain with its shard, for a listing."""


def to_line(call: RecordedCall) -> str:
    """Return a call as one line of JSON."""
    return json.dumps(asdict(call), separators=(",", ":"))


def from_lines(lines: Iterable[str]) -> Iterator[RecordedCall]:
    """Read calls; skip a line that a killed client left half-written."""
    for line in lines:
        if line.endswith("\n"):
            document = json.loads(line)
            document["rows"] = tuple((domain, shard) for domain, shard in document["rows"])
            yield RecordedCall(**document)
